"""The three pairs of objectives, in each measure of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import Drawing, Trace, drawing, label, short
from fastrcaps_search.report.drawings.traces import MANY, attainment, by_look, labels, markers
from fastrcaps_search.report.facts.certainty import ranges
from fastrcaps_search.report.facts.paper import HARDWARE, PaperPoint
from fastrcaps_search.report.facts.projections import (
    ACCURACY,
    PAIRS,
    TIME,
    Front,
    Pair,
)
from fastrcaps_search.report.facts.time_axis import TimeAxis
from fastrcaps_search.report.facts.trials import TrialView
from fastrcaps_search.report.marks import MUTED

MOST_BARS = 200
"""Trials of several runs up to which the spread of those off the front is drawn too."""


def projections(trials: Mapping[int, TrialView], front: Front) -> dict[str, Drawing]:
    """The three figures of one measure of time, by their names.

    Args:
        trials: All trials by number.
        front: The front in that measure.
    """
    return {pair.name: _projection(trials, front, pair, place) for place, pair in enumerate(PAIRS)}


def axis_of(column: int, axis: TimeAxis, values: Sequence[float]) -> dict[str, Any]:
    """The axis of one column of a front's rows."""
    if column == TIME:
        return axes.time(axis, values)
    return axes.accuracy(values) if column == ACCURACY else axes.parameters(values)


def _projection(trials: Mapping[int, TrialView], front: Front, pair: Pair, place: int) -> Drawing:
    columns = list(zip(*front.rows.values(), strict=True))
    x, y = (axis_of(column, front.axis, columns[column]) for column in (pair.x, pair.y))
    data: list[Trace] = [attainment(front, place, x, y)]
    on_front = frozenset(front.numbers)
    places = [(front.rows[number][pair.x], front.rows[number][pair.y]) for number in front.numbers]
    beside = labels(front.numbers, places, x, y)
    many = len(front.rows) - len(on_front) > MANY
    for is_front in (False, True):
        shown = [trials[number] for number in front.rows if (number in on_front) is is_front]
        bars = is_front or len(shown) <= MOST_BARS
        for group in by_look(shown):
            rows = [front.rows[trial.number] for trial in group]
            data.append(
                {
                    "x": short(row[pair.x] for row in rows),
                    "y": short(row[pair.y] for row in rows),
                    **markers(group, beside, on_front=is_front, many=many),
                    **(_spread(group, front, pair) if bars else {}),
                }
            )
    data[1:1] = _infeasible(trials, front, pair, x, y)
    return drawing(data, xaxis=x, yaxis=y)


def _infeasible(
    trials: Mapping[int, TrialView],
    front: Front,
    pair: Pair,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
) -> list[Trace]:
    """Infeasible trials, faint and below the others; those beyond an axis stand at its end."""
    data: list[Trace] = []
    for group in by_look(trials[number] for number in front.infeasible):
        rows = [front.infeasible[trial.number] for trial in group]
        data.append(
            {
                "x": short(axes.within(x, row[pair.x]) for row in rows),
                "y": short(axes.within(y, row[pair.y]) for row in rows),
                **markers(group, {}, on_front=False, many=True),
                "meta": "infeasible",
            }
        )
    return data


def _spread(group: Sequence[TrialView], front: Front, pair: Pair) -> Trace:
    """Bars from the lowest to the highest run, where trials have several.

    An estimate may lie beyond all runs: one length is then negative, and the bar ends before it.
    """
    named = {ACCURACY: "accuracy"}
    if front.axis is TimeAxis.SECONDS:
        named[TIME] = "training_seconds"
    found: Trace = {}
    for key, column in (("error_x", pair.x), ("error_y", pair.y)):
        reach = [ranges(trial.record.runs).get(named.get(column, "")) for trial in group]
        if any(reach):
            values = [front.rows[trial.number][column] for trial in group]
            pairs = [
                (0.0, 0.0) if ends is None else (ends[1] - value, value - ends[0])
                for ends, value in zip(reach, values, strict=True)
            ]
            found[key] = {
                "type": "data",
                "symmetric": False,
                "array": [up for up, _ in pairs],
                "arrayminus": [down for _, down in pairs],
                "color": group[0].mark.tone.light,
                "thickness": 1,
                "width": 3,
            }
    return found


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
            "infeasible": _infeasible(trials, front, pair, x, y),
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
