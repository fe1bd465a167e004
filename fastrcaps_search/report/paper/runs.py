"""Runs of the paper's configurations, and what is read off their learning curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.paper.protocol import (
    AGAINST_BASELINE,
    BASELINE,
    PAPER_EPOCHS,
    Measure,
    paper_name,
)
from fastrcaps_search.report.trials import finite_values
from fastrcaps_search.store.records import RunRecord
from fastrcaps_search.store.trials import TrialRecord

DIGITS = 12
"""Accuracies are whole numbers of images; what differs beyond these decimals is rounding."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracy and seconds of each epoch, of a run or the mean of several."""

    accuracies: Sequence[float]
    seconds: Sequence[float]

    @property
    def highest(self) -> float:
        """Highest accuracy over the epochs."""
        return max(self.accuracies)

    @property
    def best_epoch(self) -> int:
        """The earliest on ties."""
        return self.accuracies.index(self.highest) + 1

    def first_reaching(self, accuracy: float) -> int | None:
        """First epoch with at least this accuracy; ``None`` if there is none."""
        found = (epoch for epoch, own in enumerate(self.accuracies, 1) if own >= accuracy)
        return next(found, None)

    def spent(self, epoch: int) -> float:
        """Seconds up to the end of an epoch."""
        return math.fsum(self.seconds[:epoch])


@dataclass(frozen=True, slots=True)
class Trained:
    """Our trial of one configuration.

    Attributes:
        record: The trial.
        curves: Whole curves of its runs, by seed.
        baseline: Those of the baseline; empty for the baseline itself and without one.
    """

    record: TrialRecord
    curves: Mapping[int, Curve]
    baseline: Mapping[int, Curve]

    @property
    def pairs(self) -> list[tuple[Curve, Curve]]:
        """Each run with the baseline's run of the same seed."""
        seeds = [seed for seed in self.curves if seed in self.baseline]
        return [(self.curves[seed], self.baseline[seed]) for seed in seeds]

    def samples(self) -> dict[Measure, list[float]]:
        """What each run gave, for the measures that every run has a figure for."""
        curves, pairs = self.curves.values(), self.pairs
        against = [_against(*pair) for pair in pairs]
        found: dict[Measure, list[float]] = {
            Measure.ACCURACY: [curve.highest for curve in curves],
            Measure.EPOCH_OF_MAX: [curve.best_epoch for curve in curves],
        }
        for measure in AGAINST_BASELINE:
            runs = [run[measure] for run in against if measure in run]
            if runs and len(runs) == len(pairs):
                found[measure] = runs
        return found

    def of_mean_curve(self) -> dict[Measure, float]:
        """What is read off the means of the curves."""
        curve = _mean(self.curves.values())
        found = {Measure.ACCURACY: curve.highest, Measure.EPOCH_OF_MAX: float(curve.best_epoch)}
        if self.baseline:
            found |= _against(curve, _mean(self.baseline.values()))
        return found


def trained_configurations(
    definition: StudyDefinition, trials: Iterable[TrialRecord], names: Iterable[str]
) -> dict[str, Trained]:
    """Our complete trial of each of these configurations, the first where there are several.

    What was set aside by hand is left out. A trial that guesses stays, though it is on no front:
    it says what the paper's configuration gave here.
    """
    known = set(names)
    first: dict[str, tuple[TrialRecord, dict[int, Curve]]] = {}
    for record in sorted(trials, key=lambda trial: trial.number):
        name = paper_name(definition, record.parameters)
        if name not in known or name in first or record.set_aside is not None:
            continue
        if finite_values(record) is None:
            continue
        curves = {run.seed: _curve(record, run) for run in record.runs}
        whole = {seed: curve for seed, curve in curves.items() if curve is not None}
        if whole:
            first[name] = (record, whole)
    _, baseline = first.get(BASELINE, (None, {}))
    return {
        name: Trained(record, curves, {} if name == BASELINE else baseline)
        for name, (record, curves) in first.items()
    }


def _curve(record: TrialRecord, run: RunRecord) -> Curve | None:
    """The run's curve; ``None`` while it lacks an epoch, as a repeat that is being trained."""
    metrics = {
        epoch.metrics.epoch: epoch.metrics for epoch in record.epochs if epoch.run == run.run
    }
    ordered = [metrics[epoch] for epoch in range(1, PAPER_EPOCHS + 1) if epoch in metrics]
    accuracies = [round(epoch.accuracy, DIGITS) for epoch in ordered]
    if len(ordered) < PAPER_EPOCHS or not all(map(math.isfinite, accuracies)):
        return None
    return Curve(accuracies, [epoch.training_seconds for epoch in ordered])


def _mean(curves: Collection[Curve]) -> Curve:
    accuracies = zip(*(curve.accuracies for curve in curves), strict=True)
    seconds = zip(*(curve.seconds for curve in curves), strict=True)
    return Curve(
        [round(statistics.mean(column), DIGITS) for column in accuracies],
        [statistics.mean(column) for column in seconds],
    )


def _against(curve: Curve, baseline: Curve) -> dict[Measure, float]:
    """How soon a curve is as accurate as the baseline ever is; empty where it never is."""
    reached = curve.first_reaching(baseline.highest)
    if reached is None:
        return {}
    found = {
        Measure.EPOCHS_TO_BASELINE: float(reached),
        Measure.EPOCH_REDUCTION: 1 - reached / baseline.best_epoch,
    }
    seconds = baseline.spent(baseline.best_epoch)
    if seconds > 0:
        found[Measure.TIME_REDUCTION] = 1 - curve.spent(reached) / seconds
    return found
