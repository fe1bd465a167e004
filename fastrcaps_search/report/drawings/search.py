"""The search itself: how the front grew, and which parameters mattered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import Drawing, Trace, drawing, short
from fastrcaps_search.report.facts.importance import Importance
from fastrcaps_search.report.facts.progress import Progress
from fastrcaps_search.report.marks import ACCENT, TEXT

TRIALS_TITLE = "finished trials"
SPENT_TITLE = "training seconds of all workers"


def hypervolumes(progress: Progress) -> dict[str, Drawing]:
    """Hypervolume by finished trials and by the seconds that they cost."""
    columns: dict[str, tuple[Sequence[float], str]] = {
        "hypervolume-trials": (progress.finished, TRIALS_TITLE),
        "hypervolume-seconds": (progress.spent_seconds, SPENT_TITLE),
    }
    return {
        name: drawing(
            [
                {
                    "type": "scatter",
                    "x": short([0, *xs]),
                    "y": short([0, *progress.hypervolumes]),
                    "customdata": [None, *progress.trials],
                    "mode": "lines+markers" if len(xs) <= 60 else "lines",
                    "line": {"shape": "hv", "color": ACCENT.light, "width": 2},
                    "marker": {"size": 5, "color": ACCENT.light},
                    "hovertemplate": "%{x:,.0f}: hypervolume %{y:.3f}<br>trial %{customdata} "
                    "finished<extra></extra>",
                }
            ],
            xaxis=axes.plain(title, rangemode="tozero", nticks=7, tickangle=0),
            yaxis=axes.plain("hypervolume", range=[0, 1.03 * max(progress.hypervolumes) or 1]),
        )
        for name, (xs, title) in columns.items()
    }


def importances(found: Importance) -> Drawing:
    """A column of bars for each objective; the most important parameter is on top."""
    names = [name.replace("_", " ") for name in reversed(found.parameters)]
    gap, width = 0.06, (1 - 2 * 0.06) / 3
    layout: dict[str, Any] = {"yaxis": {"tickfont": {"color": TEXT.light}, "automargin": True}}
    data: list[Trace] = []
    titles = []
    for place, objective in enumerate(OBJECTIVES):
        suffix = str(place + 1) if place else ""
        left = place * (width + gap)
        layout[f"xaxis{suffix}"] = axes.plain(
            "", domain=[left, left + width], range=[0, 1.05], tickformat=".0%", nticks=3
        )
        shares = found.shares[objective.name]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": [shares[key] for key in reversed(found.parameters)],
                "y": names,
                "xaxis": f"x{suffix}",
                "marker": {"color": ACCENT.light},
                "hovertemplate": f"%{{y}}: %{{x:.0%}} for {objective.label}<extra></extra>",
            }
        )
        titles.append(_title(objective.label, left))
    margin = {"l": 64, "r": 16, "t": 28, "b": 32}
    return drawing(data, **layout, annotations=titles, bargap=0.35, margin=margin)


def _title(words: str, left: float) -> dict[str, Any]:
    """A title above the column that begins there."""
    return {
        "text": words,
        "x": left,
        "y": 1.0,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12, "color": TEXT.light},
    }
