"""The three pairs of objectives, in each measure of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastrcaps_search.report import axes
from fastrcaps_search.report.fronts import ACCURACY, PAIRS, TIME, Front, Pair
from fastrcaps_search.report.plots import Drawing, Trace, drawing, short
from fastrcaps_search.report.time_axis import TimeAxis
from fastrcaps_search.report.traces import MANY, attainment, by_look, error_bar, labels, markers
from fastrcaps_search.report.trials import TrialView, ranges

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
    data[1:1] = infeasible(trials, front, pair, x, y)
    return drawing(data, xaxis=x, yaxis=y)


def infeasible(
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
            both = [each or (value, value) for each, value in zip(reach, values, strict=True)]
            look = {"color": group[0].mark.tone.light, "thickness": 1, "width": 3}
            found[key] = error_bar(values, both, **look)
    return found
