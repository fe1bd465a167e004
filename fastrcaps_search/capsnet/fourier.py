"""The stride-2 9x9 convolution on 20x20 as products of frequencies: fewest multiplications.

Pad the kernel to 10x10 with zeros and part rows and columns of features and kernel into even and
odd. What remains is, for each of the four phases, a 5x5 kernel moved in steps of 1 over 10x10
positions; the phases act as 4 x C input channels, called K. The 6x6 outputs never wrap around, so
under the discrete Fourier transform of period 10 every frequency is one product: features times
conjugate kernel, summed over K.

Real data need half of the 100 frequencies: 4 that are their own conjugate, where the product is
real, and 48 others. A complex product takes three real ones (Karatsuba): with features ``a + ib``
and kernel ``c + id`` it is ``ac - bd + i((a + b)(c + d) - ac - bd)``. In all 4 + 48 x 3 = 148
products [B, K] x [K, O] replace 36 x 81 products [B, C] x [C, O]: 4.9 times fewer.

Rounding stays that of a direct sum, since cosines and sines are at most 1 (measured against
float64: 1e-6 relative, as the other kernels). Everything is position-major, so that each product
reads contiguous memory.

Letters: B batch, C input channels, O output channels, K = 4 C, N = B K.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

PERIOD = 10  # features of 20x20, every second row and column
TAPS = 5  # kernel of 9x9 padded to 10x10, every second row and column
OUTPUTS = PERIOD - TAPS + 1
HALF = PERIOD * PERIOD // 2  # cosines, and as many sines
PURE = 2  # of each, those of a frequency that is its own conjugate; they come first
PRODUCTS = 3 * HALF - PURE


class Transforms(NamedTuple):
    """Constant matrices of one dtype and device. Rows of a ``PRODUCTS`` axis: real, imaginary, sum.

    Attributes:
        even: Cosines [50, 50] for the sum of a position and its mirror image.
        odd: Sines [50, 50] for their difference.
        kernel: [148, 25] from taps to frequencies.
        output: [36, 148] from products to outputs.
        mirror: int64 [50], positions counted from the last.
    """

    even: Tensor
    odd: Tensor
    kernel: Tensor
    output: Tensor
    mirror: Tensor


@lru_cache(maxsize=8)
def transforms(dtype: torch.dtype, device: torch.device) -> Transforms:
    """The matrices, computed in float64.

    Positions are counted from the middle of the 10x10 square, where cosines are even and sines
    odd under the mirror image: half of the multiplications go. A frequency that is its own
    conjugate then has a cosine or a sine alone.
    """
    cosine_only, sine_only, paired = _frequencies()
    real = torch.tensor(cosine_only + paired, dtype=torch.float64)
    imaginary = torch.tensor(sine_only + paired, dtype=torch.float64)
    middle = (PERIOD - 1) / 2
    positions = _square(PERIOD)[:HALF] - middle
    weights = torch.full((HALF, 1), 2 / PERIOD**2, dtype=torch.float64)
    weights[:PURE] /= 2  # the others stand for their conjugate too
    # Outputs are Re(product * exp(i angle)); "both" is the part of the product of sums.
    cosines = weights * torch.cos(_angles(real, _square(OUTPUTS) - middle))
    sines = weights * torch.sin(_angles(imaginary, _square(OUTPUTS) - middle))
    from_real, from_imaginary, both = cosines.clone(), -cosines, -sines[PURE:]
    from_imaginary[:PURE] = -sines[:PURE]
    from_real[PURE:] += sines[PURE:]
    from_imaginary[PURE:] += sines[PURE:]
    taps = _square(TAPS)
    kernel_real = torch.cos(_angles(real, taps))
    kernel_imaginary = torch.sin(_angles(imaginary, taps))
    kernel_sum = kernel_real[PURE:] + kernel_imaginary[PURE:]
    kernel_imaginary[:PURE] = torch.cos(_angles(imaginary[:PURE], taps))  # real there
    return Transforms(
        even=torch.cos(_angles(real, positions)).to(device, dtype),
        odd=-torch.sin(_angles(imaginary, positions)).to(device, dtype),
        kernel=torch.cat([kernel_real, kernel_imaginary, kernel_sum]).to(device, dtype),
        output=torch.cat([from_real, from_imaginary, both]).t().contiguous().to(device, dtype),
        mirror=torch.arange(HALF - 1, -1, -1, device=device),
    )


def _frequencies() -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """One of each conjugate pair; apart, its own conjugates: cosine alone, sine alone, paired.

    Counted from a middle between two positions, the alternating signs of 5 are odd in one axis.
    """
    half = PERIOD // 2
    paired = [
        [k, m] for k in range(half + 1) for m in range(PERIOD) if (0 < k < half) or 0 < m < half
    ]
    return [[0, 0], [half, half]], [[0, half], [half, 0]], paired


def _square(side: int) -> Tensor:
    """Points [side * side, 2] of a square, row by row."""
    line = torch.arange(side, dtype=torch.float64)
    return torch.cartesian_prod(line, line)


def _angles(frequencies: Tensor, points: Tensor) -> Tensor:
    """Angles [frequencies, points] in radians."""
    return frequencies @ points.t() * (2 * math.pi / PERIOD)


def features_by_position(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The 9x9 convolution before, in the layout that ``fourier_convolution`` reads.

    Args:
        images: [B, 1, 28, 28].
        weight: [C, 1, 9, 9] as in ``nn.Conv2d``.
        bias: [C].

    Returns:
        [100, B, 4, C]: position of 10x10, sample, phase (odd row, odd column), channel.
    """
    B, C = images.shape[0], weight.shape[0]
    # Strips 9 pixels wide make each 9x9 patch 81 neighbours in memory, quick to copy out.
    strips = images[:, 0].unfold(2, 9, 1).permute(2, 0, 1, 3).reshape(20, B, -1)
    patches = strips.unfold(2, 81, 9).view(PERIOD, 2, B, PERIOD, 2, 81)
    rows = patches.permute(3, 0, 2, 4, 1, 5).reshape(-1, 81)
    return torch.addmm(bias, rows, weight.view(C, 81).t()).view(-1, B, 4, C)


