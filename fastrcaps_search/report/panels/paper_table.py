"""A study that trains as the paper did, beside the tables that the paper published."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fastrcaps_search.definition.choices import Network
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.paper.points import HARDWARE
from fastrcaps_search.report.paper.protocol import (
    Measure,
    follows_paper,
    published_figures,
    published_runs,
)
from fastrcaps_search.report.paper.runs import DIGITS, Trained, trained_configurations
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import TrialRecord

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
    network: Network
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

    @property
    def remarks(self) -> tuple[str, ...]:
        """How to read the figures, one remark each."""
        return remarks(self)


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


def note(table: Comparison) -> tuple[str, ...]:
    """What was trained, and what counts as agreeing."""
    agree = "One run each: no standard error, so nothing is marked as agreeing or not."
    if table.repeated:
        agree = "Figures agree where they lie within two standard errors of their difference."
    return (
        "This study trains as the paper did: all 60,000 images, 30 epochs, the test set after "
        f"each of them, the highest accuracy over the epochs. {agree}",
    )


def remarks(table: Comparison) -> tuple[str, ...]:
    """How to read the figures, one remark each."""
    return (
        *_errors(table),
        _papers_runs(table),
        _differences(table),
        "Epochs to the accuracy of fixed: the first one that reaches the highest accuracy of "
        "fixed, each run against the run of fixed with the same seed; a dash where it is not "
        "always reached.",
        "Reduction: of the training seconds, or epochs, up to there, against those of fixed up to "
        f"its best epoch. {_papers_seconds(table)}",
        _devices(table),
    )


def _errors(table: Comparison) -> tuple[str, ...]:
    if not table.repeated:
        return ()
    what = "configuration" if table.repeated == 1 else "configurations"
    return (
        "After ± stands the standard error (s.e.), from the deviation from run to run pooled over "
        f"the {table.repeated} {what} trained more than once. The paper prints no spread: its "
        "runs are taken to vary as ours do.",
        "The mean curve is the mean of the runs' accuracies after each epoch. The paper's whole "
        "epochs suggest that it reads its figures off such a curve, but it does not say so. What "
        "agrees is judged by the mean of the runs, whose accuracy lies a little higher by its "
        "nature.",
    )


def _papers_runs(table: Comparison) -> str:
    if table.paper_runs == 1:
        return (
            "The paper's text speaks of five runs, but its published plots read one training of "
            "each configuration on Fashion-MNIST, and all its accuracies there are whole numbers "
            "of the 10,000 test images: its figures are taken as one run each."
        )
    many = "; nothing else that was published shows how many LeNet5 were trained"
    many = many if table.network is Network.LENET5 else ""
    return f"The paper's text says that its figures are means of {table.paper_runs} runs{many}."


def _differences(table: Comparison) -> str:
    primary = (
        "The primary capsules have the coupling coefficient 1/T of T capsule types, as in "
        "Sabour's and the authors' code. "
    )
    return ("" if table.network is Network.LENET5 else primary) + Markup(
        "What still differs from the paper and from the authors' code stands in "
        "<code>docs/differences.md</code> of the source."
    )


def _papers_seconds(table: Comparison) -> str:
    if Measure.TIME_REDUCTION in table.published:
        return (
            "The paper's seconds are its epochs times the seconds per epoch that its figures "
            f"draw, on {HARDWARE}."
        )
    if Measure.EPOCH_REDUCTION in table.published:
        return "The paper gives seconds per epoch for fixed alone, so only the epochs compare."
    return "For these images the paper does not say how soon the accuracy of fixed was reached."


def _devices(table: Comparison) -> str:
    fewest, most = table.workers_on_device
    to = f" to {most}, so they compare less well" if most != fewest else ""
    return (
        f"Our seconds depend on the device ({', '.join(table.devices)}) and on how many workers "
        f"shared it: {fewest}{to}."
    )


def gather(view: ReportView) -> Comparison | None:
    """The study beside the paper's tables, where it trained as the paper did."""
    return comparison(view.definition, [trial.record for trial in view.trials])


PANEL = Panel(
    name="paper-table",
    title="Beside the paper",
    gather=gather,
    note=note,
    module=__file__,
)
