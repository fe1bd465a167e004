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

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fastrcaps_search.capsnet.frequencies import (
    HALF,
    PERIOD,
    PHASES,
    PRODUCTS,
    PURE,
    Transforms,
    transforms,
)

# Frequencies at a time: a half of the narrow network's transformed kernel is 1.2 MB, which a 2 MB
# cache keeps until it is multiplied. Halves beat quarters there by 5 % at batch 16, quarters beat
# halves in the full network by 10 % to 15 % at 16 and 32 (one thread, Xeon with AVX-512).
_CHUNK = 74
_CHUNK_OF_LARGE_KERNEL = 37
_LARGE_KERNEL = 128 * 128  # O * C


def _chunks(numbers: int) -> list[slice]:
    """Ranges of the ``PRODUCTS`` axis for a kernel of O * C numbers."""
    step = _CHUNK if numbers < _LARGE_KERNEL else _CHUNK_OF_LARGE_KERNEL
    return [slice(start, start + step) for start in range(0, PRODUCTS, step)]


def features_by_position(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The first 9x9 convolution and its ReLU, in the layout that ``fourier_convolution`` reads.

    Args:
        images: [B, 1, 28, 28].
        weight: [C, 1, 9, 9] as in ``nn.Conv2d``.
        bias: [C].

    Returns:
        [4, 100, B, C]: phase (odd row, odd column), position of 10x10, sample, channel.
    """
    B, C = images.shape[0], weight.shape[0]
    # Strips 9 pixels wide make each 9x9 patch 81 neighbours in memory, quick to copy out.
    strips = images[:, 0].unfold(2, 9, 1).permute(2, 0, 1, 3).reshape(20, B, -1)
    patches = strips.unfold(2, 81, 9).view(PERIOD, 2, B, PERIOD, 2, 81)
    rows = patches.permute(4, 1, 3, 0, 2, 5).reshape(-1, 81)
    # In place before the view: afterwards autograd would copy the whole.
    return torch.addmm(bias, rows, weight.view(C, 81).t()).relu_().view(PHASES, -1, B, C)


def fourier_convolution(features: Tensor, weight: Tensor) -> Tensor:
    """``F.conv2d(..., stride=2)`` without bias, position-major. Differentiable once.

    Args:
        features: [4, 100, B, C], floating point, contiguous: phase (odd row, odd column),
            position of 10x10, sample, channel. NaN spreads to every output of its sample.
        weight: [O, C, 9, 9] as in ``nn.Conv2d``.

    Returns:
        [36, O, B].
    """
    return _FourierConvolution.apply(features, weight)  # type: ignore[no-any-return]


class _FourierConvolution(torch.autograd.Function):
    """Transform, multiply, transform back; the backward pass has the same form.

    One phase and some frequencies at a time, so that a part of the transformed kernel is still in
    the cache when it is multiplied. The backward pass makes it anew, which measured no slower
    than to keep 148 x 4 C x O numbers in memory and read them again.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor) -> Tensor:  # noqa: ANN401 - untyped
        _, _, B, C = features.shape
        O = weight.shape[0]
        matrices = transforms(features.dtype, features.device)
        x = features.new_empty(PHASES, PRODUCTS, B, C)
        products = features.new_empty(PRODUCTS, O, B)
        taps = _pack(weight)
        for phase in range(PHASES):
            _to_frequencies(features[phase].view(-1, B * C), matrices, x[phase].view(-1, B * C))
            for rows in _chunks(O * C):
                w = torch.mm(matrices.kernels[phase][rows], taps[phase]).view(-1, O, C)
                moved = x[phase, rows].transpose(1, 2)
                products[rows].baddbmm_(w, moved, beta=1 if phase else 0)
        ctx.save_for_backward(x, *taps)
        return torch.mm(matrices.output, products.view(PRODUCTS, -1)).view(-1, O, B)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401 - untyped
        x, *taps = ctx.saved_tensors
        _, O, B = gradient.shape
        C = x.shape[-1]
        matrices = transforms(x.dtype, x.device)
        products = torch.mm(matrices.output.t(), gradient.reshape(-1, O * B)).view(-1, O, B)
        features = x.new_empty(PHASES, PERIOD * PERIOD, B * C)
        moved = x.new_empty(PRODUCTS, B, C)
        taps_gradients = [torch.empty_like(t) for t in taps]
        for phase in range(PHASES):
            kernel = matrices.kernels[phase]
            for rows in _chunks(O * C):
                w = torch.mm(kernel[rows], taps[phase]).view(-1, O, C)
                torch.bmm(products[rows].transpose(1, 2), w, out=moved[rows])
                w = torch.bmm(products[rows], x[phase, rows]).view(-1, O * C)
                beta = 1 if rows.start else 0
                taps_gradients[phase].addmm_(kernel[rows].t(), w, beta=beta)
            _from_frequencies(moved.view(PRODUCTS, -1), matrices, features[phase])
        return features.view(PHASES, -1, B, C), _unpack(taps_gradients, O)


def _to_frequencies(x: Tensor, matrices: Transforms, y: Tensor) -> None:
    """Write frequencies y [148, N] of positions x [100, N]."""
    first, last = x[:HALF], x[HALF:].index_select(0, matrices.mirror)
    torch.mm(matrices.even, first + last, out=y[:HALF])
    torch.mm(matrices.odd, first - last, out=y[HALF : 2 * HALF])
    torch.add(y[PURE:HALF], y[HALF + PURE : 2 * HALF], out=y[2 * HALF :])


def _from_frequencies(y: Tensor, matrices: Transforms, x: Tensor) -> None:
    """Transpose of ``_to_frequencies``: write positions x [100, N] of y, which is overwritten."""
    y[PURE:HALF] += y[2 * HALF :]
    y[HALF + PURE : 2 * HALF] += y[2 * HALF :]
    even = torch.mm(matrices.even.t(), y[:HALF])
    odd = torch.mm(matrices.odd.t(), y[HALF : 2 * HALF])
    torch.add(even, odd, out=x[:HALF])
    torch.index_select(even.sub_(odd), 0, matrices.mirror, out=x[HALF:])


def _pack(weight: Tensor) -> list[Tensor]:
    """Taps [25 or 20 or 16, O * C] of each phase of a weight [O, C, 9, 9]."""
    O, C, _, _ = weight.shape
    # The plain transposition is the one strided copy that torch does in blocks.
    taps = weight.reshape(O * C, -1).t().contiguous().view(9, 9, -1)
    return [taps[i::2, j::2].reshape(-1, O * C) for i in range(2) for j in range(2)]


def _unpack(taps: list[Tensor], O: int) -> Tensor:
    """Transpose of ``_pack``."""
    kernel = taps[0].new_empty(9, 9, taps[0].shape[1])
    for phase, t in enumerate(taps):
        part = kernel[phase // 2 :: 2, phase % 2 :: 2]
        part.copy_(t.view_as(part))
    return kernel.view(81, -1).t().contiguous().view(O, -1, 9, 9)
