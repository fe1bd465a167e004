"""Which library multiplies matrices, and how it rounds.

torch multiplies float32 matrices with Intel's MKL. One switch makes oneDNN do it, with factors
rounded to bfloat16 where the processor has units for that. Where it has none, oneDNN goes on in
float32, on AMD's processors twice as fast as MKL (measured on Zen 5: 432 against 208 GF/s); that
is float32 in all but the switch's name, and is used as such only after a check.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from fastrcaps_search.definition.choices import Precision

LARGEST_ERROR = 1e-5
"""Relative error against float64 up to which a product counts as float32."""

_SHAPES = ((37, 1024, 256), (576, 2592, 256), (128, 300, 64))


class MatmulBackend(StrEnum):
    """Who multiplies: ``MKL`` and ``ONEDNN`` in float32, ``BF16`` oneDNN with rounded factors."""

    MKL = "mkl"
    ONEDNN = "onednn"
    BF16 = "bf16"


def choose_backend(precision: Precision) -> MatmulBackend:
    """The fastest for a precision on this machine; a function of machine and torch alone.

    Raises:
        ValueError: ``BF16`` where torch is too old to offer the switch.
    """
    if precision is Precision.BF16:
        if not has_switch():
            raise ValueError(
                "precision bf16 must have torch 2.9 or newer on a CPU, got torch "
                f"{torch.__version__}; install a newer torch, or take fp32"
            )
        return MatmulBackend.BF16
    return MatmulBackend.ONEDNN if _is_amd() and is_exact_switched() else MatmulBackend.MKL


def has_switch() -> bool:
    """Whether this torch has the switch."""
    return torch.backends.mkldnn.is_available() and hasattr(
        getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision"
    )


@lru_cache(maxsize=1)
def is_exact_switched() -> bool:
    """Whether oneDNN's products are float32 on this machine: measured against float64."""
    return has_switch() and switched_error() <= LARGEST_ERROR


def switched_error() -> float:
    """Largest relative error of a product with the switch on, measured here."""
    generator = torch.Generator().manual_seed(0)
    worst = 0.0
    for m, k, n in _SHAPES:
        a = torch.randn(m, k, generator=generator)
        b = torch.randn(k, n, generator=generator)
        exact = a.double() @ b.double()
        with use_backend(MatmulBackend.BF16):
            found = [torch.mm(a, b), torch.bmm(a[None], b[None])[0]]
        for product in found:
            worst = max(worst, float((product - exact).norm() / exact.norm()))
    return worst


@contextmanager
def use_backend(backend: MatmulBackend) -> Iterator[None]:
    """Multiply so in this block, and as before after it."""
    if backend is MatmulBackend.MKL:
        yield
        return
    onednn: Any = torch.backends.mkldnn  # its switches carry no types
    # Only products are known to be exact under the switch; convolutions take it to be rounded.
    rounded = backend is MatmulBackend.BF16
    switches = (onednn.matmul, onednn.conv) if rounded else (onednn.matmul,)
    before = [switch.fp32_precision for switch in switches]
    try:
        for switch in switches:
            switch.fp32_precision = "bf16"
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.fp32_precision = value


def _is_amd() -> bool:
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
