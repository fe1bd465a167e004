"""A study that trains as the paper did, beside the tables that the paper published."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.paper.protocol import (
    Measure,
    follows_paper,
    published_figures,
    published_runs,
)
from fastrcaps_search.report.paper.runs import DIGITS, Trained, trained_configurations
from fastrcaps_search.store.trials import TrialRecord

MOST_ERRORS = 2
"""Figures agree up to so many standard errors of their difference."""


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

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.ours is None or self.paper is None:
            return None
        return self.ours - self.paper


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One configuration of the paper.

    Attributes:
        name: The paper's name of it.
        trial: Number of our trial; ``None`` where none is complete.
        infeasible: Why it is on no front, if it is not.
        runs: Its whole runs.
        paired: Those whose seed the baseline was trained with too.
        reached: Those of them that reach the highest accuracy of the baseline's run.
        quantities: A figure for each measure.
    """

    name: str
    trial: int | None
    infeasible: str | None
    runs: int
    paired: int
    reached: int
    quantities: Mapping[Measure, Quantity]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside the paper's.

    Attributes:
        rows: The paper's configurations, in its order.
        network: What was trained.
        paper_runs: Trainings behind each of the paper's figures.
        repeated: How many of them we trained more than once: what the errors rest on.
        workers_on_device: Fewest and most workers on one device while ours were trained.
        devices: Names of our devices.
    """

    rows: tuple[ComparisonRow, ...]
    network: str
    paper_runs: int
    repeated: int
    workers_on_device: tuple[int, int]
    devices: tuple[str, ...]

    @property
    def published(self) -> frozenset[Measure]:
        """What the paper has a figure of."""
        return frozenset(
            measure
            for row in self.rows
            for measure, quantity in row.quantities.items()
            if quantity.paper is not None
        )


def comparison(definition: StudyDefinition, trials: Iterable[TrialRecord]) -> Comparison | None:
    """Set a study beside the paper's table for its network and images.

    ``None`` where that would mislead or be empty: another protocol than the paper's (all training
    images, 30 epochs, the test set after each), or no complete trial of its configurations.

    Args:
        definition: The study's.
        trials: Its trials, with their epochs.
    """
    published = published_figures(definition) if follows_paper(definition) else {}
    trained = trained_configurations(definition, trials, published)
    if not trained:
        return None
    samples = {name: own.samples() for name, own in trained.items()}
    deviations = {
        measure: _pooled_deviation(found.get(measure, ()) for found in samples.values())
        for measure in Measure
    }
    epochs = [epoch for own in trained.values() for epoch in own.record.epochs]
    sharing = [epoch.sharing for epoch in epochs]
    paper_runs = published_runs(definition)
    return Comparison(
        rows=tuple(
            _row(
                name,
                trained.get(name),
                samples.get(name, {}),
                deviations,
                paper=paper,
                paper_runs=paper_runs,
            )
            for name, paper in published.items()
        ),
        network=definition.network,
        paper_runs=paper_runs,
        repeated=sum(len(own.curves) > 1 for own in trained.values()),
        workers_on_device=(min(sharing), max(sharing)),
        devices=tuple(dict.fromkeys(epoch.setting.device_name for epoch in epochs)),
    )


def _pooled_deviation(groups: Iterable[Sequence[float]]) -> float | None:
    """Deviation from run to run within a group, over all groups of two runs and more."""
    repeated = [group for group in groups if len(group) > 1]
    if not repeated:
        return None
    # The exact fractions of ``statistics``: equal runs have no deviation, not a rounded one.
    squares = math.fsum((len(group) - 1) * statistics.variance(group) for group in repeated)
    return math.sqrt(squares / sum(len(group) - 1 for group in repeated))


def _quantity(
    runs: Sequence[float],
    deviation: float | None,
    mean_curve: float | None,
    *,
    paper: float | None,
    paper_runs: int,
) -> Quantity:
    ours = statistics.mean(runs) if runs else None
    if ours is None or deviation is None:
        return Quantity(ours, None, mean_curve, paper, None)
    distance = None
    if paper is not None:
        error = deviation * math.sqrt(1 / len(runs) + 1 / paper_runs)
        apart = round(abs(ours - paper), DIGITS)
        distance = apart / error if error else (math.inf if apart else 0.0)
    return Quantity(ours, deviation / math.sqrt(len(runs)), mean_curve, paper, distance)


def _row(
    name: str,
    own: Trained | None,
    samples: Mapping[Measure, Sequence[float]],
    deviations: Mapping[Measure, float | None],
    *,
    paper: Mapping[Measure, float],
    paper_runs: int,
) -> ComparisonRow:
    curve = {} if own is None else own.of_mean_curve()
    pairs = [] if own is None else own.pairs
    return ComparisonRow(
        name=name,
        trial=None if own is None else own.record.number,
        infeasible=None if own is None else own.record.infeasible,
        runs=0 if own is None else len(own.curves),
        paired=len(pairs),
        reached=sum(run.first_reaching(other.highest) is not None for run, other in pairs),
        quantities={
            key: _quantity(
                samples.get(key, ()),
                deviations[key],
                curve.get(key),
                paper=paper.get(key),
                paper_runs=paper_runs,
            )
            for key in Measure
        },
    )
