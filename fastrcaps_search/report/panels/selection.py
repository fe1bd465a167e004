"""Which one is mine: bounds and a preference, and the trial that ``select`` names for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastrcaps_search.front.criteria import BOUNDS, REASONS, Bound, Rule
from fastrcaps_search.front.selection import FIRST, KNEE_WEIGHTS
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.view import ReportView


@dataclass(frozen=True, slots=True)
class Choices:
    """What may be asked for."""

    bounds: tuple[Bound, ...] = BOUNDS
    rules: tuple[Rule, ...] = (Rule.ACCURACY, Rule.TIME, Rule.SIZE, Rule.KNEE)


def gather(view: ReportView) -> Choices | None:
    """The criteria; ``None`` where there is nothing to choose from."""
    return Choices() if view.front else None


def data(found: Choices) -> dict[str, Any]:
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
            for bound in found.bounds
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
    template=Path(__file__).with_suffix(".html.j2"),
    script=Path(__file__).with_suffix(".js"),
    data=data,
    is_aside=True,
)
