"""Constant matrices of the real Fourier form of the stride-2 convolution; see ``fft``."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.weights import PHASES

PERIOD = 10  # features of 20x20, every second row and column
TAPS = 5  # kernel of 9x9 padded to 10x10, every second row and column
OUTPUTS = PERIOD - TAPS + 1
HALF = PERIOD * PERIOD // 2  # cosines, and as many sines
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
    kernel = _kernel(real, imaginary).view(-1, TAPS, TAPS)
    phases = [kernel[:, : TAPS - i, : TAPS - j] for i, j in PHASES]
    return DftMatrices(
        even=torch.cos(_angles(real, positions)).to(dtype),
        odd=-torch.sin(_angles(imaginary, positions)).to(dtype),
        kernels=[k.reshape(PRODUCTS, -1).to(dtype) for k in phases],
        output=_output(real, imaginary).to(dtype),
    )


def _kernel(real: Tensor, imaginary: Tensor) -> Tensor:
    """From taps to the conjugate kernel [148, 25]; a pure frequency's is real, always."""
    taps = _square(TAPS)
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
