"""The three objectives at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastrcaps_search.report import axes
from fastrcaps_search.report.fronts import ACCURACY, PARAMETERS, TIME, Front
from fastrcaps_search.report.plots import Drawing, Trace, drawing, faint, short
from fastrcaps_search.report.projections import axis_of
from fastrcaps_search.report.style import ATTAINED, CARD, MUTED, TEXT
from fastrcaps_search.report.traces import MANY, by_look, labels
from fastrcaps_search.report.trials import TrialView

ORDER = (TIME, PARAMETERS, ACCURACY)
"""Columns along x, y and z: up is better."""


def space(trials: Mapping[int, TrialView], front: Front) -> Drawing:
    """The figure of one measure of time.

    Plotly knows few symbols in 3D, so the kind of batch has one.
    """
    columns = list(zip(*front.rows.values(), strict=True))
    x, y, z = (_axis(column, front, columns[column]) for column in ORDER)
    on_front = frozenset(front.numbers)
    places = [(front.rows[number][TIME], front.rows[number][ACCURACY]) for number in front.numbers]
    beside = labels(front.numbers, places, x, z)
    many = len(front.rows) - len(on_front) > MANY
    data = [_stems([front.rows[number] for number in front.numbers], floor=z["range"][0])]
    for is_front in (False, True):
        shown = [trials[number] for number in front.rows if (number in on_front) is is_front]
        for group in by_look(shown):
            rows = [front.rows[trial.number] for trial in group]
            xyz = {key: short(row[c] for row in rows) for key, c in zip("xyz", ORDER, strict=True)}
            data.append(xyz | _markers(group, beside, on_front=is_front, many=many))
    for group in by_look(trials[number] for number in front.infeasible):
        rows = [front.infeasible[trial.number] for trial in group]
        xyz = {
            key: short(axes.within(axis, row[column]) for row in rows)
            for key, axis, column in zip("xyz", (x, y, z), ORDER, strict=True)
        }
        data.append(xyz | _markers(group, {}, on_front=False, many=True))
    return drawing(
        data,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        scene={
            "xaxis": x,
            "yaxis": y,
            "zaxis": z,
            "aspectmode": "manual",
            "aspectratio": {"x": 1.25, "y": 1.25, "z": 0.9},
            "camera": {
                "eye": {"x": -1.5, "y": -1.65, "z": 0.8},
                "center": {"x": 0, "y": 0, "z": -0.15},
            },
            "bgcolor": CARD.light,
            "dragmode": "turntable",
        },
    )


def _axis(column: int, front: Front, values: Sequence[float]) -> dict[str, Any]:
    axis = axis_of(column, front.axis, values)
    axis.pop("automargin")
    axis["title"] = {"text": axis["title"]["text"], "font": {"color": MUTED.light, "size": 12}}
    axis["tickfont"] = {"color": MUTED.light, "size": 11}
    return {**axis, "backgroundcolor": CARD.light, "showspikes": False}


def _stems(rows: Sequence[Sequence[float]], *, floor: float) -> Trace:
    """A thin line from each trial on the front to the floor, which places it in depth."""
    xs, ys, zs = ([row[column] for row in rows] for column in ORDER)
    return {
        "type": "scatter3d",
        "x": [value for x in xs for value in (x, x, None)],
        "y": [value for y in ys for value in (y, y, None)],
        "z": [value for z in zs for value in (floor, z, None)],
        "mode": "lines",
        "line": {"color": ATTAINED.light, "width": 2},
        "hoverinfo": "skip",
    }


def _markers(
    group: Sequence[TrialView], beside: Mapping[int, str], *, on_front: bool, many: bool
) -> Trace:
    mark, hollow = group[0].mark, group[0].shares_weights
    shape = "diamond" if mark.adapts_batch else "circle"
    trace: Trace = {
        "type": "scatter3d",
        "mode": "markers",
        "customdata": [trial.number for trial in group],
        "hoverinfo": "text",
        "marker": {
            "symbol": shape + "-open" * hollow,
            "color": mark.tone.light,
            "size": 7 if on_front else 3 if many else 5,
            "opacity": 1.0 if on_front else faint(many=many),
            "line": {"width": 0},
        },
    }
    if on_front and beside:
        trace |= {
            "mode": "markers+text",
            "text": [beside.get(trial.number, "") for trial in group],
            "textfont": {"size": 12, "color": TEXT.light},
        }
    return trace
