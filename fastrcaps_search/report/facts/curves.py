"""Learning curves: each where they are few, a band where they are many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fastrcaps_search.report.facts.trials import MOST_SHOWN, TrialView

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
    """

    front: tuple[LearningCurve, ...]
    others: tuple[LearningCurve, ...]
    band: Band | None


def curves(trials: Sequence[TrialView], front: Sequence[TrialView]) -> Curves | None:
    """Gather the curves; ``None`` before the first stored epoch.

    Args:
        trials: All trials.
        front: Those on the front, in its order.
    """
    shown = {trial.number for trial in front[:MOST_SHOWN]}
    front_lines = [line for trial in front[:MOST_SHOWN] for line in _of(trial)]
    others = [line for trial in trials if trial.number not in shown for line in _of(trial)]
    if not front_lines and not others:
        return None
    if len(others) <= MOST_FAINT_LINES:
        return Curves(tuple(front_lines), tuple(others), None)
    return Curves(tuple(front_lines), (), _band(others))


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
