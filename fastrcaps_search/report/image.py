"""The front as one figure that stands alone: three projections, a legend, and what it is of."""

from __future__ import annotations

from typing import Any

from fastrcaps_search.report.fronts import PAIRS
from fastrcaps_search.report.plots import Drawing, Trace, drawing, label
from fastrcaps_search.report.projections import projections
from fastrcaps_search.report.style import MUTED, TEXT
from fastrcaps_search.report.time_axis import TimeAxis
from fastrcaps_search.report.view import ReportView

WIDTH, HEIGHT = 1280, 520
GAP = 0.075


def static(view: ReportView) -> Drawing | None:
    """The figure, by measured seconds; ``None`` without a complete trial."""
    front = view.fronts.get(TimeAxis.SECONDS)
    if front is None:
        return None
    drawn = projections({trial.number: trial for trial in view.trials}, front)
    data: list[Trace] = [_key(mark.policy, mark.symbol, mark.tone.light) for mark in view.marks]
    if any(trial.shares_weights for trial in view.complete):
        data.append(_key("hollow: shared weights", "circle-open", MUTED.light))
    layout: dict[str, Any] = {}
    width = (1 - GAP * (len(PAIRS) - 1)) / len(PAIRS)
    for place, pair in enumerate(PAIRS):
        suffix = str(place + 1) if place else ""
        left = place * (width + GAP)
        parts = drawn[pair.name]["layout"]
        layout[f"xaxis{suffix}"] = {
            **parts["xaxis"],
            "domain": [left, left + width],
            "anchor": f"y{suffix}",
        }
        layout[f"yaxis{suffix}"] = {**parts["yaxis"], "anchor": f"x{suffix}"}
        data += [
            {**trace, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}", "showlegend": False}
            for trace in drawn[pair.name]["data"]
        ]
    return drawing(
        data,
        showlegend=True,
        **layout,
        title=_title(view),
        margin={"l": 70, "r": 24, "t": 84, "b": 130},
    )


def _key(name: str, symbol: str, colour: str) -> Trace:
    """A trace without points, for the legend."""
    line = {"width": 2 if symbol.endswith("-open") else 0, "color": colour}
    return {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "mode": "markers",
        "name": label(name),
        "marker": {"symbol": symbol, "color": colour, "size": 10, "line": line},
    }


def _title(view: ReportView) -> dict[str, Any]:
    counted = f"front: {len(view.front)} of {len(view.complete)} complete trials"
    return {
        "text": f"{label(view.name)}<br><sub>{label(view.subtitle)}; {counted}; "
        f"{view.written_at:%Y-%m-%d %H:%M} UTC</sub>",
        "x": 0.01,
        "xanchor": "left",
        "font": {"size": 20, "color": TEXT.light},
    }
