"""Markers and lines that several figures draw alike.

``customdata`` of a marker is the number of its trial, by which the page links all that it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastrcaps_search.report.fronts import ACCURACY, PAIRS, Front
from fastrcaps_search.report.plots import Trace, faint
from fastrcaps_search.report.style import ATTAINED, TEXT
from fastrcaps_search.report.trials import TrialView

WIDTH, HEIGHT, LETTER, LINE = 370, 255, 8, 13
"""Rough sizes in pixels of a figure's inside and of a label, to see which labels would meet."""
MOST_SHARING = 4
"""Trials of one place that its label names."""
MANY = 150
"""Trials off the front above which their markers are small and fainter still."""


def by_look(trials: Iterable[TrialView]) -> list[list[TrialView]]:
    """Trials in groups that are drawn alike: one policy, filled or hollow."""
    groups: dict[tuple[str, bool], list[TrialView]] = {}
    for trial in trials:
        groups.setdefault((trial.mark.policy, trial.shares_weights), []).append(trial)
    return list(groups.values())


def labels(
    numbers: Sequence[int],
    places: Sequence[Sequence[float]],
    x: Mapping[str, Any],
    y: Mapping[str, Any],
) -> dict[int, str]:
    """What stands beside each trial on the front: trials of one place share a label.

    A label that would cover an earlier one is left out; the page names its trial when pointed at.

    Args:
        numbers: The trials, the most important first.
        places: Their x and y.
        x: The x axis, with its range.
        y: The y axis.
    """
    found: dict[tuple[float, ...], list[int]] = {}
    for number, place in zip(numbers, places, strict=True):
        found.setdefault(tuple(place), []).append(number)
    shown: dict[int, str] = {}
    boxes: list[tuple[float, float, float]] = []
    for place, same in found.items():
        few = sorted(same)[:MOST_SHARING]
        text = ", ".join(map(str, few)) + "…" * (len(same) > len(few))
        right, middle = WIDTH * _share(x, place[0]), HEIGHT * _share(y, place[1])
        left = right - LETTER * len(text)
        if not any(
            left < other_right and other_left < right and abs(middle - other) < LINE
            for other_left, other_right, other in boxes
        ):
            boxes.append((left, right, middle))
            shown[same[0]] = text
    return shown


def _share(axis: Mapping[str, Any], value: float) -> float:
    """Where a value lies on an axis, from 0 to 1."""
    low, high = axis["range"]
    at = math.log10(value) if axis.get("type") == "log" else value
    return float((at - low) / (high - low))


def attainment(
    front: Front, place: int, x_axis: Mapping[str, Any], y_axis: Mapping[str, Any]
) -> Trace:
    """The step line around what a pair of objectives attains, up to the edges of the figure."""
    edge = x_axis["range"][1]
    right = float(10**edge) if x_axis.get("type") == "log" else float(edge)
    start = y_axis["range"][0 if PAIRS[place].y == ACCURACY else 1]
    xs, ys = zip(*front.attained[place], strict=True)
    return {
        "type": "scatter",
        "x": [xs[0], *xs, right],
        "y": [start, *ys, ys[-1]],
        "mode": "lines",
        "line": {"shape": "hv", "color": ATTAINED.light, "width": 1.5},
        "hoverinfo": "skip",
        "meta": "attained",
    }


def markers(
    group: Sequence[TrialView], beside: Mapping[int, str], *, on_front: bool, many: bool
) -> Trace:
    """Markers of trials that are drawn alike, hollow where weights are shared."""
    mark, hollow = group[0].mark, group[0].shares_weights
    outline = 1.0 if many and not on_front else 2.0
    trace: Trace = {
        "type": "scatter",
        "mode": "markers",
        "customdata": [trial.number for trial in group],
        "hoverinfo": "text",
        "cliponaxis": False,
        "marker": {
            "symbol": mark.symbol + "-open" * hollow,
            "color": mark.tone.light,
            "size": 13 if on_front else 6 if many else 9,
            "opacity": 1.0 if on_front else faint(many=many),
            "line": {
                "width": outline if hollow else 0,
                "color": mark.tone.light,
            },
        },
        "meta": "front" if on_front else "others",
    }
    if on_front and beside:
        trace |= {
            "mode": "markers+text",
            "text": [beside.get(trial.number, "") for trial in group],
            # The attainment line leaves a marker to the right, up or down, never to the left.
            "textposition": "middle left",
            "textfont": {"size": 12, "color": TEXT.light},
        }
    return trace


def error_bar(
    values: Sequence[float], ends: Sequence[tuple[float, float]], **look: object
) -> dict[str, object]:
    """Bars from the lower to the upper end around values, none of which need lie between them."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        **look,
    }
