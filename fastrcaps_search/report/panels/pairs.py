"""The trials on the front beside the most accurate one, on the same images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastrcaps_search.analysis.comparing import paired
from fastrcaps_search.front.paired import Paired
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel, Table
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView


@dataclass(frozen=True, slots=True)
class PairRow:
    """One trial against the most accurate one.

    Attributes:
        trial: The trial, the first of the two.
        run: Index of its run of highest accuracy.
        accuracy: Of that run.
        paired: How the two networks differ; ``None`` where the hits of one are not stored.
    """

    trial: TrialView
    run: int
    accuracy: float
    paired: Paired | None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Number of the most accurate trial, and a row for each of the others that figures show."""

    best: int
    rows: tuple[PairRow, ...]


def gather(view: ReportView) -> Pairs | None:
    """The pairs; ``None`` where the front has a single trial."""
    images, hits = view.definition.evaluation_size, view.stored.hits
    rows = [
        PairRow(
            trial,
            run.run,
            run.accuracy or 0.0,
            paired(trial.record, view.front[0].record, hits, images=images),
        )
        for trial in view.shown_front[1:]
        if (run := trial.record.best_run) is not None
    ]
    return Pairs(view.front[0].number, tuple(rows)) if rows else None


def note(found: Pairs) -> tuple[str, ...]:
    """What is compared."""
    return (
        f"Each trial beside trial {found.best}, the most accurate: the images that only one of "
        "the two networks has right, the difference of their accuracies in points with its 95 % "
        "interval (Agresti and Min), and p of McNemar's exact test. It speaks of two networks, "
        "each its trial's run of highest accuracy, and of images like these, not of their "
        "configurations; of many comparisons some p are small by chance.",
    )


def draw(found: Pairs) -> tuple[Table]:
    """The table."""
    only = ("only this\nis right", f"only {found.best}\nis right")
    return (
        Table(
            name="pairs-table",
            words="On the same images",
            head=("trial", "run", "accuracy", *only, "difference", "95 % interval", "p"),
            left=("trial",),
            rows=[_row(row) for row in found.rows],
        ),
    )


def _row(row: PairRow) -> Sequence[str]:
    first = (str(row.trial.number), str(row.run), text.percent(row.accuracy))
    found = row.paired
    if found is None:
        return (*first, "which images they have right is not stored")
    low, high = found.interval
    return (
        *first,
        text.count(found.first_only),
        text.count(found.second_only),
        text.points(found.difference),
        f"{text.points(low)} to {text.points(high)}",
        text.p_value(found.p_value),
    )


PANEL = Panel(
    name="pairs", title="On the same images", link="", gather=gather, draw=draw, note=note
)
