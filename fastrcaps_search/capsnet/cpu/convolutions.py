"""Images to the sums of the primary capsules: what both ways share, and the one for few images.

Letters: B batch, C channels, O output channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.weights import PHASES, PRIMARY, Buffers, Weights

if TYPE_CHECKING:
    from fastrcaps_search.capsnet.network import CapsNet

OUTPUT = 6  # side of the primary capsules' grid
_BLOCK_BYTES = 2_500_000
"""Gradient of the taps that are updated together (between 1 and 22 MB: within 2 % of a step)."""


class Convolutions:
    """Images to the sums before squash, and back.

    Args:
        network: Says what is computed; its own parameters are not read.
        weights: Its weights.
        buffers: Memory.
        batch: B.

    Attributes:
        position_first: Whether sums are [36, B, O], not [B, 36, O].
    """

    position_first: ClassVar[bool]

    def __init__(
        self, network: CapsNet, weights: Weights, buffers: Buffers, *, batch: int
    ) -> None:
        _, C, O = weights[PRIMARY].shape
        self._buffers = buffers
        self._weights = weights
        # Factor of the primary convolution, but not of its bias.
        self._coupling = network.primary_capsules.coupling
        self._sizes = batch, C, O
        self._filters = weights["convolution.weight"].view(C, 81).t()
        self._bias = weights["convolution.bias"]
        self._kernel_bias = weights["primary_capsules.convolution.bias"]

    def prepare(self) -> None:
        """Take notice of new weights; :meth:`forward` needs it."""

    def forward(self, images: Tensor) -> Tensor:
        """Sums of images [B, 1, 28, 28], by the weights as of the last :meth:`prepare`."""
        raise NotImplementedError

    def plan_backward(self, gradient: Tensor) -> None:
        """Lay out :meth:`backward`.

        Args:
            gradient: Where the gradient of the sums will be, in their shape.
        """
        plan, buffers = self._weights.gradients, self._buffers
        self._rows = gradient.view(-1, gradient.shape[2])
        (self._kernel_bias_gradient,), self._update_kernel_bias = plan(
            buffers, "kernel bias gradient", "primary_capsules.convolution.bias"
        )
        (filters, self._bias_gradient), self._update_first = plan(
            buffers, "first gradients", "convolution.weight", "convolution.bias"
        )
        self._filters_gradient = filters.view(-1, 81)

    def backward(self) -> None:
        """Update both convolutions."""
        torch.sum(self._rows, 0, out=self._kernel_bias_gradient)
        self._update_kernel_bias()
        self._filters_gradient.zero_()
        self._bias_gradient.zero_()
        for gradient, features, columns in self._back_to_features():
            before = self._buffers("rectified gradients", *features.shape)
            # In place torch would copy.
            torch.ops.aten.threshold_backward.grad_input(gradient, features, 0, grad_input=before)
            self._filters_gradient.addmm_(before.t(), columns)
            self._bias_gradient.add_(before.sum(0))
        self._update_first()

    def _back_to_features(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Update the primary weight, and go back through it part by part.

        Yields:
            The gradient of some features [rows, C], these after ReLU [rows, C], and the image
            patch that each of them saw [rows, 81].
        """
        raise NotImplementedError


