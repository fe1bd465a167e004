"""Adam, piece by piece: each weight is updated while its gradient is still in the cache.

A step of batch 1 is bound by memory: 8.2 million weights with two averages each are read and
written. A gradient that is written to memory and read again by an optimiser at the end of the
step would add a third to that.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from fastrcaps_search.capsnet.adam import fused_adam
from fastrcaps_search.capsnet.cpu.weights import Weights


class Adam:
    """Adam (Kingma and Ba 2015) over a network's flat weights, with torch's defaults.

    Args:
        weights: What to update.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._rate = 0.0

    def begin(self, rate: float) -> None:
        """Count a step and set its learning rate, before its first update."""
        self._weights.step += 1
        self._rate = rate

    def of(self, start: int, gradient: Tensor) -> Callable[[], None]:
        """What updates a part of the weights, made once and called in every step.

        Args:
            start: First number of the part in the flat weights.
            gradient: Where the part's gradient will be, contiguous, as many numbers.
        """
        weights = self._weights
        part = slice(start, start + gradient.numel())
        tensors = (
            [weights.values[part]],
            [gradient.view(-1)],
            [weights.exp_avg[part]],
            [weights.exp_avg_sq[part]],
            [weights.step],
        )

        def update() -> None:
            fused_adam(*tensors, rate=self._rate)

        return update
