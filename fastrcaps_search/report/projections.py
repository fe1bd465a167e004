"""The objectives by twos and all at once, in each measure of time.

``customdata`` of a marker is the number of its trial, by which the page links all that it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastrcaps_search.definition.objective import COMMON, TRAINING_SECONDS, Objective
from fastrcaps_search.report import axes, plots, text
from fastrcaps_search.report.fronts import XYZ, Front, Pair, Row, TimeAxis, pairs_of
from fastrcaps_search.report.paper import Published
from fastrcaps_search.report.trials import TrialView, by_look, ranges

WIDTH, HEIGHT, LETTER, LINE = 370, 255, 8, 13
"""Rough sizes in pixels of a figure's inside and of a label, to see which labels would meet."""
MOST_SHARING = 4
"""Trials of one place that its label names."""
MANY = 150
"""Trials off the front above which their markers are small, fainter still, and without bars."""

Axis = Mapping[str, Any]
Columns = Sequence[Objective]
Trials = Mapping[int, TrialView]
"""All trials by number."""


def projections(
    trials: Trials, front: Front, more: Sequence[Row] = ()
) -> dict[str, plots.Drawing]:
    """The figures of the pairs in one measure of time, by their names.

    Args:
        trials: The trials.
        front: The measure's front.
        more: Rows that the axes hold beside those of the trials.
    """
    found = {}
    for pair in front.attained:
        columns = (pair.x, pair.y)
        x, y = laid = _axes(columns, front, more)
        data = [_attainment(front, pair, x, y), *_markers(trials, front, columns, laid)]
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
    return plots.drawing(
        list(_markers(trials, front, XYZ, laid)),
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
    """The paper's points for one measure of time: a trace, wider axes and what goes by their ends.

    Returns:
        By name of the figure; without those for which the paper gives no figures.
    """
    rows = paper.rows_in(front.axis)
    if not rows:
        return {}
    line = {"width": 1.5, "color": plots.MUTED.light}
    marker = {"symbol": "asterisk-open", "size": 10, "color": plots.MUTED.light, "line": line}
    words = [_words(paper, front.axis, name, row) for name, row in rows.items()]
    said = {"hovertext": words, "hoverinfo": "text", "meta": "paper"}
    wide, found = projections(trials, front, list(rows.values())), {}
    for pair in pairs_of(COMMON):
        traces, layout = wide[pair.name]["data"], wide[pair.name]["layout"]
        xs, ys = ([row[one.name] for row in rows.values()] for one in (pair.x, pair.y))
        found[pair.name] = {
            "below": [trace for trace in traces if trace["meta"] in ("attained", "infeasible")],
            "trace": plots.scatter("markers", xs, ys, marker=marker, **said),
            "xaxis": layout["xaxis"],
            "yaxis": layout["yaxis"],
        }
    return found


def _words(paper: Published, axis: TimeAxis, name: str, row: Row) -> str:
    """What stands beside one of the paper's points."""
    accuracy, time, parameters = (row[each] for each in COMMON)
    runs = "one run" if paper.runs == 1 else f"mean of {paper.runs} runs"
    found = (
        f"<b>paper: {plots.label(name)}</b><br>accuracy {text.percent(accuracy)}, {runs}<br>"
        f"epoch {paper.rows[name]['epoch_of_max']}, {parameters:,.0f} parameters"
    )
    if axis in (TimeAxis.SECONDS, TimeAxis.PAPER):
        found += f"<br>{time:,.0f} s on {paper.hardware}"
    return found


def _axes(columns: Columns, front: Front, more: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """The axes of these objectives over the feasible trials, and over more rows."""
    rows = [*front.rows.values(), *more]
    return [
        axes.of(one, front.axis, [row[one.name] for row in rows if one.name in row])
        for one in columns
    ]


def _markers(
    trials: Trials, front: Front, columns: Columns, laid: Sequence[Axis]
) -> Iterator[plots.Trace]:
    """Markers of all trials: infeasible ones below the others, those on the front above.

    An infeasible trial that lies beyond an axis stands at its end.
    """
    others = sorted(front.rows.keys() - set(front.numbers))
    layers = {"infeasible": front.infeasible, "others": others, "front": sorted(front.numbers)}
    places = {**front.rows, **front.infeasible}
    beside = _labels(front, (columns[0], columns[-1]), laid[0], laid[-1])
    is_flat = len(columns) == 2
    for layer, numbers in layers.items():
        many = layer == "infeasible" or len(others) > MANY
        for group in by_look(trials[number] for number in numbers):
            trace = _look(group[0], layer, many=many, is_flat=is_flat)
            trace["customdata"] = [trial.number for trial in group]
            for key, column, axis in zip("xyz", columns, laid, strict=False):
                values = (places[number][column.name] for number in trace["customdata"])
                trace[key] = plots.short(axes.within(axis, value) for value in values)
            if layer == "front":
                words = [beside.get(number, "") for number in trace["customdata"]]
                trace |= {"mode": "markers+text", "text": words, "textfont": plots.SMALL}
                if not is_flat:
                    trace["error_z"] = _stems(trace["z"], floor=laid[-1]["range"][0])
            if is_flat and (layer == "front" or not many):
                trace |= _spread(group, front, columns)
            yield trace


def _look(trial: TrialView, layer: str, *, many: bool, is_flat: bool) -> plots.Trace:
    """How trials are drawn that look alike: hollow where weights are shared.

    Plotly knows few symbols in 3D, so there the kind of batch has one.
    """
    mark, hollow, is_front = trial.mark, trial.shares_weights, layer == "front"
    symbol, sizes = mark.symbol, (13, 9, 6)
    if not is_flat:
        grows, sizes = trial.record.parameters.adapts_batch, (7, 5, 3)
        symbol = "diamond" if grows else "circle"
    outline = 1.0 if many and not is_front else 2.0
    trace: plots.Trace = {
        "type": "scatter" if is_flat else "scatter3d",
        "mode": "markers",
        "hoverinfo": "text",
        "marker": {
            "symbol": symbol + "-open" * hollow,
            "color": mark.tone.light,
            "size": sizes[0 if is_front else 1 + many],
            "opacity": 1.0 if is_front else plots.FAINT / (1 + many),
            "line": {"width": outline * (hollow and is_flat), "color": mark.tone.light},
        },
        "meta": layer,
    }
    # The attainment line leaves a marker to the right, up or down, never to the left.
    flat = {"cliponaxis": False, "textposition": "middle left"}
    return trace | flat if is_flat else trace


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


def _stems(zs: Sequence[float], *, floor: float) -> dict[str, Any]:
    """A thin line from each marker to the floor, which places it in depth."""
    look = {"color": plots.ATTAINED.light, "thickness": 3, "width": 0}
    return plots.error_bar(zs, [(floor, z) for z in zs], **look)


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
