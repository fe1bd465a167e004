"""The head of the page: progress, and the ends of the front."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fastrcaps_search.analysis.summary import StudySummary
from fastrcaps_search.definition.objective import Objective, objectives
from fastrcaps_search.report import text
from fastrcaps_search.report.view import ReportView


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
    ends = map(partial(_end, view), objectives(view.definition.objectives))
    return (progress, *ends, Tile("hypervolume", volume, on_front))


def _end(view: ReportView, objective: Objective) -> Tile:
    found = [(t.number, t.values[objective.name]) for t in view.front if t.values is not None]
    best = min((value for _, value in found), key=objective.cost)
    numbers = sorted(number for number, value in found if value == best)
    words = text.numbered("trial", numbers, limit=3)
    return Tile(objective.best, text.of_objective(objective, best), words)


def _progress(summary: StudySummary) -> str:
    infeasible = f", {summary.infeasible} of them infeasible" if summary.infeasible else ""
    counts = {
        f"complete{infeasible}": summary.complete,
        "stopped early": summary.stopped,
        "failed": summary.failed,
        "running": summary.running,
    }
    found = [f"{number} {state}" for state, number in counts.items() if number]
    return ", ".join(found) or "none started yet"
