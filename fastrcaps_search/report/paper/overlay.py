"""The paper's published points over the figures of the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastrcaps_search.report.fronts import PAIRS, Front
from fastrcaps_search.report.paper.points import HARDWARE, PaperPoint
from fastrcaps_search.report.plots import label
from fastrcaps_search.report.projections import axis_of, infeasible
from fastrcaps_search.report.style import MUTED
from fastrcaps_search.report.time_axis import TimeAxis
from fastrcaps_search.report.traces import attainment
from fastrcaps_search.report.trials import TrialView


def overlay(
    points: Sequence[PaperPoint], trials: Mapping[int, TrialView], front: Front
) -> dict[str, dict[str, Any]]:
    """The paper's points for one measure of time: a trace, wider axes and what they move.

    Args:
        points: The paper's.
        trials: All trials by number.
        front: The front in that measure.

    Returns:
        By name of the figure; without those for which the paper gives no figures.
    """
    known = [
        (point, (point.accuracy, point.positions[front.axis], float(point.parameters)))
        for point in points
        if front.axis in point.positions
    ]
    if not known:
        return {}
    columns = list(zip(*front.rows.values(), *(row for _, row in known), strict=True))
    found = {}
    for place, pair in enumerate(PAIRS):
        trace = {
            "type": "scatter",
            "mode": "markers",
            "x": [row[pair.x] for _, row in known],
            "y": [row[pair.y] for _, row in known],
            "hovertext": [_words(point, front.axis) for point, _ in known],
            "hoverinfo": "text",
            "marker": {
                "symbol": "asterisk-open",
                "size": 10,
                "color": MUTED.light,
                "line": {"width": 1.5, "color": MUTED.light},
            },
            "meta": "paper",
        }
        x, y = (axis_of(column, front.axis, columns[column]) for column in (pair.x, pair.y))
        found[pair.name] = {
            "attained": attainment(front, place, x, y),
            "infeasible": infeasible(trials, front, pair, x, y),
            "trace": trace,
            "xaxis": x,
            "yaxis": y,
        }
    return found


def _words(point: PaperPoint, axis: TimeAxis) -> str:
    runs = "one run" if point.runs == 1 else f"mean of {point.runs} runs"
    lines = [
        f"<b>paper: {label(point.name)}</b>",
        f"accuracy {100 * point.accuracy:.2f}\u00a0%, {runs}",
        f"epoch {point.positions[TimeAxis.EPOCHS]:g}, {point.parameters:,} parameters",
    ]
    if axis in (TimeAxis.SECONDS, TimeAxis.PAPER):
        lines.append(f"{point.positions[axis]:,.0f} s on {HARDWARE}")
    return "<br>".join(lines)
