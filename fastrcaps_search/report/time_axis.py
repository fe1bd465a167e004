"""What may stand for training time: seconds, or counts that no machine changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.store.records import RunRecord
from fastrcaps_search.store.trials import TrialRecord


class TimeAxis(StrEnum):
    """A measure of training time, up to and including a run's best epoch."""

    SECONDS = "seconds"
    EPOCHS = "epochs"
    SAMPLES = "samples"
    STEPS = "steps"
    PAPER = "paper"

    @property
    def words(self) -> str:
        """As an axis names it."""
        return _TITLES[self]

    @property
    def choice(self) -> str:
        """As the page's list of choices names it."""
        return _CHOICES.get(self, self.words)


_TITLES = {
    TimeAxis.SECONDS: "training time (s)",
    TimeAxis.EPOCHS: "epochs",
    TimeAxis.SAMPLES: "training images seen",
    TimeAxis.STEPS: "optimiser steps",
    TimeAxis.PAPER: "epochs × mean seconds per epoch (s)",
}
_CHOICES = {
    TimeAxis.SECONDS: "training seconds",
    TimeAxis.SAMPLES: "training images (samples)",
    TimeAxis.PAPER: "the paper's: epochs × seconds per epoch",
}

NOTHING: Mapping[TimeAxis, float] = MappingProxyType({})


def positions(trial: TrialRecord) -> Mapping[TimeAxis, float]:
    """Training time of a complete trial in every measure that its epochs give.

    Means over its runs with a result: a repeat that is under way or has failed counts for
    nothing. The paper's measure is the epoch of the highest accuracy times the run's mean seconds
    per epoch, over all its epochs (FasTrCaps, section IV), which for a growing batch is not the
    sum up to that epoch.
    """
    if trial.values is None:
        return NOTHING
    found = {TimeAxis.SECONDS: trial.values.training_seconds}
    by_run: dict[int, list[EpochMetrics]] = {}
    for epoch in trial.epochs:
        by_run.setdefault(epoch.run, []).append(epoch.metrics)
    runs = [_run(run, by_run.get(run.run, [])) for run in trial.results]
    for axis in (TimeAxis.EPOCHS, TimeAxis.SAMPLES, TimeAxis.STEPS, TimeAxis.PAPER):
        known = [run[axis] for run in runs if axis in run]
        if runs and len(known) == len(runs):
            found[axis] = math.fsum(known) / len(known)
    return {axis: value for axis, value in found.items() if math.isfinite(value)}


def _run(run: RunRecord, epochs: list[EpochMetrics]) -> Mapping[TimeAxis, float]:
    best = run.best_epoch
    if best is None:
        return NOTHING
    found = {TimeAxis.EPOCHS: float(best)}
    used = [epoch for epoch in epochs if epoch.epoch <= best]
    if len(used) == best:
        found[TimeAxis.SAMPLES] = float(sum([epoch.samples for epoch in used]))
        found[TimeAxis.STEPS] = float(sum([epoch.steps for epoch in used]))
        spent = math.fsum([epoch.training_seconds for epoch in epochs])
        found[TimeAxis.PAPER] = best * spent / len(epochs)
    return found
