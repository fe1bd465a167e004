"""The front under each measure of training time, and what a study attains in each pair."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import fmean

from fastrcaps_search.analysis.front import front_of
from fastrcaps_search.definition.objective import COMMON, OBJECTIVES, Objective
from fastrcaps_search.front.dominance import front_mask
from fastrcaps_search.store.records import RunRecord
from fastrcaps_search.store.trials import TrialRecord

Row = Mapping[str, float]
"""Values by name of the objective, the training time in the measure at hand."""


class TimeAxis(StrEnum):
    """What may stand for training time, up to and including a run's best epoch.

    Seconds, or counts that no machine changes.
    """

    words: str
    """As an axis names it."""
    choice: str
    """As the page's list of choices names it."""

    SECONDS = "seconds", "training time (s)", "training seconds"
    EPOCHS = "epochs", "epochs"
    SAMPLES = "samples", "training images seen", "training images (samples)"
    STEPS = "steps", "optimiser steps"
    PAPER = (
        "paper",
        "epochs × mean seconds per epoch (s)",
        "the paper's: epochs × seconds per epoch",
    )

    def __new__(cls, value: str, words: str, choice: str = "") -> TimeAxis:
        """The measure of that value."""
        axis = str.__new__(cls, value)
        axis._value_, axis.words, axis.choice = value, words, choice or words
        return axis


def positions(trial: TrialRecord) -> Mapping[TimeAxis, float]:
    """Training time of a complete trial in every measure that its epochs give.

    Means over its runs with a result: a repeat that is under way or has failed counts for
    nothing. The paper's measure is the epoch of the highest accuracy times the run's mean seconds
    per epoch, over all its epochs (FasTrCaps, section IV), which for a growing batch is not the
    sum up to that epoch.
    """
    if trial.values is None:
        return {}
    found = {TimeAxis.SECONDS: trial.values.training_seconds}
    runs = [_positions(trial, run) for run in trial.results]
    for axis in TimeAxis:
        if runs and all(axis in run for run in runs):
            found[axis] = fmean(run[axis] for run in runs)
    return {axis: value for axis, value in found.items() if math.isfinite(value)}


def _positions(trial: TrialRecord, run: RunRecord) -> Mapping[TimeAxis, float]:
    best = run.best_epoch
    if best is None:
        return {}
    epochs = [epoch for epoch in trial.epochs if epoch.run == run.run]
    used = [epoch.metrics for epoch in epochs if epoch.metrics.epoch <= best]
    if len(used) < best:
        return {TimeAxis.EPOCHS: best}
    return {
        TimeAxis.EPOCHS: best,
        TimeAxis.SAMPLES: sum(epoch.samples for epoch in used),
        TimeAxis.STEPS: sum(epoch.steps for epoch in used),
        TimeAxis.PAPER: best * fmean(epoch.seconds for epoch in epochs),
    }


def upwards(names: Iterable[str]) -> list[Objective]:
    """Objectives in an order in which those to maximise, whose axes go up, come last."""
    return sorted((OBJECTIVES[name] for name in names), key=lambda one: one.maximise)


XYZ = tuple(upwards(COMMON))
"""Along x, y and z."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two of the objectives, along x and y."""

    x: Objective
    y: Objective

    @property
    def name(self) -> str:
        """Id of its figure."""
        return f"projection-{self.x.word}-{self.y.word}"

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.y.label.capitalize()} by {self.x.label}"


def pairs_of(names: Iterable[str]) -> list[Pair]:
    """All pairs of these objectives, those with one to maximise first."""
    order = upwards(names)
    found = [Pair(x, y) for x, y in combinations(order, 2)]
    return sorted(found, key=lambda pair: -order.index(pair.y))


@dataclass(frozen=True, slots=True)
class Front:
    """The front in one measure of time.

    Attributes:
        axis: The measure.
        rows: Values by number of the feasible trials that have them, in this measure.
        numbers: Trials that no other dominates, by falling accuracy, then time, then number.
        attained: By pair the corners, by x, of what is attained in it alone.
        infeasible: Values of the infeasible trials, which no axis goes by.
    """

    axis: TimeAxis
    rows: Mapping[int, Row]
    numbers: Sequence[int]
    attained: Mapping[Pair, tuple[tuple[float, float], ...]]
    infeasible: Mapping[int, Row]


def fronts(
    rows: Mapping[TimeAxis, Mapping[int, Row]], infeasible: Container[int]
) -> Mapping[TimeAxis, Front]:
    """The front of each measure in which some feasible trial has finite values.

    Args:
        rows: Values by number in each measure.
        infeasible: Numbers of the infeasible trials.
    """
    found = {}
    for axis, known in rows.items():
        feasible = {number: row for number, row in known.items() if number not in infeasible}
        others = {number: row for number, row in known.items() if number in infeasible}
        if feasible:
            pairs = pairs_of(next(iter(feasible.values())))
            attained = {pair: _attained(pair, feasible.values()) for pair in pairs}
            found[axis] = Front(axis, feasible, front_of(feasible), attained, others)
    return found


def _attained(pair: Pair, rows: Iterable[Row]) -> tuple[tuple[float, float], ...]:
    """The distinct places, by x, that nothing dominates in the pair alone."""
    places = sorted({(row[pair.x.name], row[pair.y.name]) for row in rows})
    mask = front_mask([(pair.x.cost(x), pair.y.cost(y)) for x, y in places])
    return tuple(place for place, on_front in zip(places, mask, strict=True) if on_front)
