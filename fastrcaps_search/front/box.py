"""The box in which a study's hypervolume is measured: fixed with its first complete trial.

A reference point taken from the trials at hand moves with them, and the hypervolume may fall
although the front has grown. In a box that never moves it can only grow as trials are added.

Its edges, as accuracy, training seconds and learned parameters:

- accuracy from that of guessing to 1;
- seconds, by their logarithm, from one epoch at ``SPEED`` times the speed of the first complete
  trial to all epochs at a ``SPEED``-th of it;
- parameters, by their logarithm, from the smallest network that the study allows to a little more
  than the largest, so that it still counts. Where all are equal they take no part.

A value better than an edge counts as that edge; a trial at or beyond a worse one covers nothing.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.front.hypervolume import hypervolume, hypervolume_history

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

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
        accuracy: Fractions, worst and best.
        training_seconds: Worst and best; as logarithms.
        parameters: Worst and best; as logarithms.
    """

    accuracy: tuple[float, float]
    training_seconds: tuple[float, float]
    parameters: tuple[float, float]

    @classmethod
    def of(
        cls,
        *,
        guessing: float,
        epoch_seconds: float,
        epochs: int,
        parameters: Iterable[int],
    ) -> Box:
        """The box of a study.

        Args:
            guessing: Accuracy of always naming the most frequent class.
            epoch_seconds: Training seconds per epoch of the first complete trial.
            epochs: Most epochs of a training.
            parameters: Learned parameters of each network that the study allows.
        """
        epoch = max(epoch_seconds, SHORTEST)
        sizes = sorted(set(parameters))
        smallest, largest = sizes[0], sizes[-1]
        worst = largest * (largest / smallest) ** MARGIN if largest > smallest else 2.0 * largest
        return cls(
            accuracy=(guessing, 1.0),
            training_seconds=(epoch * epochs * SPEED, epoch / SPEED),
            parameters=(worst, float(smallest)),
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Sequence[float]]) -> Box:
        """The box whose :meth:`to_dict` these values are."""
        return cls(**{name: (edges[0], edges[1]) for name, edges in values.items()})

    def to_dict(self) -> dict[str, list[float]]:
        """JSON values: worst and best by objective."""
        return {name: list(edges) for name, edges in asdict(self).items()}

    def share(self, values: Sequence[tuple[float, float, float]]) -> float:
        """Share of the box, 0 to 1, that trials of these values dominate; NaN counts for nothing.

        Args:
            values: Accuracy, training seconds and parameters of each.
        """
        return min(hypervolume(self._scaled(values), reference=np.ones(3)), 1.0)

    def shares(self, values: Sequence[tuple[float, float, float]]) -> list[float]:
        """The share after each of the trials, in their order: never falling."""
        history = hypervolume_history(self._scaled(values), reference=np.ones(3))
        return [min(share, 1.0) for share in history.tolist()]

    def _scaled(self, values: Sequence[tuple[float, float, float]]) -> NDArray[np.float64]:
        """[n, 3] minimised, 0 at the best edges of the box and 1 at the worst ones."""
        rows = np.array(values, dtype=np.float64).reshape(-1, 3)
        edges = np.array([self.accuracy, self.training_seconds, self.parameters])
        # No time and no parameters are better than any.
        rows[:, 1:] = np.log(np.maximum(rows[:, 1:], math.ulp(0.0)))
        edges[1:] = np.log(edges[1:])
        worst, best = edges.T
        scaled: NDArray[np.float64] = np.maximum((best - rows) / (best - worst), 0.0)
        return scaled
