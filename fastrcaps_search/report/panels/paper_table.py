"""Beside the paper: a study that trains as it did, and the tables that it published."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.paper import BASELINE, Figures, Measure, Published, published
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import RunRecord
from fastrcaps_search.store.trials import TrialRecord

MOST_ERRORS = 2
"""Figures agree up to so many standard errors of their difference."""
DIGITS = 12
"""Accuracies are whole numbers of images; what differs beyond these decimals is rounding."""

Curve = NDArray[np.float64]
"""[2, epochs]: accuracy and seconds of each epoch, of a run or the mean of several."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure of one configuration; what is not known is ``None``.

    Attributes:
        ours: Mean over the runs of what each run gave. Against the baseline each run counts with
            the baseline's run of the same seed, and only if every run has a figure.
        error: Its standard error, from the deviation pooled over the configurations.
        mean_curve: The figure read off the mean of the learning curves.
        paper: The paper's.
        distance: How many standard errors ``ours`` is away from ``paper``: of their difference,
            the paper's runs taken to vary as ours do. Infinite where ours do not vary.
    """

    ours: float | None
    error: float | None
    mean_curve: float | None
    paper: float | None
    distance: float | None

    @property
    def agrees(self) -> bool | None:
        """Whether the two lie within two standard errors; ``None`` where that is not known."""
        # Two exactly must count as two whatever the last digit.
        return None if self.distance is None else self.distance <= MOST_ERRORS * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Trained:
    """Our trial of one of the paper's configurations.

    Attributes:
        record: The trial.
        runs: Figures of each whole run.
        paired: Figures of those whose seed the baseline was trained with too, against that run.
        mean_curve: Figures of the mean of the curves.
    """

    record: TrialRecord
    runs: Sequence[Figures]
    paired: Sequence[Figures]
    mean_curve: Figures

    @property
    def reached(self) -> int:
        """How many of the paired runs reach the highest accuracy of the baseline's."""
        return sum(Measure.EPOCHS_TO_BASELINE in run for run in self.paired)

    def sample(self, measure: Measure) -> list[float]:
        """What each run gave; nothing unless every run has a figure."""
        runs = self.paired if measure.against_baseline else self.runs
        found = [run[measure] for run in runs if measure in run]
        return found if len(found) == len(runs) else []


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside the paper's.

    Attributes:
        paper: The paper's table.
        trained: Our trials of its configurations, by the paper's name.
        quantities: By name, of all that it has and in its order, a figure for each measure.
        repeated: How many of them we trained more than once: what the errors rest on.
        workers_on_device: Fewest and most workers on one device while ours were trained.
        devices: Names of our devices.
    """

    paper: Published
    trained: Mapping[str, Trained]
    quantities: Mapping[str, Mapping[Measure, Quantity]]
    repeated: int
    workers_on_device: tuple[int, int]
    devices: tuple[str, ...]


def gather(view: ReportView) -> Comparison | None:
    """Set a study beside the paper's table for its network and images.

    ``None`` where that would mislead or be empty: another protocol than the paper's (all training
    images, 30 epochs, the test set after each), or no complete trial of its configurations.
    """
    paper = published(view.definition)
    if paper is None or not (trained := _trained(paper, view)):
        return None
    deviations = {
        measure: _pooled_deviation([own.sample(measure) for own in trained.values()])
        for measure in Measure
    }
    epochs = [epoch for own in trained.values() for epoch in own.record.epochs]
    sharing = [epoch.sharing for epoch in epochs]
    return Comparison(
        paper=paper,
        trained=trained,
        quantities={
            name: {
                measure: _quantity(
                    trained.get(name), measure, deviation, figures.get(measure), paper.runs
                )
                for measure, deviation in deviations.items()
            }
            for name, figures in paper.figures.items()
        },
        repeated=sum(len(own.runs) > 1 for own in trained.values()),
        workers_on_device=(min(sharing), max(sharing)),
        devices=tuple(dict.fromkeys(epoch.setting.device_name for epoch in epochs)),
    )


def _trained(paper: Published, view: ReportView) -> dict[str, Trained]:
    """Our complete trial of each configuration, the first where there are several.

    What was set aside by hand is left out. A trial that guesses stays, though it is on no front:
    it says what the paper's configuration gave here.
    """
    first: dict[str, tuple[TrialRecord, dict[int, Curve]]] = {}
    for record in (trial.record for trial in view.complete if trial.record.set_aside is None):
        name = paper.name_of(view.definition, record.parameters)
        length = paper.study.epochs
        curves = {run.seed: _curve(record, run) for run in record.runs}
        whole = {seed: curve for seed, curve in curves.items() if curve.shape[1] == length}
        if name is not None and whole:
            first.setdefault(name, (record, whole))
    _, baseline = first.get(BASELINE, (None, {}))
    found = {}
    for name, (record, curves) in first.items():
        against = {} if name == BASELINE else baseline
        found[name] = Trained(
            record,
            [_figures(curve) for curve in curves.values()],
            [_figures(curves[seed], against[seed]) for seed in curves if seed in against],
            _figures(_mean(curves), _mean(against) if against else None),
        )
    return found


def _curve(record: TrialRecord, run: RunRecord) -> Curve:
    """The run's curve, as far as it goes."""
    epochs = [epoch for epoch in record.epochs if epoch.run == run.run]
    known = [epoch for epoch in epochs if math.isfinite(epoch.metrics.accuracy)]
    rows = [(epoch.metrics.accuracy, epoch.seconds) for epoch in known]
    return np.array(rows, dtype=float).reshape(-1, 2).T


