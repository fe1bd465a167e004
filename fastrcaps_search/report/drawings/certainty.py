"""How sure the accuracies on the front are."""

from __future__ import annotations

from collections.abc import Sequence

from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import ABOVE, Drawing, Trace, drawing
from fastrcaps_search.report.facts.certainty import Certainty, CertaintyRow
from fastrcaps_search.report.marks import ATTAINED, TEXT


def certainties(certainty: Certainty) -> Drawing:
    """Accuracy of each trial with its interval, its runs and the test set's word on it."""
    rows = certainty.rows[::-1]
    data = [_accuracies(rows, f"accuracy on the {certainty.split}, 95 % interval")]
    runs = [
        (accuracy, place)
        for place, row in enumerate(rows)
        for accuracy in row.runs
        if len(row.runs) > 1
    ]
    tested = [
        (row.trial.test_accuracy, place)
        for place, row in enumerate(rows)
        if row.trial.test_accuracy is not None
    ]
    if runs:
        data.append(_ticks("each run", runs, "line-ns-open"))
    if tested:
        data.append(_ticks("accuracy on the test set", tested, "diamond-open"))
    ends = [end for row in rows for end in row.interval]
    low, high = axes.limits([*ends, *(x for trace in data for x in trace["x"])])
    return drawing(
        data,
        showlegend=True,
        legend=ABOVE,
        margin={"l": 64, "r": 16, "t": 36, "b": 48},
        xaxis=axes.plain(
            "accuracy", range=[low, min(high, 1.005)], tickformat=axes.decimals(high - low)
        ),
        yaxis=axes.rows([f"trial {row.trial.number}" for row in rows]),
    )


def _accuracies(rows: Sequence[CertaintyRow], name: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row.accuracy for row in rows],
        "y": list(range(len(rows))),
        "customdata": [row.trial.number for row in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [row.interval[1] - row.accuracy for row in rows],
            "arrayminus": [row.accuracy - row.interval[0] for row in rows],
            "color": ATTAINED.light,
            "thickness": 2,
            "width": 0,
        },
        "marker": {
            "size": 10,
            "symbol": [row.trial.mark.symbol for row in rows],
            "color": [row.trial.mark.tone.light for row in rows],
        },
        "hovertemplate": "%{x:.2%}<extra></extra>",
    }


def _ticks(name: str, points: Sequence[tuple[float, int]], symbol: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "marker": {"symbol": symbol, "size": 10, "color": TEXT.light, "line": {"width": 1.5}},
        "hovertemplate": f"%{{x:.2%}}, {name}<extra></extra>",
    }
