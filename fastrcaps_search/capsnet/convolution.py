"""The 9x9 convolution with stride 2 that makes primary capsules: 94 % of the network's work.

On a CPU torch's direct kernel loses in two places. For small batches of the full network one
matrix product over unfolded patches ("columns") is faster, since torch reorders 5 million weights
for a few samples; for larger batches products of frequencies (``fourier``) need a fifth of the
multiplications. The choice depends on device, batch size and width alone, never on a clock, so
that a resumed run repeats it bit for bit.

Letters: B batch, C input channels, O output channels, K kernel side, H and W input sides.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

STRIDE = 2

# Where each kernel wins, in a whole training step of one thread (Xeon with AVX-512, torch 2.14).
# Fourier against the best other: 256 channels 1.2x at batch 16, 1.7x to 2.3x at 32, 2.6x to 3x at
# 64 and 128, a loss (0.7x) at 8; 64 channels 1.0x to 1.15x at 16, 1.25x at 32, 1.3x to 1.45x at
# 128, a loss (0.9x) at 8. Columns against torch's: 256 channels 1.6x at batch 1, 1.5x at 4, 1.25x
# at 8; 64 channels 1.04x at 1, a loss from 4 on.
_SMALLEST_FOURIER_BATCH = 16
_FEWEST_COLUMN_CHANNELS = 256


class Kernel(StrEnum):
    """How the stride-2 convolution is computed; all give the same up to rounding."""

    DIRECT = "direct"
    COLUMNS = "columns"
    FOURIER = "fourier"


def choose_kernel(device: torch.device, *, batch: int, channels: int) -> Kernel:
    """The fastest kernel, a function of these three alone."""
    if device.type != "cpu":
        return Kernel.DIRECT
    if batch >= _SMALLEST_FOURIER_BATCH:
        return Kernel.FOURIER
    return Kernel.COLUMNS if channels >= _FEWEST_COLUMN_CHANNELS else Kernel.DIRECT


def stride_2_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolution with stride 2, no padding; equal to ``F.conv2d(..., stride=2)`` up to rounding.

    Columns where ``choose_kernel`` says so, torch's kernel for the rest: the Fourier form lives
    in ``fourier``, because it needs another memory layout from the first convolution on.

    Args:
        x: [B, C, H, W], floating point; NaN spreads to every output that reads it.
        weight: [O, C, K, K] as in ``nn.Conv2d``.
        bias: [O].

    Returns:
        [B, O, (H - K) // 2 + 1, (W - K) // 2 + 1].
    """
    kernel = choose_kernel(x.device, batch=x.shape[0], channels=x.shape[1])
    if kernel is Kernel.COLUMNS:
        return column_convolution(x, weight) + bias.view(-1, 1, 1)
    return F.conv2d(x, weight, bias, stride=STRIDE)


def column_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """The same without bias, by products over columns. Differentiable once, any device."""
    return _ColumnConvolution.apply(x, weight)  # type: ignore[no-any-return]


class _ColumnConvolution(torch.autograd.Function):
    """Patches unfolded to rows [B * positions, C * K * K]; forward and backward are products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:  # noqa: ANN401 - untyped in torch
        B, _, H, W = x.shape
        O, _, K, _ = weight.shape
        columns = _unfold(x, K)
        ctx.save_for_backward(weight, columns)
        ctx.sides = H, W
        height, width = (H - K) // STRIDE + 1, (W - K) // STRIDE + 1
        rows = torch.mm(columns, weight.reshape(O, -1).t())
        return rows.view(B, height * width, O).transpose(1, 2).reshape(B, O, height, width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401 - untyped
        weight, columns = ctx.saved_tensors
        B, O, height, width = gradient.shape
        _, C, K, _ = weight.shape
        rows = gradient.flatten(2).transpose(1, 2).reshape(-1, O)
        patches = torch.mm(rows, weight.reshape(O, -1)).view(B, height, width, C, K, K)
        return _fold(patches, *ctx.sides), torch.mm(rows.t(), columns).view_as(weight)


def _unfold(x: Tensor, K: int) -> Tensor:
    """Rows of patches [B * positions, C * K * K] of x [B, C, H, W]."""
    patches = x.unfold(2, K, STRIDE).unfold(3, K, STRIDE)
    return patches.permute(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * K * K)


def _fold(patches: Tensor, H: int, W: int) -> Tensor:
    """Transpose of ``_unfold``: overlapping patches [B, h, w, C, K, K] added to [B, C, H, W].

    Columns first, then rows: h + w additions instead of h * w.
    """
    B, height, width, C, K, _ = patches.shape
    strips = patches.new_zeros(B, height, C, K, W)
    for j in range(width):
        strips[..., STRIDE * j : STRIDE * j + K] += patches[:, :, j]
    x = patches.new_zeros(B, C, H, W)
    for i in range(height):
        x[:, :, STRIDE * i : STRIDE * i + K] += strips[:, i]
    return x
