"""Accuracies with the intervals that images and runs leave for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.front.paired import Z_95
from fastrcaps_search.report import axes, text
from fastrcaps_search.report.plots import ABOVE, Drawing, Trace, drawing
from fastrcaps_search.report.style import ATTAINED, MUTED, TEXT
from fastrcaps_search.report.traces import error_bar
from fastrcaps_search.report.trials import TrialView, finite
from fastrcaps_search.store.records import Values

BELOW = 0.3
"""How far the interval of the mean over runs stands below its trial's, in rows."""


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """Accuracy of one trial on the front.

    Attributes:
        trial: The trial.
        accuracy: Its accuracy, which may be an estimate.
        measured: Mean over its runs, read off the images.
        interval: 95 % interval of that from the number of images.
        mean_interval: 95 % interval of the mean over its runs, or of the estimate, if any.
        runs: Accuracy of each run.
    """

    trial: TrialView
    accuracy: float
    measured: float
    interval: tuple[float, float]
    mean_interval: tuple[float, float] | None
    runs: tuple[float, ...]


def accuracy_row(trial: TrialView, values: Values, images: int) -> AccuracyRow:
    """What is known of the accuracy of a trial, judged on so many images."""
    spread = trial.record.accuracy_spread
    accuracy = values.accuracy
    measured = (trial.record.means or values).accuracy
    return AccuracyRow(
        trial=trial,
        accuracy=accuracy,
        measured=measured,
        interval=wilson(measured, images),
        mean_interval=None if spread is None else spread.ends(accuracy, 1.0),
        runs=finite(run.accuracy for run in trial.record.runs),
    )


def wilson(fraction: float, images: int) -> tuple[float, float]:
    """95 % score interval of a fraction of ``images`` (Wilson 1927, J. Am. Stat. Assoc. 22).

    It says how far the images alone may mislead: where another draw of as many may lie.

    Raises:
        ValueError: The fraction is not between 0 and 1, or there is no image.
    """
    if images < 1 or not 0.0 <= fraction <= 1.0:
        raise ValueError(f"needs a fraction of at least one image, got {fraction} of {images}")
    weight = Z_95**2 / images
    centre = (fraction + weight / 2) / (1 + weight)
    variance = fraction * (1 - fraction) / images + (Z_95 / images) ** 2 / 4
    half = Z_95 * math.sqrt(variance) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)


def intervals(rows: Sequence[AccuracyRow], split: str) -> Drawing:
    """Accuracy of each trial with its interval, its runs and the test set's word on it."""
    rows = rows[::-1]
    data = [_accuracies(rows, f"accuracy on the {split}, 95 % interval")]
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
    beside = _probabilities(rows)
    low, high = axes.limits([*ends, *(x for trace in data for x in trace["x"])])
    return drawing(
        data,
        showlegend=True,
        legend=ABOVE,
        margin={"l": 64, "r": 68 if beside else 16, "t": 36, "b": 48},
        annotations=beside,
        xaxis=axes.plain(
            "accuracy", range=[low, min(high, 1.005)], tickformat=axes.decimals(high - low)
        ),
        yaxis=axes.rows([f"trial {row.trial.number}" for row in rows]),
    )


def _accuracies(rows: Sequence[AccuracyRow], name: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row.measured for row in rows],
        "y": list(range(len(rows))),
        "customdata": [row.trial.number for row in rows],
        "error_x": error_bar(
            [row.measured for row in rows],
            [row.interval for row in rows],
            **{"color": ATTAINED.light, "thickness": 2, "width": 0},
        ),
        "marker": {
            "size": 10,
            "symbol": [row.trial.mark.symbol for row in rows],
            "color": [row.trial.mark.tone.light for row in rows],
        },
        "hovertemplate": "%{x:.2%}<extra></extra>",
    }


def _means(rows: Sequence[AccuracyRow]) -> Trace:
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
        "error_x": error_bar(
            [accuracy for _, accuracy, _ in known],
            [interval for _, _, interval in known],
            **{"color": TEXT.light, "thickness": 1, "width": 3},
        ),
        # In the legend a thin bar too; in the figure it lies within the interval.
        "marker": {
            "size": 8,
            "symbol": "line-ew-open",
            "color": TEXT.light,
            "line": {"width": 1, "color": TEXT.light},
        },
        "hovertemplate": f"%{{x:.2%}}, {what}<extra></extra>",
    }


def _probabilities(rows: Sequence[AccuracyRow]) -> list[dict[str, Any]]:
    """At the right end of each row how probably its trial is on the front, where that is known."""
    known = [
        (place, text.share(row.trial.front_probability))
        for place, row in enumerate(rows)
        if row.trial.front_probability is not None
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
