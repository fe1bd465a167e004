"""How sure the accuracies on the front are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastrcaps_search.report import text
from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import ABOVE, Drawing, Trace, drawing
from fastrcaps_search.report.facts.certainty import Certainty, CertaintyRow
from fastrcaps_search.report.marks import ATTAINED, MUTED, TEXT

BELOW = 0.3
"""How far the interval of the mean over runs stands below its trial's, in rows."""


def certainties(certainty: Certainty) -> Drawing:
    """Accuracy of each trial with its interval, its runs and the test set's word on it."""
    rows = certainty.rows[::-1]
    data = [_accuracies(rows, f"accuracy on the {certainty.split}, 95 % interval")]
    if any(row.mean_interval for row in rows):
        data.append(_means(rows))
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
    ends = [end for row in rows for end in (*row.interval, *(row.mean_interval or ()))]
    sure = _probabilities(rows)
    low, high = axes.limits([*ends, *(x for trace in data for x in trace["x"])])
    return drawing(
        data,
        showlegend=True,
        legend=ABOVE,
        margin={"l": 64, "r": 68 if sure else 16, "t": 36, "b": 48},
        annotations=sure,
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
        "x": [row.measured for row in rows],
        "y": list(range(len(rows))),
        "customdata": [row.trial.number for row in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [row.interval[1] - row.measured for row in rows],
            "arrayminus": [row.measured - row.interval[0] for row in rows],
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


def _means(rows: Sequence[CertaintyRow]) -> Trace:
    """The intervals of the means over runs, or of estimates: thin, each below its trial's."""
    estimated = any(row.trial.record.measured is not None for row in rows)
    what = "estimate of the mean" if estimated else "mean of its runs"
    known = [
        (place, row.accuracy, row.mean_interval)
        for place, row in enumerate(rows)
        if row.mean_interval is not None
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{what}, 95 % interval",
        "x": [accuracy for _, accuracy, _ in known],
        "y": [place - BELOW for place, _, _ in known],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [high - accuracy for _, accuracy, (_, high) in known],
            "arrayminus": [accuracy - low for _, accuracy, (low, _) in known],
            "color": TEXT.light,
            "thickness": 1,
            "width": 3,
        },
        # In the legend a thin bar too; in the figure it lies within the interval.
        "marker": {
            "size": 8,
            "symbol": "line-ew-open",
            "color": TEXT.light,
            "line": {"width": 1, "color": TEXT.light},
        },
        "hovertemplate": f"%{{x:.2%}}, {what}<extra></extra>",
    }


def _probabilities(rows: Sequence[CertaintyRow]) -> list[dict[str, Any]]:
    """At the right end of each row how probably its trial is on the front, where that is known."""
    known = [
        (place, text.share(row.trial.probability))
        for place, row in enumerate(rows)
        if row.trial.probability is not None
    ]
    if not known:
        return []
    shared = {"xref": "paper", "x": 1.01, "xanchor": "left", "showarrow": False, "align": "left"}
    head = {"yref": "paper", "y": 0, "yanchor": "top", "yshift": -4, "text": "on front"}
    numbers = [
        {"y": place, "text": words, "font": {"size": 12, "color": TEXT.light}}
        for place, words in known
    ]
    muted = {"font": {"size": 12, "color": MUTED.light}}
    return [shared | each for each in (*numbers, head | muted)]


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
