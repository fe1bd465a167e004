"""How far an accuracy may be off: luck of the images and luck of the seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.front.criteria import joined
from fastrcaps_search.front.estimates import NEAR
from fastrcaps_search.front.paired import Z_95
from fastrcaps_search.report import axes, plots, text
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.trials import TrialView, finite
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import Values

MOST_NEAR = 6
"""Trials near the front that are named one by one."""
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


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How sure the front is.

    Attributes:
        view: The study.
        largest_runs: Most runs of any trial on the front.
        fewest_runs: Fewest of them.
        repeated: Feasible trials of two runs or more, over which the spread is pooled.
        near: Trials behind the front that may well belong there, the most probable first.
        rows: The first trials on the front.
    """

    view: ReportView
    largest_runs: int
    fewest_runs: int
    repeated: int
    near: Sequence[TrialView]
    rows: Sequence[AccuracyRow]

    @property
    def near_named(self) -> str:
        """Those in words, the last ones counted."""
        named = [
            f"trial {trial.number} ({text.share(trial.front_probability)})"
            for trial in self.near[:MOST_NEAR]
        ]
        more = len(self.near) - MOST_NEAR
        return joined([*named, f"{more} more"] if more > 0 else named)


def gather(view: ReportView) -> Uncertainty | None:
    """How sure the front and its accuracies are; ``None`` without one."""
    if not view.front:
        return None
    counts = [len(trial.record.results) for trial in view.front]
    sureness = view.front_probabilities
    near = [n for n in sureness if sureness[n] >= NEAR and not view.by_number[n].on_front]
    return Uncertainty(
        view=view,
        largest_runs=max(counts),
        fewest_runs=min(counts),
        repeated=sum(len(trial.record.results) > 1 for trial in view.feasible),
        near=[view.by_number[n] for n in sorted(near, key=lambda n: (-sureness[n], n))],
        rows=[
            _row(trial, trial.values, view.definition.evaluation_size)
            for trial in view.shown_front
            if trial.values is not None
        ],
    )


def _row(trial: TrialView, values: Values, images: int) -> AccuracyRow:
    """What is known of the accuracy of a trial on the front, judged on so many images."""
    spread = trial.record.accuracy_spread
    measured = (trial.record.means or values).accuracy
    return AccuracyRow(
        trial=trial,
        accuracy=values.accuracy,
        measured=measured,
        interval=wilson(measured, images),
        mean_interval=None if spread is None else (spread.low, spread.high),
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


def draw(found: Uncertainty) -> Iterator[Plot]:
    """The figure."""
    yield Plot(
        name="accuracies",
        drawing=intervals(found),
        words="Accuracy of the trials on the front with 95 % intervals, runs and test accuracy",
        height=7 + (2 if found.largest_runs > 1 else 1.5) * len(found.rows),
    )


def intervals(found: Uncertainty) -> plots.Drawing:
    """Accuracy of each trial with its interval, its runs and the test set's word on it."""
    rows = found.rows[::-1]
    split, test = found.view.definition.evaluate_on.images, "accuracy on the test set"
    mean = "estimate of the mean" if found.view.is_estimated else "mean of its runs"
    runs = [(x, y) for y, row in enumerate(rows) if len(row.runs) > 1 for x in row.runs]
    tests = [(row.trial.record.test_accuracy, y) for y, row in enumerate(rows)]
    tested = [(x, y) for x, y in tests if x is not None]
    look = {"size": 10, "color": plots.TEXT.light, "line": {"width": 1.5}}
    parts = [
        _accuracies(rows, f"accuracy on the {split}, 95 % interval"),
        _means(rows, mean),
        _points("each run", runs, ", each run", symbol="line-ns-open", **look),
        _points(test, tested, f", {test}", symbol="diamond-open", **look),
    ]
    data = [trace for trace in parts if trace["x"]]
    beside = _probabilities(rows)
    ends = [end for row in rows for end in (*row.interval, *(row.mean_interval or ()))]
    return plots.drawing(
        data,
        showlegend=True,
        legend=plots.ABOVE,
        margin={"l": 64, "r": 68 if beside else 16, "t": 36, "b": 48},
        annotations=beside,
        xaxis=axes.fraction("accuracy", [*ends, *(x for trace in data for x in trace["x"])]),
        yaxis=axes.rows([f"trial {row.trial.number}" for row in rows]),
    )


def _accuracies(rows: Sequence[AccuracyRow], name: str) -> plots.Trace:
    points = [(row.measured, place) for place, row in enumerate(rows)]
    symbols = [row.trial.mark.symbol for row in rows]
    colours = [row.trial.mark.tone.light for row in rows]
    trace = _points(name, points, size=10, symbol=symbols, color=colours)
    look = {"color": plots.ATTAINED.light, "thickness": 2, "width": 0}
    return trace | {
        "customdata": [row.trial.number for row in rows],
        "error_x": plots.error_bar(trace["x"], [row.interval for row in rows], **look),
    }


def _means(rows: Sequence[AccuracyRow], what: str) -> plots.Trace:
    """The intervals of the means over runs, or of estimates: thin, each below its trial's."""
    known = {
        (row.accuracy, place - BELOW): row.mean_interval
        for place, row in enumerate(rows)
        if row.mean_interval is not None
    }
    colour = {"color": plots.TEXT.light}
    # In the legend a thin bar too; in the figure it lies within the interval.
    marker = {"symbol": "line-ew-open", "size": 8, "line": {"width": 1, **colour}, **colour}
    trace = _points(f"{what}, 95 % interval", list(known), f", {what}", **marker)
    bar = plots.error_bar(trace["x"], list(known.values()), thickness=1, width=3, **colour)
    return trace | {"error_x": bar}


def _points(
    name: str,
    points: Sequence[tuple[float, float]],
    said: str = "",
    **marker: Any,  # noqa: ANN401 - Plotly's own values
) -> plots.Trace:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    hover = f"%{{x:.2%}}{said}<extra></extra>"
    return plots.scatter("markers", xs, ys, name=name, marker=marker, hovertemplate=hover)


def _probabilities(rows: Sequence[AccuracyRow]) -> list[plots.Trace]:
    """At the right end of each row how probably its trial is on the front, where that is known."""
    shared = {"xref": "paper", "xanchor": "left", "align": "left"}
    found = [
        plots.words_at(1.01, place, text.share(sure), font=plots.SMALL, **shared)
        for place, row in enumerate(rows)
        if (sure := row.trial.front_probability) is not None
    ]
    if found:
        muted = {"size": 12, "color": plots.MUTED.light}
        below = {"yref": "paper", "yanchor": "top", "yshift": -4}
        found.append(plots.words_at(1.01, 0, "on front", font=muted, **shared, **below))
    return found


PANEL = Panel(
    name="uncertainty",
    title="How sure is it?",
    link="How sure",
    gather=gather,
    draw=draw,
    module=__file__,
)
