"""Who multiplies, and how exactly, on this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fastrcaps_search.capsnet.cpu import matmul as module
from fastrcaps_search.capsnet.cpu.matmul import (
    LARGEST_ERROR,
    MatmulBackend,
    choose_backend,
    has_switch,
    is_exact_switched,
    switched_error,
    use_backend,
)
from fastrcaps_search.definition.choices import Precision


def relative_error(products: MatmulBackend) -> float:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(200, 200, generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    with use_backend(products):
        return float((a @ b - exact).norm() / exact.norm())


def setting() -> list[str]:
    code = (
        "import torch; m = torch.backends.mkldnn; "
        "print(m.matmul.fp32_precision, m.conv.fp32_precision)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def test_the_switch_is_given_back_whatever_happens() -> None:
    fresh = setting()
    onednn: Any = torch.backends.mkldnn

    def fail() -> None:
        with use_backend(MatmulBackend.BF16):
            assert [onednn.matmul.fp32_precision, onednn.conv.fp32_precision] == ["bf16"] * 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [onednn.matmul.fp32_precision, onednn.conv.fp32_precision] == fresh


def test_float32_is_float32() -> None:
    assert relative_error(MatmulBackend.MKL) < 2e-6
    for precision in (Precision.FP32, Precision.TF32):
        assert relative_error(choose_backend(precision)) < LARGEST_ERROR


def test_the_switch_counts_as_float32_only_where_it_measures_so() -> None:
    assert is_exact_switched() == (switched_error() <= LARGEST_ERROR)
    assert is_exact_switched() == (relative_error(MatmulBackend.ONEDNN) <= LARGEST_ERROR)
    assert choose_backend(Precision.FP32) in (
        (MatmulBackend.MKL, MatmulBackend.ONEDNN) if is_exact_switched() else (MatmulBackend.MKL,)
    )


def test_bf16_rounds_no_more_than_bfloat16() -> None:
    assert choose_backend(Precision.BF16) is MatmulBackend.BF16
    # Two factors of 8 bits each, rounded to nearest: about 2^-9 each.
    assert relative_error(MatmulBackend.BF16) < 4e-3


def test_an_amd_processor_takes_the_switch_if_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_amd", lambda: True)
    for exact, chosen in ((True, MatmulBackend.ONEDNN), (False, MatmulBackend.MKL)):
        monkeypatch.setattr(module, "is_exact_switched", lambda exact=exact: exact)
        assert choose_backend(Precision.FP32) is chosen


@pytest.fixture
def unmeasured() -> Iterator[None]:
    """What was measured of this machine is forgotten before and after."""
    is_exact_switched.cache_clear()
    yield
    is_exact_switched.cache_clear()


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("amd", [True, False])
def test_bf16_needs_a_torch_with_the_switch(monkeypatch: pytest.MonkeyPatch, amd: bool) -> None:
    assert has_switch()
    monkeypatch.setattr(torch.backends.mkldnn, "matmul", object())
    monkeypatch.setattr(module, "_is_amd", lambda: amd)
    assert not has_switch()
    assert not is_exact_switched()
    assert choose_backend(Precision.FP32) is MatmulBackend.MKL
    with pytest.raises(ValueError, match=r"^precision bf16 must have torch 2.9 or newer on a CPU"):
        choose_backend(Precision.BF16)
