"""Sums of the primary convolution to class capsules: squash, votes and dynamic routing.

Routing reads the votes of an image five times on the way forward and four times back. Those of a
whole batch of 128 are 94 MB; those of a few images stay in the cache (measured on a Xeon: 287 ms
for the batch at once, 110 ms in parts of four images).

Letters: B batch, b images of a part, T types of primary capsules, I = T * 36 of them, J classes,
D size of a primary capsule (8), E of a class capsule (16). Sources: Sabour, Frosst and Hinton
2017, equations 1 to 3 and procedure 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.weights import Buffers, Weights
from fastrcaps_search.capsnet.layers import POSITIONS, PRIMARY_SIZE
from fastrcaps_search.capsnet.routing import ROUTING_ITERATIONS, SMALLEST_SQUARE, Routing
from fastrcaps_search.definition.choices import RoutingGradient

if TYPE_CHECKING:
    from fastrcaps_search.capsnet.network import CapsNet

_PART_BYTES = 3_000_000
"""Votes of the images that go together."""


class Capsules:
    """Sums to primary and class capsules, and back.

    Args:
        network: Says what is computed; its own parameters are not read.
        weights: Its weights.
        buffers: Memory.
        batch: B.
        position_first: Whether sums are [36, B, T * D], not [B, 36, T * D].

    Attributes:
        found: Class capsules [B, J, E].
        gradient: Of the sums, in their shape, after :meth:`backward`.
    """

    def __init__(
        self,
        network: CapsNet,
        weights: Weights,
        buffers: Buffers,
        *,
        batch: int,
        position_first: bool,
    ) -> None:
        self._buffers = buffers
        self._weights = weights
        self._matrix = weights["class_capsules.weight"]
        self._bias = weights["class_capsules.bias"]
        self._full = network.class_capsules.routing_gradient is RoutingGradient.FULL
        capsules = network.types * POSITIONS
        step = max(_PART_BYTES // (4 * capsules * self._matrix.shape[2]), 1)
        self.found = buffers("class capsules", batch, *self._bias.shape)
        self._parts = [
            _Part(buffers, self._bias.shape, capsules, start, min(start + step, batch), batch)
            for start in range(0, batch, step)
        ]
        first, second = (POSITIONS, batch) if position_first else (batch, POSITIONS)
        self._shape = first, second, network.types, PRIMARY_SIZE
        self._scale = buffers("squash scales", first, second, network.types, 1)
        self._sum_gradient = buffers("sum gradients", *self._shape)
        self.gradient = self._sum_gradient.view(first, second, -1)
        # To [T, 36, B, .] from either.
        self._order = (2, 0, 1, 3) if position_first else (2, 1, 0, 3)

    def forward(self, sums: Tensor) -> Tensor:
        """Class capsules [B, J, E] of sums [36, B, T * D] or [B, 36, T * D]."""
        self._squash(sums)
        for part in self._parts:
            torch.bmm(self._by_matrix(part.u), self._matrix, out=self._by_matrix(part.votes))
            self.found[part.images] = part.routing.forward(self._bias)
        return self.found

    def plan_backward(self, gradient: Tensor) -> None:
        """Lay out :meth:`backward`.

        Args:
            gradient: Where the gradient of the class capsules will be [B, J, E].
        """
        (self._total, self._bias_gradient), self._update = self._weights.gradients(
            self._buffers, "class gradients", "class_capsules.weight", "class_capsules.bias"
        )
        self._gradient = gradient

    def backward(self) -> None:
        """Update the weights, and write the gradient of the sums."""
        self._bias_gradient.zero_()
        moved = self._matrix.transpose(1, 2)
        for k, part in enumerate(self._parts):
            # The votes' gradient takes the votes' place, that of the primary capsules theirs.
            votes_gradient, bias_gradient = part.routing.backward(
                self._gradient[part.images], full=self._full
            )
            self._bias_gradient.add_(bias_gradient)
            # Written whole and then moved: straight into the strided votes torch multiplies matrix
            # by matrix.
            part.votes.view(votes_gradient.shape).copy_(votes_gradient)
            votes, u = self._by_matrix(part.votes), self._by_matrix(part.u)
            if k == 0:
                torch.bmm(u.transpose(1, 2), votes, out=self._total)
            else:
                self._total.baddbmm_(u.transpose(1, 2), votes)
            torch.bmm(votes, moved, out=u)
        self._update()
        self._squash_back()

    def _squash(self, sums: Tensor) -> None:
        self._s = s = sums.view(self._shape)
        self._square = torch.sum(s * s, dim=3, keepdim=True).add_(SMALLEST_SQUARE)
        torch.div(self._square.sqrt(), self._square + 1, out=self._scale)
        s, scale = s.permute(self._order), self._scale.permute(self._order)
        for part in self._parts:
            torch.mul(s[:, :, part.images], scale[:, :, part.images], out=part.by_type)

    def _squash_back(self) -> None:
        """Gradient of the sums, from that of the capsules, which stands in their place.

        With n the length and q = 1 + n^2 it is ``g n / q + s (s.g) (2 - q) / (q^2 n)``.
        """
        s, g, scale, square = self._s, self._sum_gradient, self._scale, self._square
        moved = g.permute(self._order)
        for part in self._parts:
            moved[:, :, part.images] = part.by_type
        # (2 - q) / (q^2 n) = scale (1 - n^2) / (q n^2)
        slope = torch.sum(s * g, dim=3, keepdim=True).mul_(scale)
        slope.mul_(1 - square).div_(torch.addcmul(square, square, square))
        g.mul_(scale).addcmul_(s, slope)

    def _by_matrix(self, x: Tensor) -> Tensor:
        """[I, b, N] as [matrices, rows, N]: a shared matrix meets all positions of its type."""
        return x.view(self._matrix.shape[0], -1, x.shape[2])


class _Part:
    """Some images: their primary capsules [I, b, 8], votes [I, b, J * E] and routing."""

    def __init__(
        self, buffers: Buffers, shape: torch.Size, capsules: int, start: int, end: int, batch: int
    ) -> None:
        (J, E), I, b = shape, capsules, end - start

        def part(name: str, *sizes: int) -> Tensor:
            """This part of a buffer that holds one after the other, b images each."""
            each = torch.Size(sizes).numel() // b
            return buffers(name, each * batch)[each * start : each * end].view(sizes)

        self.images = slice(start, end)
        self.u = part("primary capsules", I, b, PRIMARY_SIZE)
        self.by_type = self.u.view(-1, POSITIONS, b, PRIMARY_SIZE)
        self.votes = part("votes", I, b, J * E)
        couplings = [part(f"couplings {t}", b, J, I) for t in range(1, ROUTING_ITERATIONS)]
        self.routing = Routing(self.votes.view(I, b, J, E), couplings, buffers)
