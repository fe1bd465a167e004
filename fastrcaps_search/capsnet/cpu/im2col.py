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
from fastrcaps_search.capsnet.cpu.convolutions import Convolutions, before_relu
from fastrcaps_search.capsnet.cpu.weights import PHASES, PRIMARY, Weights

OUTPUT = 6  # side of the primary capsules' grid
_BLOCK_BYTES = 2_500_000
"""Gradient of the taps that are updated together (between 1 and 22 MB: within 2 % of a step)."""


class Im2colConv(Convolutions):
    """Both convolutions over unfolded patches."""

    position_first = False
    """Sums are [B, 36, O]."""

    def __init__(self, buffers: Buffers, weights: Weights, *, batch: int, coupling: float) -> None:
        super().__init__(buffers, weights, batch=batch, coupling=coupling)
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
        self._plan_biases(adam)

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
