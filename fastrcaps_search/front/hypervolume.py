"""How much of the objective space the front has conquered.

The hypervolume of a set is the volume of the region that some row dominates, cut off at a
reference point (Zitzler and Thiele 1998; computed by moocore, after Fonseca, Paquete and
Lopez-Ibanez 2006). Here that is 1 in every objective. Everything minimises; rows with NaN or an
infinity are ignored.

Shapes: n rows (trials), m objectives.

A study's is measured in a box that is fixed with its first complete trial.

A reference point taken from the trials at hand moves with them, and the hypervolume may fall
although the front has grown. In a box that never moves it can only grow as trials are added.

Its edges, as accuracy, training seconds and learned parameters:

- accuracy from that of guessing to 1;
- seconds, by their logarithm, from one epoch at ``SPEED`` times the speed of the first complete
  trial to all epochs at a ``SPEED``-th of it;
- parameters, by their logarithm, from the smallest network that the study allows to a little more
  than the largest, so that it still counts. Where all are equal they take no part;
- any other fraction from 0 to 1, and any other objective, by its logarithm, from ``SPEED`` times
  the value of the first complete trial to a ``SPEED``-th of it.

A value better than an edge counts as that edge; a trial at or beyond a worse one covers nothing.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.definition.objective import (
    ACCURACY,
    FRACTIONS,
    OBJECTIVES,
    PARAMETERS,
    TRAINING_SECONDS,
)
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.dominance import as_rows, finite_rows, front_mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray


def hypervolume(points: ArrayLike) -> float:
    """Return the volume that the rows dominate below 1.

    Args:
        points: [n, m], all objectives minimised; only rows below 1 in every objective count.

    Returns:
        The volume, in the product of the objectives' units; 0.0 for nothing inside.
    """
    rows = as_rows(points)
    rows = rows[finite_rows(rows)]
    if len(rows) == 0:
        return 0.0
    # Imported here: moocore takes about as long to import as the rest of a short command.
    import moocore  # type: ignore[import-untyped]  # it ships no types

    return float(moocore.hypervolume(rows, ref=np.ones(rows.shape[1])))


def hypervolume_history(points: ArrayLike) -> NDArray[np.float64]:
    """Return the hypervolume after each row.

    Only the front so far is carried along, and a row that it already covers costs one comparison.

    Args:
        points: [n, m] in the order in which the trials finished, all objectives minimised.

    Returns:
        [n] float64, never falling; a row with NaN or an infinity repeats the value before it.
    """
    rows = as_rows(points)
    useful = finite_rows(rows) & (rows < 1).all(axis=1)
    front = np.empty((0, rows.shape[1]))
    history = np.zeros(len(rows))
    volume = 0.0
    for index, row in enumerate(rows):
        if useful[index] and not (front <= row).all(axis=1).any():
            front = np.vstack([front, row])
            front = front[front_mask(front)]
            # The larger of both: rounding must not make a growing set shrink.
            volume = max(volume, hypervolume(front))
        history[index] = volume
    return history


SPEED = 20.0
"""An epoch of batch 1 takes about as many times longer than one of batch 16, and one of a large
batch is about as many times shorter than that of a small one; so are those of other devices."""
MARGIN = 0.1
"""The largest network lies inside by this share of the span between smallest and largest."""
SHORTEST = 1e-3
"""Seconds of an epoch that a clock may take for none."""


@dataclass(frozen=True, slots=True)
class Box:
    """Worst and best value of each objective that the hypervolume tells apart.

    Attributes:
        edges: Worst and best by objective, in their order.
    """

    edges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(
        cls,
        definition: StudyDefinition,
        *,
        epoch_seconds: float,
        others: Mapping[str, float] | None = None,
    ) -> Box:
        """The box of a study.

        Args:
            definition: The study.
            epoch_seconds: Training seconds per epoch of the first complete trial.
            others: Values of the first complete trial in the study's other objectives.
        """
        epoch, epochs = max(epoch_seconds, SHORTEST), definition.offered_epochs[-1]
        networks = definition.offered_networks
        sizes = [definition.architecture.parameters(*network) for network in networks]
        smallest, largest = min(sizes), max(sizes)
        worst = largest * (largest / smallest) ** MARGIN if largest > smallest else 2.0 * largest
        edges = {
            ACCURACY.name: (definition.guessing_accuracy, 1.0),
            TRAINING_SECONDS.name: (epoch * epochs * SPEED, epoch / SPEED),
            PARAMETERS.name: (worst, float(smallest)),
        }
        for name, value in (others or {}).items():
            value = value if value > 0 else SHORTEST
            low, high = value / SPEED, value * SPEED
            if OBJECTIVES[name].scale is FRACTIONS:
                low, high = 0.0, 1.0
            edges[name] = (low, high) if OBJECTIVES[name].maximise else (high, low)
        return cls(edges)

    @classmethod
    def from_dict(cls, values: Mapping[str, Sequence[float]]) -> Box:
        """The box of edges as JSON has them."""
        return cls({name: (worst, best) for name, (worst, best) in values.items()})

    def share(self, values: Sequence[Mapping[str, float]]) -> float:
        """Share of the box, 0 to 1, that trials of these values dominate; NaN counts for nothing.

        Args:
            values: Of each trial, by objective; nothing is dominated without all of them.
        """
        return min(hypervolume(self._scaled(values)), 1.0)

    def shares(self, values: Sequence[Mapping[str, float]]) -> list[float]:
        """The share after each of the trials, in their order: never falling."""
        history = hypervolume_history(self._scaled(values))
        return [min(share, 1.0) for share in history.tolist()]

    def _scaled(self, values: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
        """[n, m] minimised, 0 at the best edges of the box and 1 at the worst ones."""
        columns = []
        for name, edges in self.edges.items():
            column = np.array([row.get(name, math.nan) for row in values], dtype=np.float64)
            worst, best = edges
            if OBJECTIVES[name].scale is not FRACTIONS:
                # No time and no parameters are better than any.
                column = np.log(np.maximum(column, sys.float_info.min))
                worst, best = np.log(edges)
            columns.append(np.maximum((best - column) / (best - worst), 0.0))
        return np.column_stack(columns)
