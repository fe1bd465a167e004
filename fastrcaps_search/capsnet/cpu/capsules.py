"""Squash of the primary capsules, between the convolution's layout and the votes'.

Letters: B batch, T capsule types, I = T * 36 primary capsules.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.routing import Routing
from fastrcaps_search.capsnet.layers import POSITIONS, PRIMARY_SIZE
from fastrcaps_search.capsnet.routing import SMALLEST_SQUARE


class PrimaryCapsules:
    """Sums to primary capsules, and back.

    Args:
        buffers: Memory.
        routing: Where the capsules go.
        types: T.
        batch: B.
        position_first: Whether sums are [36, B, T * 8], not [B, 36, T * 8].

    Attributes:
        gradient: Gradient of the sums, in their shape, after :meth:`backward`.
    """

    def __init__(
        self, buffers: Buffers, routing: Routing, *, types: int, batch: int, position_first: bool
    ) -> None:
        first, second = (POSITIONS, batch) if position_first else (batch, POSITIONS)
        self._shape = first, second, types, PRIMARY_SIZE
        self._scale = buffers("squash scales", first, second, types, 1)
        self._gradient = buffers("sum gradients", *self._shape)
        self.gradient = self._gradient.view(first, second, -1)
        self._routing = routing
        # To [T, 36, B, .] from either.
        self._order = (2, 0, 1, 3) if position_first else (2, 1, 0, 3)

    def forward(self, sums: Tensor) -> None:
        """Write the capsules of sums [36, B, T * 8] or [B, 36, T * 8]."""
        self._s = s = sums.view(self._shape)
        self._square = torch.sum(s * s, dim=3, keepdim=True).add_(SMALLEST_SQUARE)
        torch.div(self._square.sqrt(), self._square + 1, out=self._scale)
        s, scale = s.permute(self._order), self._scale.permute(self._order)
        for part in self._routing.parts:
            found = part.u.view(-1, POSITIONS, *part.u.shape[1:])
            torch.mul(s[:, :, part.images], scale[:, :, part.images], out=found)

    def backward(self) -> None:
        """Gradient of the sums, from that of the capsules, which stands in their place.

        With n the length and q = 1 + n^2 it is ``g n / q + s (s.g) (2 - q) / (q^2 n)``.
        """
        s, g, scale, square = self._s, self._gradient, self._scale, self._square
        moved = g.permute(self._order)
        for part in self._routing.parts:
            moved[:, :, part.images] = part.u.view(-1, POSITIONS, *part.u.shape[1:])
        # (2 - q) / (q^2 n) = scale (1 - n^2) / (q n^2)
        slope = torch.sum(s * g, dim=3, keepdim=True).mul_(scale)
        slope.mul_(1 - square).div_(torch.addcmul(square, square, square))
        g.mul_(scale).addcmul_(s, slope)
