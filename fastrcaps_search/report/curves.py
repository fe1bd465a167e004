"""Learning curves and schedules as the page carries them: points, and 16 bits a number in base64.

A page of 100,000 epochs has no room for decimals.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from fastrcaps_search.definition.schedules import Curve
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.store.records import RunRecord
from fastrcaps_search.training.policy import TrainingPlan

MOST_EPOCHS = 300_000
"""Stored epochs up to which the page carries every learning curve."""
UNITS = 50_000
"""Parts of a packed fraction; the images of each split divide it, so accuracies are exact."""
UNKNOWN = 65_535
"""Packed number that stands for none."""
CURVE_POINTS = 32
"""Points for a curved segment; a straight one needs two."""

Points = tuple[tuple[float, ...], tuple[float, ...]]
"""Progress in epochs, and the value there; two values of one progress are a jump."""


def carried(trials: Iterable[TrialView]) -> set[int]:
    """Trials whose curves fit: those on the front first, then by number."""
    order = sorted(trials, key=lambda trial: not trial.on_front)
    sums = accumulate(len(trial.record.epochs) for trial in order)
    return {t.number for t, epochs in zip(order, sums, strict=True) if epochs <= MOST_EPOCHS}


def curve(trial: TrialView, run: RunRecord) -> dict[str, Any]:
    """Accuracies of a run's epochs, and their seconds as parts of the longest."""
    epochs = [epoch for epoch in trial.record.epochs if epoch.run == run.run]
    seconds = [epoch.seconds for epoch in epochs]
    longest = max(filter(math.isfinite, seconds), default=0.0)
    return {
        "curve": _packed([epoch.metrics.accuracy for epoch in epochs]),
        "longest": longest,
        "spent": _packed([spent / (longest or 1.0) for spent in seconds]),
    }


def _packed(fractions: Sequence[float]) -> str:
    whole = np.array(fractions, dtype=float) * UNITS
    known = np.isfinite(whole)
    packed = np.where(known, np.clip(np.rint(np.where(known, whole, 0)), 0, UNITS), UNKNOWN)
    return base64.b64encode(packed.astype("<u2").tobytes()).decode()


def rate_points(plan: TrainingPlan, *, most: int) -> Points:
    """The learning rate, with both ends of every segment.

    Args:
        plan: The training.
        most: Points up to which curved segments get more than their ends.
    """
    points = []
    segments = plan.rates.segments
    for segment in segments:
        # Training may cut the last cycle short.
        end = min(segment.end, plan.samples * plan.epochs)
        straight = segment.curve in (Curve.CONSTANT, Curve.LINEAR)
        parts = 1 if straight else max(1, min(CURVE_POINTS, most // len(segments)))
        for part in range(parts + 1):
            seen = segment.start + (end - segment.start) * part / parts
            points.append((seen / plan.samples, segment.rate(seen)))
    epochs, rates = zip(*points, strict=True)
    return epochs, rates


def size_points(plan: TrainingPlan) -> Points:
    """The batch size where it changes, for a line of steps, and at the end."""
    lengths = [(size, len(list(same))) for size, same in groupby(plan.batch_sizes)]
    starts = accumulate((length for _, length in lengths), initial=0)
    return tuple(starts), (*(size for size, _ in lengths), plan.batch_sizes[-1])
