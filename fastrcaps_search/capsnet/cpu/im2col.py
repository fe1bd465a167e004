"""Both convolutions as products over unfolded patches (im2col): fastest for a few images.

Rows and columns of the features are split by parity, as the taps of the primary weight are
(``weights.TAPS``). The gradient of the primary weight is made and used a few taps at a time: it
is still in the cache when it is read.

Letters: B batch, C channels, O output channels.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import Adam
from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.weights import PHASES, PRIMARY, Weights

OUTPUT = 6  # side of the primary capsules' grid
_BLOCK_BYTES = 2_500_000
"""Gradient of the taps that are updated together (between 1 and 22 MB: within 2 % of a step)."""


class Im2colConv:
    """Images to the sums before squash, and back.

    Args:
        buffers: Memory.
        weights: The network's weights.
        batch: B.
        coupling: Factor of the primary convolution, but not of its bias.
    """

    position_first = False
    """Sums are [B, 36, O]."""

    def __init__(self, buffers: Buffers, weights: Weights, *, batch: int, coupling: float) -> None:
        B, (_, C, O) = batch, weights[PRIMARY].shape
        self._buffers = buffers
        self._weights = weights
        self._coupling = coupling
        self._sizes = B, C, O
        self._image_columns = buffers("image columns", B * 400, 81)
        self._features = buffers("features", B * 400, C)
        self._patches = buffers("patches", B * 36, 81 * C)
        self._sums = buffers("sums", B * 36, O)
        self._filters = weights["convolution.weight"].view(C, 81).t()
        self._bias = weights["convolution.bias"]
        self._kernel = weights[PRIMARY].view(81 * C, O)
        self._kernel_bias = weights["primary_capsules.convolution.bias"]
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

    def plan_backward(self, gradient: Tensor, adam: Adam) -> None:
        """Lay out :meth:`backward`.

        Args:
            gradient: Where the gradient of the sums will be [B, 36, O].
            adam: Updates.
        """
        B, C, O = self._sizes
        buffers = self._buffers
        self._rows = gradient.view(B * 36, O)
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
            update = adam.of(begin + taps.start * O, part)
            self._blocks.append((self._patches[:, taps].t(), part, update))
        self._bias_gradient = buffers("kernel bias gradient", O)
        start = self._weights.start("primary_capsules.convolution.bias")
        self._update_bias = adam.of(start, self._bias_gradient)
        self._first = FirstGradient(buffers, self._weights, adam)

    def backward(self) -> None:
        """Update both convolutions."""
        _, C, _ = self._sizes
        torch.sum(self._rows, 0, out=self._bias_gradient)
        self._update_bias()
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
        gradient = self._buffers("rectified gradients", *self._features.shape)
        before_relu(self._folded.view(-1, C), self._features, out=gradient)
        self._first.begin()
        self._first.add(gradient, self._image_columns)
        self._first.update()

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


class FirstGradient:
    """Gradient of the first convolution, summed up in parts.

    Args:
        buffers: Memory.
        weights: The network's weights.
        adam: Updates.
    """

    def __init__(self, buffers: Buffers, weights: Weights, adam: Adam) -> None:
        channels = weights["convolution.bias"].shape[0]
        span = weights.span("convolution.weight", "convolution.bias")
        self._flat = buffers("first gradients", span.stop - span.start)
        self._filters = self._flat[: channels * 81].view(channels, 81)
        place = weights.start("convolution.bias") - span.start
        self._bias = self._flat[place : place + channels]
        self.update = adam.of(span.start, self._flat)

    def begin(self) -> None:
        """Begin a sum."""
        self._flat.zero_()

    def add(self, gradient: Tensor, columns: Tensor) -> None:
        """Add a part.

        Args:
            gradient: Of the features before ReLU [rows, C].
            columns: The image patch that each of them saw [rows, 81].
        """
        self._filters.addmm_(gradient.t(), columns)
        self._bias.add_(gradient.sum(0))


def before_relu(gradient: Tensor, features: Tensor, *, out: Tensor) -> None:
    """Write the gradient, zero where a feature after ReLU is zero; in place torch would copy."""
    torch.ops.aten.threshold_backward.grad_input(gradient, features, 0, grad_input=out)
