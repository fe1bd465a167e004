"""What the paper published, as points to lay over a study's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastrcaps_search.definition.networks import LENET5_PARAMETERS
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.time_axis import TimeAxis

FIGURES = Path(__file__).with_name("fastrcaps-paper.toml")
HARDWARE = "two Nvidia GTX 1080 Ti"
TRAIN_IMAGES = 60_000
"""The paper trains on all training images."""


@dataclass(frozen=True, slots=True)
class PaperPoint:
    """One published figure: a training, or the mean of several.

    Attributes:
        name: The paper's name of it.
        runs: Trainings that it is the mean of.
        accuracy: Highest test accuracy over the epochs, a fraction.
        parameters: Learned parameters, without the paper's coupling coefficients.
        positions: Training time in the measures that the paper gives. Its seconds are the epoch
            of the highest accuracy times its figure's seconds per epoch, on its own hardware.
    """

    name: str
    runs: int
    accuracy: float
    parameters: int
    positions: Mapping[TimeAxis, float]


def paper_points(definition: StudyDefinition) -> tuple[PaperPoint, ...]:
    """The points for the study's images and kind of network; the paper has no others."""
    figures, (images, network) = published(), table_names(definition)
    return tuple(
        _point(figures, network, row, runs=figures["runs"][images][network])
        for row in figures.get(images, {}).get(network, ())
    )


def published() -> dict[str, Any]:
    """The file of the paper's figures."""
    return tomllib.loads(FIGURES.read_text(encoding="utf-8"))


def table_names(definition: StudyDefinition) -> tuple[str, str]:
    """Under which images and which network the file has the figures to set beside a study."""
    images = (definition.data_set.drawn_from or definition.data_set.name).replace("-", "_")
    return images, "lenet5" if definition.network == "lenet5" else "capsnet"


def _point(
    figures: Mapping[str, Any], network: str, row: Mapping[str, Any], *, runs: int
) -> PaperPoint:
    epochs = float(row["epoch_of_max"])
    positions = {TimeAxis.EPOCHS: epochs, TimeAxis.SAMPLES: epochs * TRAIN_IMAGES}
    per_epoch = row.get("figure_seconds_per_epoch")
    if network == "lenet5" and row["name"] == "fixed":
        per_epoch = figures["seconds_per_epoch"]["lenet5_fixed"]
    if per_epoch is not None:
        positions[TimeAxis.SECONDS] = positions[TimeAxis.PAPER] = epochs * per_epoch
    return PaperPoint(
        name=row["name"],
        runs=runs,
        accuracy=row["accuracy"] / 100,
        parameters=_parameters(figures["parameters"], network, row["name"]),
        positions=positions,
    )


def _parameters(figures: Mapping[str, Any], network: str, name: str) -> int:
    if network == "lenet5":
        return LENET5_PARAMETERS
    shared = name.endswith("weight_sharing")
    counted = figures["shared_reduced_with_coupling" if shared else "baseline_with_coupling"]
    return int(counted - figures["coupling_coefficients"])
