"""What this machine can do at best: rate of products, memory bandwidth, and the time they allow.

The floor of a step is the roofline's: the longer of its arithmetic at the best rate and its memory
traffic at the best bandwidth. Both are what was seen, so no proof about the hardware.

Counts for the full network (8.2 M parameters): with direct convolutions 1.203 GFLOP an image,
forward and backward; with the primary convolution as 148 real products between 10x10 Fourier
transforms 49.5 GFLOP a step of 128 images. Adam and the weights move 329 MB a step: p, m, v read
and written, g written and read, weights read twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

DIRECT_FLOPS = 1.203e9  # an image, forward and backward
STEP_FLOPS = {1: DIRECT_FLOPS, 16: 16 * DIRECT_FLOPS, 128: 49.5e9}
STEP_BYTES = {1: 329e6, 16: 420e6, 128: 2.7e9}  # weights, Adam, activations beyond the caches
# An image, forward, Fourier form: 24 MFLOP outside the primary convolution, 78 in the products,
# 30 and 3 in the transforms of features and results; that of the weights is done once.
EVALUATION_FLOPS = 135e6

TOLERANCE = 1e-5  # of a product called fp32, against float64
ELEMENTS = 32 * 2**20
REPEATS = 3

# (batch, rows, inner, columns): squares, then the network's own: the primary convolution of 16
# images, its weight gradient, the decoder's last layer and all frequencies at batch 128.
SHAPES = (
    (1, 1024, 1024, 1024),
    (1, 2048, 2048, 2048),
    (1, 576, 20736, 256),
    (1, 256, 576, 20736),
    (1, 128, 1024, 784),
    (148, 128, 1024, 256),
)


@dataclass(frozen=True, slots=True)
class Best:
    """Best of a kind: operations or bytes per second, and how they were reached."""

    rate: float = 0.0
    how: str = "not measured"


@dataclass(frozen=True, slots=True)
class Floors:
    """Rates of this machine.

    Attributes:
        fp32: Products of float32 factors with an error of at most 1e-5, FLOP/s.
        bf16: Products of bfloat16 factors, FLOP/s.
        memory: Bytes/s.
    """

    fp32: Best = Best()
    bf16: Best = Best()
    memory: Best = Best()

    def products(self, precision: str) -> float:
        """FLOP/s in a precision, fp32 or bf16."""
        return {"fp32": self.fp32, "bf16": self.bf16}[precision].rate

    def step_seconds(self, size: int, precision: str) -> tuple[float, str]:
        """Least seconds of a training step, and what binds."""
        arithmetic = STEP_FLOPS[size] / self.products(precision)
        memory = STEP_BYTES[size] / self.memory.rate
        return (arithmetic, "compute") if arithmetic >= memory else (memory, "memory")

    def evaluation_rate(self, precision: str) -> float:
        """Most images per second in evaluation, by arithmetic alone."""
        return self.products(precision) / EVALUATION_FLOPS


def _seconds(work: Callable[[], object]) -> float:
    """Least seconds of a few calls after one untimed."""
    work()
    least = float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begun)
    return least


def _product(a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(a, b) if a.shape[0] > 1 else torch.mm(a[0], b[0])


def _error(a: Tensor, b: Tensor) -> float:
    exact = _product(a.double(), b.double())
    return float((_product(a, b) - exact).norm() / exact.norm())


def _set_mode(mode: str) -> None:
    # Unknown to the stubs, and absent before torch 2.9.
    torch.backends.mkldnn.matmul.fp32_precision = mode  # type: ignore[attr-defined]


class Gauge:
    """Measures the floors in this process; keeps its tensors from one visit to the next.

    float32 products go through MKL by default. oneDNN takes them over where it may round factors
    (``fp32_precision``), which it does only on processors with units for that. Such a mode counts
    as float32 where the error of every shape says so, and not otherwise.
    """

    def __init__(self) -> None:
        torch.manual_seed(0)
        self._factors = [(torch.randn(g, m, k), torch.randn(g, k, n)) for g, m, k, n in SHAPES]
        self._modes = {"none": "MKL"}
        if hasattr(torch.backends.mkldnn, "matmul"):
            for mode in ("tf32", "bf16"):
                _set_mode(mode)
                if all(_error(a, b) <= TOLERANCE for a, b in self._factors):
                    self._modes[mode] = f"oneDNN by fp32_precision={mode}"
            _set_mode("none")
        self._vectors = [torch.zeros(ELEMENTS) for _ in range(3)]
        self._parameter = torch.nn.Parameter(torch.zeros(ELEMENTS))
        self._parameter.grad = torch.ones(ELEMENTS)
        self._adam = torch.optim.Adam([self._parameter], fused=True)

    def measure(self) -> Floors:
        """One visit: the best of each."""
        fp32 = Best()
        for mode, name in self._modes.items():
            if len(self._modes) > 1:
                _set_mode(mode)
            fp32 = max(fp32, self._rate(torch.float32, name), key=lambda best: best.rate)
        if len(self._modes) > 1:
            _set_mode("none")
        return Floors(fp32, self._rate(torch.bfloat16, "bfloat16"), self._bandwidth())

    def _rate(self, kind: torch.dtype, name: str) -> Best:
        best = Best()
        for (g, m, k, n), (a, b) in zip(SHAPES, self._factors, strict=True):
            seconds = _seconds(partial(_product, a.to(kind), b.to(kind)))
            shape = f"{f'{g}x ' if g > 1 else ''}{m}x{k}x{n}"
            found = Best(2.0 * g * m * k * n / seconds, f"{name}, {shape}")
            best = max(best, found, key=lambda each: each.rate)
        return best

    def _bandwidth(self) -> Best:
        a, b, c = self._vectors
        work: dict[str, tuple[int, Callable[[], object]]] = {
            "copy": (2, lambda: a.copy_(b)),
            "triad": (3, lambda: torch.add(b, c, alpha=3.0, out=a)),
            "fused Adam": (7, self._adam.step),
        }
        rates = {
            name: 4.0 * arrays * ELEMENTS / _seconds(call) for name, (arrays, call) in work.items()
        }
        how = max(rates, key=lambda name: rates[name])
        return Best(rates[how], f"{how} of {ELEMENTS >> 20} M floats")
