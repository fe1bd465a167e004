"""Both convolutions with the primary one as products of frequencies: fastest for many images.

Pad the primary kernel to 10x10 with zeros and part rows and columns of features and kernel into
even and odd. What remains is, for each of the four phases, a 5x5 kernel moved in steps of 1 over
10x10 positions; the phases act as 4 x C input channels. The 6x6 outputs never wrap around, so
under the discrete Fourier transform of period 10 every frequency is one product: features times
conjugate kernel, summed over the channels of all phases.

Real data need half of the 100 frequencies: 4 that are their own conjugate, where the product is
real, and 48 others. A complex product takes three real ones (Karatsuba): with features ``a + ib``
and kernel ``c + id`` it is ``ac - bd + i((a + b)(c + d) - ac - bd)``. In all 4 + 48 x 3 = 148
products [B, 4 C] x [4 C, O] replace 36 x 81 products [B, C] x [C, O]: 4.9 times fewer.

Rounding stays that of a direct sum, since cosines and sines are at most 1. Everything is
position-major, so that each product reads contiguous memory. Features are made, transformed, and
later differentiated a few images at a time, while they are in the cache.

Letters: B batch, C channels, O output channels, n images of a part of the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import Adam
from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.convolutions import Convolutions, before_relu
from fastrcaps_search.capsnet.cpu.dft import HALF, PRODUCTS, PURE, dft_matrices
from fastrcaps_search.capsnet.cpu.weights import PRIMARY, Weights

_PART_BYTES = 1_700_000
"""Features of the images that go together (between 1 and 7 MB: no difference measured)."""

POSITIONS = 100
PHASES = 4


class _Part(NamedTuple):
    """Images that go together.

    Attributes:
        images: Which ones, n of them.
        columns: Their patches [100 * n * 4, 81].
        features: [100 * n * 4, C].
        frequencies: Of the features [148, n * 4 C]; the rows lie apart.
    """

    images: slice
    columns: Tensor
    features: Tensor
    frequencies: Tensor


class FftConv(Convolutions):
    """Both convolutions, the primary one as products of frequencies."""

    position_first = True
    """Sums are [36, B, O]."""

    def __init__(self, buffers: Buffers, weights: Weights, *, batch: int, coupling: float) -> None:
        super().__init__(buffers, weights, batch=batch, coupling=coupling)
        B, C, O = self._sizes
        self._matrices = dft_matrices(weights.values.dtype)
        # Both ways, so that the gradients of features and kernel have the factor too.
        self._output = coupling * self._matrices.output
        self._frequencies = buffers("frequencies", PRODUCTS, B, PHASES * C)
        self._kernel = buffers("kernel", PRODUCTS, PHASES * C, O)
        self._products = buffers("products", PRODUCTS, B, O)
        self._sums = buffers("sums", 36, B, O)
        step = max(_PART_BYTES // (POSITIONS * PHASES * 4 * C), 1)
        self._parts = [self._part(a, min(a + step, B)) for a in range(0, B, step)]
        self._mirror = torch.arange(HALF - 1, -1, -1)
        kernel = self._kernel.view(PRODUCTS, PHASES, C * O)
        taps = weights[PRIMARY].view(81, C * O)
        self._transforms = []
        start = 0
        for phase, matrix in enumerate(self._matrices.kernels):
            end = start + matrix.shape[1]
            self._transforms.append((matrix, taps[start:end], kernel[:, phase]))
            start = end

    def prepare(self) -> None:
        """Bring the primary weight's frequencies up to date with its taps."""
        for matrix, taps, kernel in self._transforms:
            torch.mm(matrix, taps, out=kernel)

    def forward(self, images: Tensor) -> Tensor:
        """Sums [36, B, O] of images [B, 1, 28, 28], by the kernel as transformed last."""
        for part in self._parts:
            self._unfold(images[part.images], part.columns)
            torch.addmm(self._bias, part.columns, self._filters, out=part.features).relu_()
            self._to_frequencies(part.features.view(POSITIONS, -1), part.frequencies)
        torch.bmm(self._frequencies, self._kernel, out=self._products)
        sums = self._sums.view(36, -1)
        torch.mm(self._output, self._products.view(PRODUCTS, -1), out=sums)
        return self._sums.add_(self._kernel_bias)

    def plan_backward(self, gradient: Tensor, adam: Adam) -> None:
        """Lay out :meth:`backward`.

        Args:
            gradient: Where the gradient of the sums will be [36, B, O].
            adam: Updates.
        """
        B, C, _ = self._sizes
        buffers = self._buffers
        self._gradient = gradient
        self._moved = buffers("frequency gradients", PRODUCTS, B, PHASES * C)
        self._updates = []
        start = self._weights.start(PRIMARY)
        for matrix, taps, kernel in self._transforms:
            part = buffers("kernel gradients", *taps.shape)
            self._updates.append((matrix.t(), kernel, part, adam.of(start, part)))
            start += part.numel()
        self._plan_biases(adam)

    def backward(self) -> None:
        """Update both convolutions."""
        gradient, products, kernel = self._gradient, self._products, self._kernel
        rows = gradient.view(36, -1)
        torch.mm(self._output.t(), rows, out=products.view(PRODUCTS, -1))
        torch.bmm(products, kernel.transpose(1, 2), out=self._moved)
        # The kernel's gradient takes the place of the kernel, which is not read again.
        torch.bmm(self._frequencies.transpose(1, 2), products, out=kernel)
        for matrix, frequencies, taps, update in self._updates:
            torch.mm(matrix, frequencies, out=taps)
            update()
        torch.sum(gradient, (0, 1), out=self._bias_gradient)
        self._update_bias()
        self._first.begin()
        for part in self._parts:
            found = self._buffers("feature gradients", *part.features.shape)
            self._from_frequencies(self._moved[:, part.images], found.view(POSITIONS, -1))
            rectified = self._buffers("rectified gradients", *part.features.shape)
            before_relu(found, part.features, out=rectified)
            self._first.add(rectified, part.columns)
        self._first.update()

    def _part(self, start: int, end: int) -> _Part:
        B, C, _ = self._sizes
        rows = slice(start * POSITIONS * PHASES, end * POSITIONS * PHASES)
        return _Part(
            images=slice(start, end),
            columns=self._buffers("image columns", B * POSITIONS * PHASES, 81)[rows],
            features=self._buffers("features", B * POSITIONS * PHASES, C)[rows],
            frequencies=self._frequencies[:, start:end].view(PRODUCTS, -1),
        )

    def _unfold(self, images: Tensor, columns: Tensor) -> None:
        """Patches [100 * n * 4, 81] of images [n, 1, 28, 28], in the order of the features.

        By position, image, phase; the second half of the positions backwards, so that position k
        and 50 + k mirror each other about the middle of the 10x10 square.
        """
        n = images.shape[0]
        shape = (5, 10, n, 2, 2, 9, 9)  # column parity before row parity, as in weights.PHASES
        strides = (56, 2, 784, 1, 28, 28, 1)
        first, second = columns.view(2, HALF, -1)
        first.view(shape).copy_(images.as_strided(shape, strides))
        backwards = self._buffers("backward columns", *second.shape)
        offset = images.storage_offset() + 10 * 28
        backwards.view(shape).copy_(images.as_strided(shape, strides, offset))
        torch.index_select(backwards, 0, self._mirror, out=second)

    def _to_frequencies(self, x: Tensor, y: Tensor) -> None:
        """Write frequencies y [148, N] of positions x [100, N]."""
        matrices = self._matrices
        both = self._buffers("sums and differences", 2, HALF, x.shape[1])
        torch.add(x[:HALF], x[HALF:], out=both[0])
        torch.sub(x[:HALF], x[HALF:], out=both[1])
        torch.mm(matrices.even, both[0], out=y[:HALF])
        torch.mm(matrices.odd, both[1], out=y[HALF : 2 * HALF])
        torch.add(y[PURE:HALF], y[HALF + PURE : 2 * HALF], out=y[2 * HALF :])

    def _from_frequencies(self, y: Tensor, x: Tensor) -> None:
        """Transpose of ``_to_frequencies``: x [100, N] of y [148, n, 4 C], which is lost."""
        matrices = self._matrices
        y = y.view(PRODUCTS, -1)
        y[PURE:HALF].add_(y[2 * HALF :])
        y[HALF + PURE : 2 * HALF].add_(y[2 * HALF :])
        both = self._buffers("sums and differences", 2, HALF, x.shape[1])
        torch.mm(matrices.even.t(), y[:HALF], out=both[0])
        torch.mm(matrices.odd.t(), y[HALF : 2 * HALF], out=both[1])
        torch.add(both[0], both[1], out=x[:HALF])
        torch.sub(both[0], both[1], out=x[HALF:])