def _mean(curves: Mapping[int, Curve]) -> Curve:
    mean: Curve = np.mean(list(curves.values()), axis=0)
    return mean


def _figures(curve: Curve, baseline: Curve | None = None) -> Figures:
    """What is read off a curve: its first highest accuracy, and that of the baseline in it."""
    accuracies = curve[0].round(DIGITS)
    found = {
        Measure.ACCURACY: float(accuracies.max()),
        Measure.EPOCH_OF_MAX: float(accuracies.argmax() + 1),
    }
    if baseline is None:
        return found
    highest = baseline[0].round(DIGITS)
    (reached,) = np.nonzero(accuracies >= highest.max())
    if len(reached):
        epochs, against = int(reached[0]) + 1, int(highest.argmax()) + 1
        found[Measure.EPOCHS_TO_BASELINE] = float(epochs)
        found[Measure.EPOCH_REDUCTION] = 1 - epochs / against
        if (seconds := math.fsum(baseline[1, :against])) > 0:
            found[Measure.TIME_REDUCTION] = 1 - math.fsum(curve[1, :epochs]) / seconds
    return found


def _pooled_deviation(groups: Sequence[Sequence[float]]) -> float | None:
    """Deviation from run to run within a group, over all groups of two runs and more."""
    repeated = [group for group in groups if len(group) > 1]
    if not repeated:
        return None
    # The exact fractions of ``statistics``: equal runs have no deviation, not a rounded one.
    squares = math.fsum((len(group) - 1) * statistics.variance(group) for group in repeated)
    return math.sqrt(squares / sum(len(group) - 1 for group in repeated))


def _quantity(
    own: Trained | None,
    measure: Measure,
    deviation: float | None,
    paper: float | None,
    paper_runs: int,
) -> Quantity:
    runs = [] if own is None else own.sample(measure)
    ours = statistics.mean(runs) if runs else None
    mean_curve = None if own is None else own.mean_curve.get(measure)
    if ours is None or deviation is None:
        return Quantity(ours, None, mean_curve, paper, None)
    distance = None
    if paper is not None:
        error = deviation * math.sqrt(1 / len(runs) + 1 / paper_runs)
        apart = round(abs(ours - paper), DIGITS)
        distance = apart / error if error else (math.inf if apart else 0.0)
    return Quantity(ours, deviation / math.sqrt(len(runs)), mean_curve, paper, distance)


PANEL = Panel(
    name="paper-table",
    title="Beside the paper",
    gather=gather,
    module=__file__,
)
