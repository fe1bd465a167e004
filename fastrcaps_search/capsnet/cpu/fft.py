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

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.convolutions import Convolutions
from fastrcaps_search.capsnet.cpu.weights import PHASES, PRIMARY, Buffers, Weights

if TYPE_CHECKING:
    from fastrcaps_search.capsnet.network import CapsNet

_PART_BYTES = 1_700_000
"""Features of the images that go together (between 1 and 7 MB: no difference measured)."""


PERIOD = 10  # features of 20x20, every second row and column
SIDE = 5  # kernel of 9x9 padded to 10x10, every second row and column
OUTPUTS = PERIOD - SIDE + 1
POSITIONS = PERIOD**2
HALF = POSITIONS // 2  # cosines, and as many sines
PURE = 2  # of each, those of a frequency that is its own conjugate; they come first
PRODUCTS = 3 * HALF - PURE
MIDDLE = (PERIOD - 1) / 2


class DftMatrices(NamedTuple):
    """Constant matrices of one dtype.

    The 148 products of an axis are 50 real parts, 50 imaginary parts, 48 sums of both.

    Attributes:
        even: Cosines [50, 50] for the sum of a position and its mirror image.
        odd: Sines [50, 50] for their difference.
        kernels: From the taps of each phase to frequencies, [148, 25], twice [148, 20],
            [148, 16]; phases as in ``weights.PHASES``.
        output: [36, 148] from products to outputs.
    """

    even: Tensor
    odd: Tensor
    kernels: list[Tensor]
    output: Tensor


@lru_cache(maxsize=8)
def dft_matrices(dtype: torch.dtype) -> DftMatrices:
    """The matrices, computed in float64.

    Positions are counted from the middle of the 10x10 square, where cosines are even and sines
    odd under the mirror image: half of the multiplications go. A frequency that is its own
    conjugate then has a cosine or a sine alone.
    """
    real, imaginary = _frequencies()
    positions = _square(PERIOD)[:HALF] - MIDDLE
    kernel = _kernel(real, imaginary).view(-1, SIDE, SIDE)
    phases = [kernel[:, : SIDE - i, : SIDE - j] for i, j in PHASES]
    return DftMatrices(
        even=torch.cos(_angles(real, positions)).to(dtype),
        odd=-torch.sin(_angles(imaginary, positions)).to(dtype),
        kernels=[k.reshape(PRODUCTS, -1).to(dtype) for k in phases],
        output=_output(real, imaginary).to(dtype),
    )


def _kernel(real: Tensor, imaginary: Tensor) -> Tensor:
    """From taps to the conjugate kernel [148, 25]; a pure frequency's is real, always."""
    taps = _square(SIDE)
    cosines, sines = torch.cos(_angles(real, taps)), torch.sin(_angles(imaginary, taps))
    sines[:PURE] = torch.cos(_angles(imaginary[:PURE], taps))
    return torch.cat([cosines, sines, cosines[PURE:] + sines[PURE:]])


def _output(real: Tensor, imaginary: Tensor) -> Tensor:
    """From products to outputs [36, 148]: the real part of z exp(i angle), over all frequencies.

    With the products ac, bd and s = (a + b)(c + d) a paired frequency has z = ac - bd +
    i (s - ac - bd), thus cos (ac - bd) - sin (s - ac - bd); a pure one has cos ac or -sin bd.
    """
    weights = torch.full((HALF, 1), 2 / PERIOD**2, dtype=torch.float64)  # with its conjugate
    weights[:PURE] /= 2
    outputs = _square(OUTPUTS) - MIDDLE
    cosines = weights * torch.cos(_angles(real, outputs))
    sines = weights * torch.sin(_angles(imaginary, outputs))
    products = [
        cosines[:PURE],
        cosines[PURE:] + sines[PURE:],
        -sines[:PURE],
        sines[PURE:] - cosines[PURE:],
        -sines[PURE:],
    ]
    return torch.cat(products).t().contiguous()


def _frequencies() -> tuple[Tensor, Tensor]:
    """Frequencies [50, 2] of the cosines and of the sines, one of each conjugate pair.

    Two pure ones come first: signs that alternate are even about the middle if they do so along
    both axes, odd along one.
    """
    half = PERIOD // 2
    paired = [
        [k, m] for k in range(half + 1) for m in range(PERIOD) if (0 < k < half) or 0 < m < half
    ]
    real, imaginary = [[0, 0], [half, half], *paired], [[0, half], [half, 0], *paired]
    return torch.tensor(real, dtype=torch.float64), torch.tensor(imaginary, dtype=torch.float64)


def _square(side: int) -> Tensor:
    """Points [side * side, 2] of a square, row by row."""
    line = torch.arange(side, dtype=torch.float64)
    return torch.cartesian_prod(line, line)


def _angles(frequencies: Tensor, points: Tensor) -> Tensor:
    """Angles [frequencies, points] in radians."""
    return frequencies @ points.t() * (2 * math.pi / PERIOD)


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

    def __init__(
        self, network: CapsNet, weights: Weights, buffers: Buffers, *, batch: int
    ) -> None:
        super().__init__(network, weights, buffers, batch=batch)
        B, C, O = self._sizes
        self._matrices = dft_matrices(weights.values.dtype)
        # Both ways, so that the gradients of features and kernel have the factor too.
        self._output = self._coupling * self._matrices.output
        self._frequencies = buffers("frequencies", PRODUCTS, B, 4 * C)
        self._kernel = buffers("kernel", PRODUCTS, 4 * C, O)
        self._products = buffers("products", PRODUCTS, B, O)
        self._sums = buffers("sums", 36, B, O)
        step = max(_PART_BYTES // (16 * POSITIONS * C), 1)
        self._parts = [self._part(a, min(a + step, B)) for a in range(0, B, step)]
        self._mirror = torch.arange(HALF - 1, -1, -1)
        kernel = self._kernel.view(PRODUCTS, 4, C * O)
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

    def plan_backward(self, gradient: Tensor) -> None:
        """Lay out :meth:`backward` for the gradient of the sums [36, B, O]."""
        super().plan_backward(gradient)
        B, C, _ = self._sizes
        buffers = self._buffers
        self._moved = buffers("frequency gradients", PRODUCTS, B, 4 * C)
        self._updates = []
        start = self._weights.start(PRIMARY)
        for matrix, taps, kernel in self._transforms:
            part = buffers("kernel gradients", *taps.shape)
            self._updates.append((matrix.t(), kernel, part, self._weights.updater(start, part)))
            start += part.numel()

    def _back_to_features(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        products, kernel = self._products, self._kernel
        rows = self._rows.view(36, -1)
        torch.mm(self._output.t(), rows, out=products.view(PRODUCTS, -1))
        torch.bmm(products, kernel.transpose(1, 2), out=self._moved)
        # The kernel's gradient takes the place of the kernel, which is not read again.
        torch.bmm(self._frequencies.transpose(1, 2), products, out=kernel)
        for matrix, frequencies, taps, update in self._updates:
            torch.mm(matrix, frequencies, out=taps)
            update()
        for part in self._parts:
            found = self._buffers("feature gradients", *part.features.shape)
            self._from_frequencies(self._moved[:, part.images], found.view(POSITIONS, -1))
            yield found, part.features, part.columns

    def _part(self, start: int, end: int) -> _Part:
        B, C, _ = self._sizes
        rows = slice(4 * start * POSITIONS, 4 * end * POSITIONS)
        return _Part(
            images=slice(start, end),
            columns=self._buffers("image columns", 4 * B * POSITIONS, 81)[rows],
            features=self._buffers("features", 4 * B * POSITIONS, C)[rows],
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
