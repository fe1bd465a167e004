"""The objectives by twos and all at once, in each measure of time.

``customdata`` of a marker is the number of its trial, by which the page links all that it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastrcaps_search.definition.objective import (
    ACCURACY,
    PARAMETERS,
    TRAINING_SECONDS,
    Objective,
)
from fastrcaps_search.report import axes, plots, text
from fastrcaps_search.report.fronts import XYZ, Front, Pair, Row, TimeAxis
from fastrcaps_search.report.paper import Published
from fastrcaps_search.report.trials import TrialView, by_look, ranges

WIDTH, HEIGHT, LETTER, LINE = 370, 255, 8, 13
"""Rough sizes in pixels of a figure's inside and of a label, to see which labels would meet."""
MOST_SHARING = 4
"""Trials of one place that its label names."""
MOST_BARS = 200
"""Trials of several runs up to which the spread of those off the front is drawn too."""
MANY = 150
"""Trials off the front above which their markers are small and fainter still."""

Axis = Mapping[str, Any]
Columns = Sequence[Objective]
Trials = Mapping[int, TrialView]
"""All trials by number."""


def projections(trials: Trials, front: Front) -> dict[str, plots.Drawing]:
    """The figures of the pairs in one measure of time, by their names."""
    found = {}
    for pair in front.attained:
        columns = (pair.x, pair.y)
        x, y = laid = _axes(columns, front)
        data = [
            _attainment(front, pair, x, y),
            *_infeasible(trials, front, columns, laid),
            *_feasible(trials, front, columns, laid),
        ]
        found[pair.name] = plots.drawing(data, xaxis=x, yaxis=y)
    return found


def space(trials: Trials, front: Front) -> plots.Drawing:
    """The figure of all objectives in one measure of time."""
    laid = _axes(XYZ, front)
    scene = {}
    for key, axis in zip("xyz", laid, strict=True):
        font, small = ({"color": plots.MUTED.light, "size": size} for size in (12, 11))
        title = {"text": axis["title"]["text"], "font": font}
        look = {"title": title, "tickfont": small, "backgroundcolor": plots.CARD.light}
        scene[f"{key}axis"] = {**axis, **look, "showspikes": False}
        # Axes in depth have none.
        del scene[f"{key}axis"]["automargin"]
    data = [
        _stems([front.rows[number] for number in front.numbers], floor=laid[-1]["range"][0]),
        *_infeasible(trials, front, XYZ, laid),
        *_feasible(trials, front, XYZ, laid),
    ]
    return plots.drawing(
        data,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        scene={
            **scene,
            "aspectmode": "manual",
            "aspectratio": {"x": 1.25, "y": 1.25, "z": 0.9},
            "camera": {
                "eye": {"x": -1.5, "y": -1.65, "z": 0.8},
                "center": {"x": 0, "y": 0, "z": -0.15},
            },
            "bgcolor": plots.CARD.light,
            "dragmode": "turntable",
        },
    )


def overlay(paper: Published, trials: Trials, front: Front) -> dict[str, dict[str, Any]]:
    """The paper's points for one measure of time: a trace, wider axes and what they move.

    Returns:
        By name of the figure; without those for which the paper gives no figures.
    """
    points = [point for point in paper.points if front.axis in point.positions]
    if not points:
        return {}
    measured = (ACCURACY.name, TRAINING_SECONDS.name, PARAMETERS.name)
    rows: list[Row] = [
        dict(zip(measured, (p.accuracy, p.positions[front.axis], p.parameters), strict=True))
        for p in points
    ]
    runs = "one run" if paper.runs == 1 else f"mean of {paper.runs} runs"
    words = [
        f"<b>paper: {plots.label(point.name)}</b><br>accuracy {text.percent(point.accuracy)}, "
        f"{runs}<br>epoch {point.positions[TimeAxis.EPOCHS]:g}, {point.parameters:,} parameters"
        for point in points
    ]
    if front.axis in (TimeAxis.SECONDS, TimeAxis.PAPER):
        seconds = [f"{point.positions[front.axis]:,.0f} s" for point in points]
        words = [f"{a}<br>{b} on {paper.hardware}" for a, b in zip(words, seconds, strict=True)]
    line = {"width": 1.5, "color": plots.MUTED.light}
    marker = {"symbol": "asterisk-open", "size": 10, "color": plots.MUTED.light, "line": line}
    found = {}
    for pair in front.attained:
        if not {pair.x.name, pair.y.name} <= {*measured}:
            continue
        x, y = laid = _axes((pair.x, pair.y), front, rows)
        xs, ys = ([float(row[one.name]) for row in rows] for one in (pair.x, pair.y))
        said = {"hovertext": words, "hoverinfo": "text", "meta": "paper"}
        found[pair.name] = {
            "attained": _attainment(front, pair, x, y),
            "infeasible": list(_infeasible(trials, front, (pair.x, pair.y), laid)),
            "trace": plots.scatter("markers", xs, ys, marker=marker, **said),
            "xaxis": x,
            "yaxis": y,
        }
    return found


