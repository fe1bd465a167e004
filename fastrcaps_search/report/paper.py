"""What the paper published: its figures for a study's images and kind of network."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.fronts import Row, TimeAxis
from fastrcaps_search.training.policy import TrainingPlan, training_plan

FIGURES = Path(__file__).with_name("fastrcaps-paper.toml")
BASELINE = "fixed"
"""The configuration that the paper measures the others against."""


class Measure(StrEnum):
    """What is compared: the columns, each with its title."""

    ACCURACY = "accuracy"
    EPOCH_OF_MAX = "epoch of the maximum"
    EPOCHS_TO_BASELINE = "epochs to the accuracy of fixed"
    TIME_REDUCTION = "reduction of training time"
    EPOCH_REDUCTION = "reduction in epochs"

    @property
    def against_baseline(self) -> bool:
        """Whether it says how a configuration compares with the baseline."""
        return self not in (Measure.ACCURACY, Measure.EPOCH_OF_MAX)

    @property
    def counts_epochs(self) -> bool:
        """Whether it is a number of epochs; the others are fractions."""
        return self in (Measure.EPOCH_OF_MAX, Measure.EPOCHS_TO_BASELINE)

    def written(self, value: float, *, sign: bool = False, exact: bool = False) -> str:
        """A figure without its unit; ``exact`` leaves out zeros at the end of the decimals."""
        scaled = value if self.counts_epochs else 100 * value
        digits = 3 if self is Measure.ACCURACY else 1
        # The added zero turns a negative one into a plain one.
        found = f"{round(scaled, digits) + 0.0:{'+' if sign else ''}.{digits}f}"
        if exact:
            found = found.rstrip("0").rstrip(".")
        return found.replace("-", "\u2212")


Figures = Mapping[Measure, float]
"""Those of one configuration, run or curve; what is not known is not there."""


# Not slotted: what its configurations train is worked out once.
@dataclass(frozen=True)
class Published:
    """A table of the paper.

    Attributes:
        hardware: What it trained on.
        runs: Trainings behind each of its figures. The paper prints no spread beside them.
        study: The shipped study that trains as the paper did.
        rows: What the file of figures says of each configuration, by name and in the paper's
            order, which is that of the study.
    """

    hardware: str
    runs: int
    study: StudyDefinition
    rows: Mapping[str, Mapping[str, Any]]

    def rows_in(self, axis: TimeAxis) -> Mapping[str, Row]:
        """The figures by name as the rows of a front, where the paper gives that measure of time.

        Accuracies are fractions, parameters learned ones, without the paper's coupling
        coefficients. Seconds are the epoch of the highest accuracy times the seconds per epoch of
        the paper's figure, on its own hardware.
        """
        found = {}
        learned = self.study.architecture.parameters
        for (name, row), chosen in zip(self.rows.items(), self.study.configurations, strict=True):
            epochs = row["epoch_of_max"]
            times = {TimeAxis.EPOCHS: epochs, TimeAxis.SAMPLES: epochs * self.study.split_size}
            if (seconds := row.get("figure_seconds_per_epoch")) is not None:
                times |= dict.fromkeys((TimeAxis.SECONDS, TimeAxis.PAPER), epochs * seconds)
            if axis in times:
                parameters = learned(chosen.decoder, chosen.weight_sharing)
                values = (row["accuracy"] / 100, float(times[axis]), parameters)
                found[name] = dict(zip(COMMON, values, strict=True))
        return found

    @property
    def figures(self) -> Mapping[str, Figures]:
        """The figures, and what follows from them, by name; not all have epochs to reach."""
        baseline, found = self.rows[BASELINE], {}
        for name, row in self.rows.items():
            figures = found[name] = {
                Measure.ACCURACY: row["accuracy"] / 100,
                Measure.EPOCH_OF_MAX: float(row["epoch_of_max"]),
            }
            reached = row.get("epochs_to_fixed_accuracy")
            if reached is None or row is baseline:
                continue
            share = reached / baseline["epoch_of_max"]
            figures[Measure.EPOCHS_TO_BASELINE] = float(reached)
            figures[Measure.EPOCH_REDUCTION] = 1 - share
            seconds, against = (one.get("figure_seconds_per_epoch") for one in (row, baseline))
            if seconds is not None and against is not None:
                figures[Measure.TIME_REDUCTION] = 1 - share * seconds / against
        return found

    @property
    def known(self) -> set[Measure]:
        """What it has a figure of."""
        return {measure for figures in self.figures.values() for measure in figures}

    def name_of(self, definition: StudyDefinition, parameters: TrialParameters) -> str | None:
        """The paper's name of a trial's configuration; ``None`` where it trained another.

        Its figures compare where all training images were trained on as in the paper, and the
        test set was read after each of its epochs.
        """
        same_data = definition.data_set == self.study.data_set
        is_judged_alike = same_data and definition.evaluate_on is EvaluateOn.TEST
        return self._names.get(self._plan(definition, parameters)) if is_judged_alike else None

    @cached_property
    def _names(self) -> Mapping[TrainingPlan, str]:
        named = zip(self.study.configurations, self.rows, strict=True)
        return {self._plan(self.study, parameters): name for parameters, name in named}

    def _plan(self, definition: StudyDefinition, parameters: TrialParameters) -> TrainingPlan:
        """What is trained, whatever its arithmetic and how far its gradients flow."""
        return replace(
            training_plan(definition, parameters),
            precision=self.study.precision,
            routing_gradient=self.study.routing_gradient,
        )


def published(definition: StudyDefinition) -> Published | None:
    """The table for the study's images and kind of network, if the paper has one."""
    figures = tomllib.loads(FIGURES.read_text(encoding="utf-8"))
    images = (definition.data_set.drawn_from or definition.data_set.name).replace("-", "_")
    network = "lenet5" if definition.network == "lenet5" else "capsnet"
    if network not in figures.get(images, {}):
        return None
    return Published(
        figures["hardware"],
        figures["runs"][images][network],
        load_study(figures["studies"][images][network]),
        {row["name"]: row for row in figures[images][network]},
    )
