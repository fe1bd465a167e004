"""Which one is mine: bounds and a preference, and the trial that ``select`` names for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastrcaps_search.front.criteria import BOUNDS, REASONS, Bound
from fastrcaps_search.front.selection import FIRST, KNEE_WEIGHTS
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.view import ReportView


def gather(view: ReportView) -> tuple[Bound, ...] | None:
    """What may be asked for; ``None`` where there is nothing to choose from."""
    return BOUNDS if view.front else None


def data(bounds: Sequence[Bound]) -> dict[str, Any]:
    """The rule of ``front.selection`` as its numbers and words."""
    return {
        "bounds": [
            {
                "flag": bound.flag,
                "objective": bound.objective.name,
                "sign": -1 if bound.objective.maximise else 1,
                "pattern": f"^(?:{bound.pattern})$",
                "typed": bound.typed,
                "zeroFits": bound.zero_fits,
                "most": bound.most,
                "whole": bound.is_whole,
                "factor": bound.factor,
                "missed": bound.missed,
                "weighs": bound.weighs,
            }
            for bound in bounds
        ],
        "reasons": REASONS,
        "first": FIRST,
        "weights": KNEE_WEIGHTS,
    }


PANEL = Panel(
    name="mine",
    title="Which one is mine?",
    link="Which is mine",
    gather=gather,
    module=__file__,
    data=data,
    is_aside=True,
)
