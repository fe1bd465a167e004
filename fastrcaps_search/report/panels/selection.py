"""Which one is mine: bounds and a preference, and the trial that ``select`` names for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastrcaps_search.definition.objective import Objective
from fastrcaps_search.front.criteria import reasons
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.view import ReportView


def gather(view: ReportView) -> tuple[Objective, ...] | None:
    """What may be bounded and preferred; ``None`` where there is nothing to choose from."""
    return view.objectives if view.front else None


def data(known: Sequence[Objective]) -> dict[str, Any]:
    """The rule of ``front.selection`` as its numbers and words."""
    return {
        "bounds": [
            {
                "flag": objective.flag,
                "objective": objective.name,
                "sign": int(objective.cost(1)),
                "pattern": f"^(?:{objective.scale.pattern})$",
                "typed": objective.scale.typed,
                "zeroFits": objective.scale.zero_fits,
                "most": objective.scale.most,
                "whole": objective.scale.is_whole,
                "factor": objective.scale.factor,
                "missed": objective.missed,
                "weighs": objective.word,
            }
            for objective in known
        ],
        "reasons": reasons(),
        "first": {objective.word: place for place, objective in enumerate(known)},
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