def _axes(columns: Columns, front: Front, more: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """The axes of these objectives over the feasible trials, and over more rows."""
    rows = [*front.rows.values(), *more]
    return [axes.of(one, front.axis, [row[one.name] for row in rows]) for one in columns]


def _feasible(
    trials: Trials, front: Front, columns: Columns, laid: Sequence[Axis]
) -> Iterator[plots.Trace]:
    """Markers of the feasible trials, of those on the front above the others."""
    on_front = frozenset(front.numbers)
    many = len(front.rows) - len(on_front) > MANY
    beside = _labels(front, (columns[0], columns[-1]), laid[0], laid[-1])
    for is_front in (False, True):
        shown = [trials[number] for number in front.rows if (number in on_front) is is_front]
        for group in by_look(shown):
            rows = [front.rows[trial.number] for trial in group]
            places = zip("xyz", columns, strict=False)
            trace: plots.Trace = {k: plots.short(row[c.name] for row in rows) for k, c in places}
            trace |= _markers(group, on_front=is_front, many=many, in_depth=len(columns) > 2)
            if is_front:
                trace |= {
                    "mode": "markers+text",
                    "text": [beside.get(trial.number, "") for trial in group],
                    # The attainment line leaves a marker to the right, up or down, never to the
                    # left.
                    **({"textposition": "middle left"} if len(columns) == 2 else {}),
                    "textfont": plots.SMALL,
                }
            if len(columns) == 2 and (is_front or len(shown) <= MOST_BARS):
                trace |= _spread(group, front, columns)
            yield trace


def _infeasible(
    trials: Trials, front: Front, columns: Columns, laid: Sequence[Axis]
) -> Iterator[plots.Trace]:
    """Infeasible trials, faint and below the others; those beyond an axis stand at its end."""
    for group in by_look(trials[number] for number in front.infeasible):
        rows = [front.infeasible[trial.number] for trial in group]
        trace: plots.Trace = {
            key: plots.short(axes.within(axis, row[column.name]) for row in rows)
            for key, column, axis in zip("xyz", columns, laid, strict=False)
        }
        trace |= _markers(group, on_front=False, many=True, in_depth=len(columns) > 2)
        yield trace | {"meta": "infeasible"}


def _markers(
    group: Sequence[TrialView], *, on_front: bool, many: bool, in_depth: bool
) -> plots.Trace:
    """Markers of trials that are drawn alike, hollow where weights are shared.

    Plotly knows few symbols in 3D, so there the kind of batch has one.
    """
    mark, hollow = group[0].mark, group[0].shares_weights
    symbol, sizes = mark.symbol, (13, 9, 6)
    if in_depth:
        symbol, sizes = "diamond" if mark.adapts_batch else "circle", (7, 5, 3)
    outline = 1.0 if many and not on_front else 2.0
    trace: plots.Trace = {
        "type": "scatter3d" if in_depth else "scatter",
        "mode": "markers",
        "customdata": [trial.number for trial in group],
        "hoverinfo": "text",
        "marker": {
            "symbol": symbol + "-open" * hollow,
            "color": mark.tone.light,
            "size": sizes[0 if on_front else 1 + many],
            "opacity": 1.0 if on_front else plots.FAINT / (1 + many),
            "line": {"width": outline * (hollow and not in_depth), "color": mark.tone.light},
        },
        "meta": "front" if on_front else "others",
    }
    return trace if in_depth else trace | {"cliponaxis": False}


def _labels(front: Front, columns: Columns, x: Axis, y: Axis) -> dict[int, str]:
    """What stands beside each trial on the front: trials of one place share a label.

    A label that would cover that of a more accurate trial is left out; the page names its trial
    when pointed at.
    """
    found: dict[tuple[float, ...], list[int]] = {}
    for number in front.numbers:
        place = tuple(front.rows[number][column.name] for column in columns)
        found.setdefault(place, []).append(number)
    shown: dict[int, str] = {}
    boxes: list[tuple[float, float, float]] = []
    for place, same in found.items():
        few = sorted(same)[:MOST_SHARING]
        words = ", ".join(map(str, few)) + "…" * (len(same) > len(few))
        right, middle = WIDTH * _share(x, place[0]), HEIGHT * _share(y, place[1])
        left = right - LETTER * len(words)
        if not any(
            left < other_right and other_left < right and abs(middle - other) < LINE
            for other_left, other_right, other in boxes
        ):
            boxes.append((left, right, middle))
            shown[same[0]] = words
    return shown


def _share(axis: Axis, value: float) -> float:
    """Where a value lies on an axis, from 0 to 1."""
    low, high = axis["range"]
    at = math.log10(value) if axis.get("type") == "log" else value
    return float((at - low) / (high - low))


def _attainment(front: Front, pair: Pair, x: Axis, y: Axis) -> plots.Trace:
    """The step line around what a pair of objectives attains, up to the edges of the figure."""
    xs, ys = zip(*front.attained[pair], strict=True)
    edge = axes.ends(y)[not pair.y.maximise]
    left, right, shape = (xs[0], edge), (axes.ends(x)[1], ys[-1]), "hv"
    if pair.x.maximise:
        left, right, shape = (axes.ends(x)[0], ys[0]), (xs[-1], edge), "vh"
    return plots.scatter(
        "lines",
        [left[0], *xs, right[0]],
        [left[1], *ys, right[1]],
        line={"shape": shape, "color": plots.ATTAINED.light, "width": 1.5},
        hoverinfo="skip",
        meta="attained",
    )


def _stems(rows: Sequence[Row], *, floor: float) -> plots.Trace:
    """A thin line from each trial on the front to the floor, which places it in depth."""
    xs, ys, zs = ([row[one.name] for row in rows] for one in XYZ)
    return {
        "type": "scatter3d",
        "x": [value for x in xs for value in (x, x, None)],
        "y": [value for y in ys for value in (y, y, None)],
        "z": [value for z in zs for value in (floor, z, None)],
        "mode": "lines",
        "line": {"color": plots.ATTAINED.light, "width": 2},
        "hoverinfo": "skip",
    }


def _spread(group: Sequence[TrialView], front: Front, columns: Columns) -> plots.Trace:
    """Bars from the lowest to the highest run, where trials have several.

    An estimate may lie beyond all runs: one length is then negative, and the bar ends before it.
    """
    found: plots.Trace = {}
    for key, column in zip(("error_x", "error_y"), columns, strict=True):
        if column is TRAINING_SECONDS and front.axis is not TimeAxis.SECONDS:
            continue
        reach = [ranges(trial.record.runs).get(column.name) for trial in group]
        if any(reach):
            values = [front.rows[trial.number][column.name] for trial in group]
            both = [each or (value, value) for each, value in zip(reach, values, strict=True)]
            look = {"color": group[0].mark.tone.light, "thickness": 1, "width": 3}
            found[key] = plots.error_bar(values, both, **look)
    return found
