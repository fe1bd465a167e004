"""Schedules as points to draw."""

from __future__ import annotations

from itertools import groupby

from fastrcaps_search.definition.schedules import Curve
from fastrcaps_search.training.policy import TrainingPlan

CURVE_POINTS = 32
"""Points for a curved segment; a straight one needs two."""

Points = tuple[tuple[float, ...], tuple[float, ...]]
"""Progress in epochs, and the value there; two values of one progress are a jump."""


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
    starts, sizes = [0], []
    for size, same in groupby(plan.batch_sizes):
        sizes.append(size)
        starts.append(starts[-1] + len(list(same)))
    return tuple(starts), (*sizes, sizes[-1])
