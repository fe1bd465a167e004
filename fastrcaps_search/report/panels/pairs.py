"""The trials on the front beside the most accurate one, on the same images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fastrcaps_search.analysis.comparing import paired
from fastrcaps_search.report import text
from fastrcaps_search.report.panel import Panel, Table
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import RunRecord
from fastrcaps_search.store.trials import TrialRecord


@dataclass(frozen=True, slots=True)
class Pairs:
    """Number of the most accurate trial, and a row for each of the others that figures show."""

    best: int
    rows: Sequence[Sequence[str]]


def gather(view: ReportView) -> Pairs | None:
    """The pairs; ``None`` where the front has a single trial."""
    rows = [
        _row(view, trial.record, run)
        for trial in view.shown_front[1:]
        if (run := trial.record.best_run) is not None
    ]
    return Pairs(view.front[0].number, rows) if rows else None


def _row(view: ReportView, trial: TrialRecord, run: RunRecord) -> Sequence[str]:
    """A trial's run of highest accuracy against that of the most accurate one."""
    images, hits = view.definition.evaluation_size, view.hits
    first = (str(trial.number), str(run.run), text.percent(run.accuracy))
    found = paired(trial, view.front[0].record, hits, images=images)
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


def note(found: Pairs) -> tuple[str, ...]:
    """What is compared."""
    return (
        f"Each trial beside trial {found.best}, the most accurate: the images that only one of "
        "the two networks has right, the difference of their accuracies in points with its 95 % "
        "interval (Agresti and Min), and p of McNemar's exact test. It speaks of two networks, "
        "each its trial's run of highest accuracy, and of images like these, not of their "
        "configurations; of many comparisons some p are small by chance.",
    )


def draw(found: Pairs) -> Iterator[Table]:
    """The table."""
    only = ("only this\nis right", f"only {found.best}\nis right")
    yield Table(
        name="pairs-table",
        words="On the same images",
        head=("trial", "run", "accuracy", *only, "difference", "95 % interval", "p"),
        left=("trial",),
        rows=found.rows,
    )


PANEL = Panel(
    name="pairs", title="On the same images", link="", gather=gather, draw=draw, note=note
)
