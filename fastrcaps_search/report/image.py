"""The front as one figure that stands alone: projections, a legend, and what it is of."""

from __future__ import annotations

from typing import Any

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.report import axes, plots
from fastrcaps_search.report.fronts import TimeAxis, pairs_of
from fastrcaps_search.report.projections import projections
from fastrcaps_search.report.view import ReportView

WIDTH, HEIGHT = 1280, 520


def static(view: ReportView) -> plots.Drawing | None:
    """The figure, by measured seconds; ``None`` without a complete trial."""
    front = view.fronts.get(TimeAxis.SECONDS)
    if front is None:
        return None
    drawn = projections(view.by_number, front)
    data: list[plots.Trace] = [
        _key(mark.policy, mark.symbol, mark.tone.light) for mark in view.marks
    ]
    if any(trial.shares_weights for trial in view.complete):
        data.append(_key("hollow: shared weights", "circle-open", plots.MUTED.light))
    layout: dict[str, Any] = {}
    # More would not fit beside each other.
    pairs = pairs_of(COMMON)
    places = axes.side_by_side(len(pairs), gap=0.075)
    for pair, (suffix, domain) in zip(pairs, places, strict=True):
        parts = drawn[pair.name]["layout"]
        x, y = f"x{suffix}", f"y{suffix}"
        layout[f"xaxis{suffix}"] = parts["xaxis"] | {"domain": domain, "anchor": y}
        layout[f"yaxis{suffix}"] = parts["yaxis"] | {"anchor": x}
        placed = {"xaxis": x, "yaxis": y, "showlegend": False}
        data += [trace | placed for trace in drawn[pair.name]["data"]]
    words = (
        f"{plots.label(view.name)}<br><sub>{plots.label(view.subtitle)}; front: "
        f"{len(view.front)} of {len(view.complete)} complete trials; "
        f"{view.written_at:%Y-%m-%d %H:%M} UTC</sub>"
    )
    font = {"size": 20, "color": plots.TEXT.light}
    return plots.drawing(
        data,
        showlegend=True,
        **layout,
        title={"text": words, "x": 0.01, "xanchor": "left", "font": font},
        margin={"l": 70, "r": 24, "t": 84, "b": 130},
    )


def _key(name: str, symbol: str, colour: str) -> plots.Trace:
    """A trace without points, for the legend."""
    line = {"width": 2 if symbol.endswith("-open") else 0, "color": colour}
    marker = {"symbol": symbol, "color": colour, "size": 10, "line": line}
    return plots.scatter("markers", [None], [None], name=plots.label(name), marker=marker)