class Im2colConv(Convolutions):
    """Both convolutions as products over unfolded patches (im2col): fastest for a few images.

    Rows and columns of the features are split by parity, as the taps of the primary weight are
    (``weights.TAPS``). The gradient of the primary weight is made and used a few taps at a time:
    it is still in the cache when it is read.
    """

    position_first = False

    def __init__(
        self, network: CapsNet, weights: Weights, buffers: Buffers, *, batch: int
    ) -> None:
        super().__init__(network, weights, buffers, batch=batch)
        B, C, O = self._sizes
        self._image_columns = buffers("image columns", B * 400, 81)
        self._features = buffers("features", B * 400, C)
        self._patches = buffers("patches", B * 36, 81 * C)
        self._sums = buffers("sums", B * 36, O)
        self._kernel = weights[PRIMARY].view(81 * C, O)
        self._unfolding = self._plan_unfolding()

    def forward(self, images: Tensor) -> Tensor:
        """Sums [B, 36, O] of images [B, 1, 28, 28]."""
        B, _, O = self._sizes
        # By parity of the row, row, parity of the column, column.
        shape = (B, 2, 10, 2, 10, 9, 9)
        windows = images.as_strided(shape, (784, 28, 56, 1, 2, 28, 1))
        self._image_columns.view(shape).copy_(windows)
        torch.addmm(self._bias, self._image_columns, self._filters, out=self._features).relu_()
        for patches, windows in self._unfolding:
            patches.copy_(windows)
        bias, kernel = self._kernel_bias, self._kernel
        torch.addmm(bias, self._patches, kernel, alpha=self._coupling, out=self._sums)
        return self._sums.view(B, 36, O)

    def plan_backward(self, gradient: Tensor) -> None:
        """Lay out :meth:`backward` for the gradient of the sums [B, 36, O]."""
        super().plan_backward(gradient)
        B, C, O = self._sizes
        buffers = self._buffers
        self._folded = buffers("feature gradients", B, 2, 10, 2, 10, C)
        self._strips = buffers("strips", B, 6, 9, 2, 10, C)
        # By parity of the column, so that the gradient of its patches is one block to fold.
        self._folding = []
        for parity, (start, end) in enumerate(pairwise((0, 45 * C, 81 * C))):
            unfolded = buffers("patch gradients", B * 36, end - start)
            self._folding.append((self._kernel[start:end].t(), unfolded, self._across(parity)))
        self._down = [
            (self._folded[:, i, y : y + 5 - i], self._strips[:, y, 5 * i : 5 + 4 * i])
            for i in (0, 1)
            for y in range(OUTPUT)
        ]
        begin = self._weights.start(PRIMARY)
        size = max(_BLOCK_BYTES // (4 * C * O), 1)
        self._blocks = []
        for tap in range(0, 81, size):
            taps = slice(tap * C, min(tap + size, 81) * C)
            part = buffers("kernel gradients", taps.stop - taps.start, O)
            update = self._weights.updater(begin + taps.start * O, part)
            self._blocks.append((self._patches[:, taps].t(), part, update))

    def _back_to_features(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        _, C, _ = self._sizes
        self._rows.mul_(self._coupling)
        self._strips.zero_()
        for kernel, unfolded, across in self._folding:
            torch.mm(self._rows, kernel, out=unfolded)
            for strip, part in across:
                strip.add_(part)
        self._folded.zero_()
        for place, strip in self._down:
            place.add_(strip)
        for patches, part, update in self._blocks:
            torch.mm(patches, self._rows, out=part)
            update()
        yield self._folded.view(-1, C), self._features, self._image_columns

    def _plan_unfolding(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs of a block of the patches and the windows of the features that fill it."""
        B, C, _ = self._sizes
        features = self._features.view(B, 2, 10, 2, 10, C)
        patches = self._patches.view(B, 6, 6, 81, C)
        pairs, start = [], 0
        for i, j in PHASES:
            height, width = 5 - i, 5 - j
            windows = features[:, i, :, j].unfold(1, height, 1).unfold(2, width, 1)
            windows = windows[:, :OUTPUT, :OUTPUT].permute(0, 1, 2, 4, 5, 3)
            block = patches[:, :, :, start : start + height * width]
            pairs.append((block.view(windows.shape), windows))
            start += height * width
        return pairs

    def _across(self, parity: int) -> list[tuple[Tensor, Tensor]]:
        """Pairs of a strip and the patch gradients that are added to it, by output column."""
        B, C, _ = self._sizes
        width = 5 - parity
        unfolded = self._buffers("patch gradients", B * 36, 9 * width * C)
        parts = unfolded.view(B, 6, 6, 9, width, C)
        return [
            (self._strips[:, :, :, parity, x : x + width], parts[:, :, x]) for x in range(OUTPUT)
        ]
