"""Learning curves: each where they are few, a band where they are many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fastrcaps_search.report import axes
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.plots import FAINT, Drawing, Trace, drawing, label
from fastrcaps_search.report.style import MUTED, VEIL
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView

MOST_FAINT_LINES = 60
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Accuracy of one run after each of its epochs; ``None`` where it is not finite."""

    trial: TrialView
    run: int
    epochs: tuple[int, ...]
    accuracies: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Band:
    """Spread of many runs after each epoch.

    Attributes:
        runs: How many.
        epochs: From 1; only those that some run finished.
        levels: For each of ``QUANTILES`` the accuracy after each epoch.
    """

    runs: int
    epochs: tuple[int, ...]
    levels: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """What the figure of learning curves shows.

    Attributes:
        front: Runs of the first trials on the front.
        others: Every other run, where they are few.
        band: The other runs together, where they are many.
        trials: Number of all trials.
        cut: Says that only the first of the front are strong, where it is so.
    """

    front: tuple[LearningCurve, ...]
    others: tuple[LearningCurve, ...]
    band: Band | None
    trials: int = 0
    cut: tuple[str, ...] = ()


def gather(view: ReportView) -> Curves | None:
    """Gather the curves; ``None`` before the first stored epoch."""
    shown = view.shown_front
    front = [line for trial in shown for line in _of(trial)]
    numbers = {trial.number for trial in shown}
    rest = (trial for trial in view.trials if trial.number not in numbers)
    others = [line for trial in rest for line in _of(trial)]
    if not front and not others:
        return None
    band = _band(others) if len(others) > MOST_FAINT_LINES else None
    return Curves(tuple(front), () if band else tuple(others), band, len(view.trials), view.cut)


def _of(trial: TrialView) -> Iterable[LearningCurve]:
    runs: dict[int, list[tuple[int, float | None]]] = {}
    for epoch in trial.record.epochs:
        accuracy = epoch.metrics.accuracy
        known = accuracy if math.isfinite(accuracy) else None
        runs.setdefault(epoch.run, []).append((epoch.metrics.epoch, known))
    for run, points in sorted(runs.items()):
        epochs, accuracies = zip(*sorted(points), strict=True)
        yield LearningCurve(trial, run, epochs, accuracies)


def _band(lines: Sequence[LearningCurve]) -> Band:
    by_epoch: dict[int, list[float]] = {}
    for line in lines:
        for epoch, accuracy in zip(line.epochs, line.accuracies, strict=True):
            if accuracy is not None:
                by_epoch.setdefault(epoch, []).append(accuracy)
    epochs = sorted(by_epoch)
    columns = [np.quantile(by_epoch[epoch], QUANTILES) for epoch in epochs]
    levels = tuple(
        tuple(float(column[place]) for column in columns) for place in range(len(QUANTILES))
    )
    return Band(len(lines), tuple(epochs), levels)


def draw(curves: Curves) -> tuple[Plot]:
    """The figure."""
    others = "together, with their median, middle half and extremes" if curves.band else "faint"
    return (
        Plot(
            name="curves",
            drawing=learning_curves(curves),
            title="Learning curves",
            words=f"Line chart of accuracy by epoch for {curves.trials} trials",
            height="wide",
            caption=f"Accuracy after each epoch: the front strong, others {others}. "
            "The marked trial is drawn over them.",
        ),
    )


def learning_curves(curves: Curves) -> Drawing:
    """Accuracy by epoch: the front strong, the others faint or together as a band."""
    known = [
        a for line in (*curves.others, *curves.front) for a in line.accuracies if a is not None
    ]
    ends = [line.epochs[-1] for line in (*curves.others, *curves.front)]
    data: list[Trace] = []
    if curves.band is not None:
        known += [*curves.band.levels[0], *curves.band.levels[-1]]
        ends += curves.band.epochs[-1:]
        data += _band_lines(curves.band)
    low, high = axes.limits(known or [0.0, 1.0])
    last = max(ends, default=1)
    data += [_line(line, is_front=False) for line in curves.others]
    data += [_line(line, is_front=True) for line in reversed(curves.front)]
    return drawing(
        data,
        xaxis=axes.plain("epoch", range=[0.7, last + 0.3], **axes.whole(last)),
        yaxis=axes.plain(
            "accuracy",
            range=[max(low, 0.0), min(high, 1.01)],
            tickformat=axes.decimals(high - low),
        ),
    )


def _line(line: LearningCurve, *, is_front: bool) -> Trace:
    trial = line.trial
    name = f"<b>trial {trial.number}</b>, run {line.run}, {label(trial.mark.policy)}"
    return {
        "type": "scatter",
        "x": list(line.epochs),
        "y": list(line.accuracies),
        "mode": "lines+markers" if len(line.epochs) <= 40 else "lines",
        "opacity": 1.0 if is_front else FAINT,
        "line": {"color": trial.mark.tone.light, "width": 2.4 if is_front else 1.3},
        "marker": {
            "symbol": trial.mark.symbol + "-open" * trial.shares_weights,
            "size": 8 if is_front else 5,
            "color": trial.mark.tone.light,
        },
        "customdata": [trial.number] * len(line.epochs),
        "hovertemplate": f"{name}<br>epoch %{{x}}: %{{y:.2%}}<extra></extra>",
    }


def _band_lines(band: Band) -> list[Trace]:
    """Lowest to highest, the middle half, and the median of many runs."""
    xs = list(band.epochs)
    low, lower, middle, upper, high = (list(level) for level in band.levels)
    edge = {"type": "scatter", "x": xs, "mode": "lines", "line": {"width": 0}}
    fill = {"fill": "tonexty", "fillcolor": VEIL.light, "hoverinfo": "skip"}
    return [
        {**edge, "y": low, "hoverinfo": "skip"},
        {**edge, "y": high, **fill},
        {**edge, "y": lower, "hoverinfo": "skip"},
        {**edge, "y": upper, **fill},
        {
            **edge,
            "y": middle,
            "line": {"width": 1.5, "color": MUTED.light, "dash": "dot"},
            "hovertemplate": f"median of {band.runs:,} other runs<br>epoch %{{x}}: "
            "%{y:.2%}<extra></extra>",
        },
    ]


PANEL = Panel(
    name="learning",
    title="Training",
    gather=gather,
    draw=draw,
    note=lambda curves: curves.cut,
)
