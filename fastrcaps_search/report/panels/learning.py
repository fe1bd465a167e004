"""Learning curves: each where they are few, a band where they are many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fastrcaps_search.report import axes, plots
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView

MOST_FAINT_LINES = 60
"""Runs of other trials up to which each has a line of its own."""
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Accuracy of one run by epoch; ``None`` where it is not finite."""

    trial: TrialView
    run: int
    accuracies: dict[int, float | None]


@dataclass(frozen=True, slots=True)
class Curves:
    """What the figure of learning curves shows.

    Attributes:
        view: The study.
        front: Runs of the first trials on the front.
        others: Every other run.
    """

    view: ReportView
    front: Sequence[LearningCurve]
    others: Sequence[LearningCurve]

    @property
    def has_band(self) -> bool:
        """Whether the others are drawn together, as they are many."""
        return len(self.others) > MOST_FAINT_LINES


def gather(view: ReportView) -> Curves | None:
    """Gather the curves; ``None`` before the first stored epoch."""
    numbers = {trial.number for trial in view.shown_front}
    front = [line for trial in view.shown_front for line in _of(trial)]
    rest = (trial for trial in view.trials if trial.number not in numbers)
    others = [line for trial in rest for line in _of(trial)]
    return Curves(view, front, others) if front or others else None


def _of(trial: TrialView) -> Iterable[LearningCurve]:
    runs: dict[int, dict[int, float | None]] = {}
    for epoch in sorted(trial.record.epochs, key=lambda epoch: (epoch.run, epoch.metrics.epoch)):
        accuracy = epoch.metrics.accuracy
        known = accuracy if math.isfinite(accuracy) else None
        runs.setdefault(epoch.run, {})[epoch.metrics.epoch] = known
    return [LearningCurve(trial, run, accuracies) for run, accuracies in runs.items()]


def draw(curves: Curves) -> Iterator[Plot]:
    """The figure."""
    together = "together, with their median, middle half and extremes"
    yield Plot(
        name="curves",
        drawing=learning_curves(curves),
        title="Learning curves",
        words=f"Line chart of accuracy by epoch for {len(curves.view.trials)} trials",
        height="wide",
        caption="Accuracy after each epoch: the front strong, others "
        f"{together if curves.has_band else 'faint'}. The marked trial is drawn over them.",
    )


def learning_curves(curves: Curves) -> plots.Drawing:
    """Accuracy by epoch: the front strong, the others faint or together as a band."""
    lines = [*curves.others, *curves.front]
    known = [a for line in lines for a in line.accuracies.values() if a is not None]
    last = max(epoch for line in lines for epoch in line.accuracies)
    others = (_line(line, is_front=False) for line in curves.others)
    return plots.drawing(
        [
            *(_band(curves.others) if curves.has_band else others),
            *(_line(line, is_front=True) for line in reversed(curves.front)),
        ],
        xaxis=axes.plain("epoch", range=[0.7, last + 0.3], **axes.whole(last)),
        yaxis=axes.fraction("accuracy", known or [0.0, 1.0]),
    )


def _line(line: LearningCurve, *, is_front: bool) -> plots.Trace:
    trial = line.trial
    name = f"<b>trial {trial.number}</b>, run {line.run}, {plots.label(trial.mark.policy)}"
    colour = trial.mark.tone.light
    symbol = trial.mark.symbol + "-open" * trial.shares_weights
    return plots.scatter(
        "lines+markers" if len(line.accuracies) <= 40 else "lines",
        list(line.accuracies),
        list(line.accuracies.values()),
        opacity=1.0 if is_front else plots.FAINT,
        line={"color": colour, "width": 2.4 if is_front else 1.3},
        marker={"symbol": symbol, "size": 8 if is_front else 5, "color": colour},
        customdata=[trial.number] * len(line.accuracies),
        hovertemplate=f"{name}<br>epoch %{{x}}: %{{y:.2%}}<extra></extra>",
    )


def _band(lines: Sequence[LearningCurve]) -> list[plots.Trace]:
    """Lowest to highest, the middle half, and the median of many runs after each epoch."""
    by_epoch: dict[int, list[float]] = {}
    for line in lines:
        for epoch, accuracy in line.accuracies.items():
            if accuracy is not None:
                by_epoch.setdefault(epoch, []).append(accuracy)
    epochs = sorted(by_epoch)
    levels = np.array([np.quantile(by_epoch[epoch], QUANTILES) for epoch in epochs])
    low, lower, middle, upper, high = levels.reshape(-1, len(QUANTILES)).T.tolist()
    edge = {"line": {"width": 0}, "hoverinfo": "skip"}
    fill = {**edge, "fill": "tonexty", "fillcolor": plots.VEIL.light}
    dotted = {"width": 1.5, "color": plots.MUTED.light, "dash": "dot"}
    median = f"median of {len(lines):,} other runs<br>epoch %{{x}}: %{{y:.2%}}<extra></extra>"
    return [
        plots.scatter("lines", epochs, low, **edge),
        plots.scatter("lines", epochs, high, **fill),
        plots.scatter("lines", epochs, lower, **edge),
        plots.scatter("lines", epochs, upper, **fill),
        plots.scatter("lines", epochs, middle, line=dotted, hovertemplate=median),
    ]


PANEL = Panel(
    name="learning",
    title="Training",
    gather=gather,
    draw=draw,
    note=lambda curves: curves.view.cut,
)
