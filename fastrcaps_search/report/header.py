"""The head of the page: progress, and the ends of the front."""

from __future__ import annotations

from dataclasses import dataclass

from fastrcaps_search.analysis.summary import StudySummary
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.report import text
from fastrcaps_search.report.view import ReportView

ENDS = (("highest accuracy", ""), ("shortest training", "\u00a0s"), ("fewest parameters", ""))
"""What the best end of each objective is called, and the unit."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the head with what it is and what belongs to it."""

    label: str
    value: str
    note: str


def tiles(view: ReportView) -> tuple[Tile, ...]:
    """Progress, the extremes of the front and its hypervolume."""
    summary = view.summary
    progress = Tile(
        "trials finished", f"{summary.finished} of {summary.budget}", _progress(summary)
    )
    # A study may have a box and no front any more: a repeat of its only trial diverged.
    if summary.hypervolume is None or not view.front:
        return (progress,)
    volume = f"{summary.hypervolume:.3f}"
    on_front = f"{text.plural(len(view.front), 'trial')} on the front"
    ends = (_end(view, column) for column in range(len(OBJECTIVES)))
    return (progress, *ends, Tile("hypervolume", volume, on_front))


def _end(view: ReportView, column: int) -> Tile:
    found = [(t.number, t.values.as_tuple()[column]) for t in view.front if t.values is not None]
    pick = max if OBJECTIVES[column].maximise else min
    best = pick(value for _, value in found)
    label, unit = ENDS[column]
    numbers = sorted(number for number, value in found if value == best)
    words = text.numbered("trial", numbers, limit=3)
    return Tile(label, text.VALUES[column](best) + unit, words)


def _progress(summary: StudySummary) -> str:
    infeasible = f", {summary.infeasible} of them infeasible" if summary.infeasible else ""
    counts = {
        f"complete{infeasible}": summary.complete,
        "failed": summary.failed,
        "running": summary.running,
    }
    found = [f"{number} {state}" for state, number in counts.items() if number]
    return ", ".join(found) or "none started yet"