def fourier_convolution(features: Tensor, weight: Tensor) -> Tensor:
    """``F.conv2d(..., stride=2)`` without bias, position-major. Differentiable once.

    Args:
        features: [100, B, 4, C], floating point, contiguous: position of 10x10, sample, phase
            (odd row, odd column), channel. NaN spreads to every output of its sample.
        weight: [O, C, 9, 9] as in ``nn.Conv2d``.

    Returns:
        [36, O, B].
    """
    return _FourierConvolution.apply(features, weight)  # type: ignore[no-any-return]


class _FourierConvolution(torch.autograd.Function):
    """Transform, one batched product, transform back; the backward pass has the same form."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor) -> Tensor:  # noqa: ANN401 - untyped
        B, O = features.shape[1], weight.shape[0]
        matrices = transforms(features.dtype, features.device)
        x = _to_frequencies(features.flatten(1), matrices).view(PRODUCTS, B, -1)
        w = torch.mm(matrices.kernel, _pack(weight)).view(PRODUCTS, O, -1)
        ctx.save_for_backward(x, w)
        products = torch.bmm(w, x.transpose(1, 2))
        return torch.mm(matrices.output, products.view(PRODUCTS, -1)).view(-1, O, B)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ANN401
        x, w = ctx.saved_tensors
        _, O, B = gradient.shape
        matrices = transforms(x.dtype, x.device)
        products = torch.mm(matrices.output.t(), gradient.reshape(-1, O * B)).view(-1, O, B)
        features = weight = None
        if ctx.needs_input_grad[0]:
            moved = torch.bmm(products.transpose(1, 2), w).view(PRODUCTS, -1)
            features = _from_frequencies(moved, matrices).view(-1, B, 4, x.shape[2] // 4)
        if ctx.needs_input_grad[1]:
            taps = torch.mm(matrices.kernel.t(), torch.bmm(products, x).view(PRODUCTS, -1))
            weight = _unpack(taps, O)
        return features, weight


def _to_frequencies(x: Tensor, matrices: Transforms) -> Tensor:
    """Frequencies [148, N] of positions [100, N]."""
    first, last = x[:HALF], x[HALF:].index_select(0, matrices.mirror)
    y = x.new_empty(PRODUCTS, x.shape[1])
    torch.mm(matrices.even, first + last, out=y[:HALF])
    torch.mm(matrices.odd, first - last, out=y[HALF : 2 * HALF])
    torch.add(y[PURE:HALF], y[HALF + PURE : 2 * HALF], out=y[2 * HALF :])
    return y


def _from_frequencies(y: Tensor, matrices: Transforms) -> Tensor:
    """Transpose of ``_to_frequencies``: positions [100, N] of [148, N], which it overwrites."""
    y[PURE:HALF] += y[2 * HALF :]
    y[HALF + PURE : 2 * HALF] += y[2 * HALF :]
    even = torch.mm(matrices.even.t(), y[:HALF])
    odd = torch.mm(matrices.odd.t(), y[HALF : 2 * HALF])
    x = y.new_empty(2 * HALF, y.shape[1])
    torch.add(even, odd, out=x[:HALF])
    torch.index_select(even.sub_(odd), 0, matrices.mirror, out=x[HALF:])
    return x


def _pack(weight: Tensor) -> Tensor:
    """Taps [25, O * K] of a weight [O, C, 9, 9]."""
    O, C, _, _ = weight.shape
    # The plain transposition is the one strided copy that torch does in blocks.
    taps_first = weight.reshape(O * C, -1).t().contiguous().view(9, 9, O, C)
    padded = F.pad(taps_first, (0, 0, 0, 0, 0, 1, 0, 1))
    return padded.view(TAPS, 2, TAPS, 2, O, C).permute(0, 2, 4, 1, 3, 5).reshape(TAPS * TAPS, -1)


def _unpack(taps: Tensor, O: int) -> Tensor:
    """Transpose of ``_pack``: [O, C, 9, 9] of taps [25, O * K]."""
    phases = taps.view(TAPS, TAPS, O, 2, 2, -1).permute(0, 3, 1, 4, 2, 5)
    kernel = phases.reshape(2 * TAPS, 2 * TAPS, -1)[:-1, :-1].reshape(81, -1)
    return kernel.t().contiguous().view(O, -1, 9, 9)
