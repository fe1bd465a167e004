"""Votes and dynamic routing of a few images at a time, while their votes are in the cache.

Routing reads the votes of an image five times on the way forward and four times back. Those of a
whole batch of 128 are 94 MB; those of a few images stay in the cache (measured on a Xeon: 287 ms
for the batch at once, 110 ms in parts of four images).

Letters: B batch, b images of a part, I input capsules, J classes, E output size (16), D input
size (8). Sources: Sabour, Frosst and Hinton 2017, equations 1 to 3 and procedure 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import Adam
from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.weights import Weights
from fastrcaps_search.capsnet.layers import PRIMARY_SIZE
from fastrcaps_search.capsnet.routing import (
    ROUTING_ITERATIONS,
    RoutingTrace,
    squash,
    squash_gradient,
)
from fastrcaps_search.definition.choices import RoutingGradient

_PART_BYTES = 3_000_000
"""Votes of the images that go together."""

RANK = 2 * ROUTING_ITERATIONS - 1
"""Outer products that the votes' gradient is a sum of."""


class Routing:
    """Primary capsules to class capsules, and back.

    Args:
        buffers: Memory.
        weights: The network's weights.
        batch: B.
        capsules: I.
        gradient: Which iterations the gradient flows through.

    Attributes:
        parts: The batch in parts.
        found: Class capsules [B, J, E].
    """

    def __init__(
        self,
        buffers: Buffers,
        weights: Weights,
        *,
        batch: int,
        capsules: int,
        gradient: RoutingGradient,
    ) -> None:
        self._buffers = buffers
        self._weights = weights
        self._matrix = weights["class_capsules.weight"]
        self._bias = weights["class_capsules.bias"]
        self._full = gradient is RoutingGradient.FULL
        step = max(_PART_BYTES // (4 * capsules * self._matrix.shape[2]), 1)
        self.found = buffers("class capsules", batch, *self._bias.shape)
        self.parts = [
            _Part(buffers, self._bias.shape, capsules, start, min(start + step, batch), batch)
            for start in range(0, batch, step)
        ]

    def forward(self) -> Tensor:
        """Class capsules [B, J, E] of the primary capsules of the parts."""
        for part in self.parts:
            torch.bmm(self._by_matrix(part.u), self._matrix, out=self._by_matrix(part.votes))
            part.route(self._bias)
            self.found[part.images] = part.trace.capsules[-1]
        return self.found

    def plan_backward(self, gradient: Tensor, adam: Adam) -> None:
        """Lay out :meth:`backward`.

        Args:
            gradient: Where the gradient of the class capsules will be [B, J, E].
            adam: Updates.
        """
        span = self._weights.span("class_capsules.weight", "class_capsules.bias")
        flat = self._buffers("class gradients", span.stop - span.start)
        start = self._weights.start("class_capsules.bias") - span.start
        self._bias_gradient = flat[start : start + self._bias.numel()].view_as(self._bias)
        self._total = flat[: self._matrix.numel()].view_as(self._matrix)
        self._update = adam.of(span.start, flat)
        self._gradient = gradient

    def backward(self) -> None:
        """Update the weights, and put the primary capsules' gradient in their place."""
        self._bias_gradient.zero_()
        moved = self._matrix.transpose(1, 2)
        for k, part in enumerate(self.parts):
            # The votes' gradient takes the votes' place.
            self._bias_gradient.add_(part.route_back(self._gradient[part.images], full=self._full))
            votes, u = self._by_matrix(part.votes), self._by_matrix(part.u)
            if k == 0:
                torch.bmm(u.transpose(1, 2), votes, out=self._total)
            else:
                self._total.baddbmm_(u.transpose(1, 2), votes)
            torch.bmm(votes, moved, out=u)
        self._update()

    def _by_matrix(self, x: Tensor) -> Tensor:
        """[I, b, N] as [matrices, rows, N]: a shared matrix meets all positions of its type."""
        return x.view(self._matrix.shape[0], -1, x.shape[2])


class _Part:
    """Some images: their primary capsules [I, b, 8], votes [I, b, J * E] and routing."""

    def __init__(
        self, buffers: Buffers, shape: torch.Size, capsules: int, start: int, end: int, batch: int
    ) -> None:
        (J, E), I, b = shape, capsules, end - start
        self._sizes = b, J, E, I

        def part(name: str, *sizes: int) -> Tensor:
            """This part of a buffer that holds one after the other, b images each."""
            each = torch.Size(sizes).numel() // b
            return buffers(name, each * batch)[each * start : each * end].view(sizes)

        self.images = slice(start, end)
        self.u = part("primary capsules", I, b, PRIMARY_SIZE)
        self.votes = part("votes", I, b, J * E)
        # In this order each product below runs on a strided view, uncopied.
        self._by_image = self.votes.view(I, b * J, E).transpose(0, 1)
        self._couplings = [part(f"couplings {t}", b, J, I) for t in range(1, ROUTING_ITERATIONS)]
        self._logits = buffers("logits", b * J, I, 1)
        self._agreement = buffers("agreement", b * J, I, 1)
        self._left = buffers("coefficients", b, J, RANK, I)
        self._right = buffers("vectors", b, J, RANK, E)
        self._product = buffers("product", b * J, I, E)

    def route(self, bias: Tensor) -> None:
        """Procedure 1; every intermediate is kept in ``trace``."""
        b, J, E, I = self._sizes
        sums = [self.votes.sum(0).view(b, J, E).div_(J).add_(bias)]
        capsules = [squash(sums[0])]
        logits = self._logits
        for t, c in enumerate(self._couplings):
            v = capsules[-1].view(b * J, E, 1)
            if t == 0:
                torch.bmm(self._by_image, v, out=logits)
            else:
                logits.add_(torch.bmm(self._by_image, v, out=self._agreement))
            torch.softmax(logits.view(b, J, I), dim=1, out=c)
            s = torch.bmm(c.view(b * J, 1, I), self._by_image).view(b, J, E)
            sums.append(s.add_(bias))
            capsules.append(squash(s))
        self.trace = RoutingTrace(self._couplings, sums, capsules)

    def route_back(self, gradient: Tensor, *, full: bool) -> Tensor:
        """Write the votes' gradient over the votes; gradient of the bias [J, E].

        Every iteration adds outer products (coefficient over I) x (vector over E): c x ds for the
        weighted sum and db x v for the agreement. Their sum is one batched product of rank 5.

        Args:
            gradient: Of the class capsules [b, J, E].
            full: Whether it flows through all iterations.
        """
        b, J, E, I = self._sizes
        trace, left, right = self.trace, self._left, self._right
        bias = torch.zeros(J, E, dtype=gradient.dtype)
        logits: Tensor | None = None
        rank = 0
        for t in reversed(range(ROUTING_ITERATIONS)):
            ds = squash_gradient(trace.sums[t], gradient)
            bias.add_(ds.sum(0))
            right[:, :, rank] = ds
            if t == 0:
                left[:, :, rank] = 1 / J
                rank += 1
                break
            c = trace.couplings[t - 1]
            left[:, :, rank] = c
            rank += 1
            if not full:
                break
            vector = ds.view(b * J, E, 1)
            dc = torch.bmm(self._by_image, vector, out=self._agreement).view(b, J, I).mul_(c)
            db = torch.addcmul(dc, c, dc.sum(1, keepdim=True), value=-1)
            # The logits of iteration t hold every earlier agreement, so their gradients add up.
            logits = db if logits is None else logits.add_(db)
            left[:, :, rank] = logits
            right[:, :, rank] = trace.capsules[t - 1]
            rank += 1
            gradient = torch.bmm(logits.view(b * J, 1, I), self._by_image).view(b, J, E)
        torch.bmm(
            left[:, :, :rank].flatten(0, 1).transpose(1, 2),
            right[:, :, :rank].flatten(0, 1),
            out=self._product,
        )
        # Written whole and then moved: straight into the strided votes torch multiplies matrix by
        # matrix.
        self.votes.view(I, b * J, E).copy_(self._product.transpose(0, 1))
        return bias
