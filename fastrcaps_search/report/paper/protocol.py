"""How the paper trained: which studies and configurations are the same as its own."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from fastrcaps_search.data.shipped import FASHION_MNIST, MNIST
from fastrcaps_search.definition.choices import (
    Decoder,
    EvaluateOn,
)
from fastrcaps_search.definition.parameters import RECONSTRUCTION_WEIGHT, TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.paper.points import TRAIN_IMAGES, published, table_names

BASELINE = "fixed"
"""The configuration that the paper measures the others against."""
PAPER_EPOCHS = 30
_BATCH, _EXPONENT, _BOUNDARY = 16, 4, 3
_POLICIES = (BASELINE, "exponential_decay", "one_cycle", "warm_restarts")
"""Those with a constant batch."""
_SETTINGS = {
    "lr_max": 1e-3,
    "lr_min": 1e-4,
    "decay_rate": 0.96,
    "decay_steps": 2000,
    "cycle_epochs": 1,
    "cycle_growth": 1,
}


class Measure(StrEnum):
    """What is compared: the columns, each with its title."""

    ACCURACY = "accuracy"
    EPOCH_OF_MAX = "epoch of the maximum"
    EPOCHS_TO_BASELINE = "epochs to the accuracy of fixed"
    TIME_REDUCTION = "reduction of training time"
    EPOCH_REDUCTION = "reduction in epochs"

    @property
    def unit(self) -> str:
        """What follows a figure, with a space that does not break; empty for epochs."""
        return "" if self._counts_epochs else "\u00a0%"

    @property
    def difference_unit(self) -> str:
        """What a difference of two figures is counted in."""
        return "epochs" if self._counts_epochs else "points"

    @property
    def _counts_epochs(self) -> bool:
        return self in (Measure.EPOCH_OF_MAX, Measure.EPOCHS_TO_BASELINE)

    def written(self, value: float, *, sign: bool = False, exact: bool = False) -> str:
        """A figure without its unit; ``exact`` leaves out zeros at the end of the decimals."""
        scaled = value if self._counts_epochs else 100 * value
        digits = 3 if self is Measure.ACCURACY else 1
        # The added zero turns a negative one into a plain one.
        found = f"{round(scaled, digits) + 0.0:{'+' if sign else ''}.{digits}f}"
        if exact:
            found = found.rstrip("0").rstrip(".")
        return found.replace("-", "\u2212")


AGAINST_BASELINE = (
    Measure.EPOCHS_TO_BASELINE,
    Measure.TIME_REDUCTION,
    Measure.EPOCH_REDUCTION,
)


def follows_paper(definition: StudyDefinition) -> bool:
    """Whether a study trains and evaluates as the paper did, so that its figures compare."""
    return (
        definition.network in ("capsnet", "lenet5")
        and definition.data_set in (MNIST, FASHION_MNIST)
        and definition.evaluate_on is EvaluateOn.TEST
        and PAPER_EPOCHS in definition.offered_epochs
        and definition.split_size == TRAIN_IMAGES
        and definition.shifts
    )


def paper_name(definition: StudyDefinition, parameters: TrialParameters) -> str | None:
    """The paper's name of a configuration; ``None`` for one that it does not have."""
    policy = _policy_name(definition, parameters)
    has_curve = all(
        definition.setting(parameters, key) == _SETTINGS.get(key) for key in parameters.lr.settings
    )
    if policy is None or not has_curve or definition.epochs_of(parameters) != PAPER_EPOCHS:
        return None
    weight = definition.setting(parameters, "reconstruction_weight")
    if parameters.decoder is Decoder.NONE or weight != RECONSTRUCTION_WEIGHT:
        return None
    small = (parameters.decoder is Decoder.REDUCED, bool(parameters.weight_sharing))
    if small == (True, True):
        shared = {"fixed": "weight_sharing", "warm_adabatch": "warm_adabatch+weight_sharing"}
        return shared.get(policy)
    return policy if small == (False, False) else None


def _policy_name(definition: StudyDefinition, parameters: TrialParameters) -> str | None:
    """The policy's name, where the paper has it and with the same batch sizes."""
    policy = parameters.lr_policy
    boundaries = definition.boundaries_within(parameters.epochs)
    if not parameters.adapts_batch:
        has_batch = definition.setting(parameters, "batch_size") == _BATCH
        return policy if has_batch and policy in _POLICIES else None
    if parameters.adabatch_exponent != _EXPONENT:
        return None
    if policy == "warm_adabatch":
        # It grows once, whatever boundaries follow.
        return policy if boundaries[:1] == (_BOUNDARY,) else None
    # The authors' code never grew the batch of AdaBatch a second time.
    grows_once = policy == BASELINE and boundaries == (_BOUNDARY,)
    return "adabatch" if grows_once else None


def published_figures(definition: StudyDefinition) -> dict[str, dict[Measure, float]]:
    """The paper's figures for the study's network and images, by name and in its order."""
    images, network = table_names(definition)
    rows = {row["name"]: row for row in published().get(images, {}).get(network, ())}
    return {name: _published(row, rows[BASELINE]) for name, row in rows.items()}


def published_runs(definition: StudyDefinition) -> int:
    """Trainings behind each of the paper's figures for the study's network and images.

    The paper prints no spread beside them. It has no LeNet5 on Fashion-MNIST.
    """
    images, network = table_names(definition)
    return int(published()["runs"][images][network])


def _published(row: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[Measure, float]:
    """The paper's figures and what follows from them; not all rows have epochs to reach."""
    found = {
        Measure.ACCURACY: row["accuracy"] / 100,
        Measure.EPOCH_OF_MAX: float(row["epoch_of_max"]),
    }
    reached = row.get("epochs_to_fixed_accuracy")
    if reached is None or row["name"] == BASELINE:
        return found
    share = reached / baseline["epoch_of_max"]
    found[Measure.EPOCHS_TO_BASELINE] = float(reached)
    found[Measure.EPOCH_REDUCTION] = 1 - share
    seconds, against = (part.get("figure_seconds_per_epoch") for part in (row, baseline))
    if seconds is not None and against is not None:
        found[Measure.TIME_REDUCTION] = 1 - share * seconds / against
    return found
