"""Names of kernels: chosen once, used again."""

from __future__ import annotations

import pytest
import torch

from fastrcaps_search.capsnet.cpu.products import Products, choose_products
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.training import kernels
from fastrcaps_search.training.kernels import choose_kernel, products_of

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


def test_a_name_tells_who_multiplies() -> None:
    for precision in Precision:
        for capsules in (True, False):
            name = choose_kernel(CPU, capsules=capsules, precision=precision)
            assert products_of(name) is choose_products(precision)
            assert name.startswith("cpu-" if capsules else "eager-")


def test_a_card_has_one_kernel_for_each_precision() -> None:
    names = {choose_kernel(CUDA, capsules=True, precision=p) for p in Precision}
    assert names == {f"{kernels.GRAPH}-{precision}" for precision in Precision}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("amd", [True, False])
def test_a_stored_name_is_used_again_where_this_machine_can(
    amd: bool, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Products.ONEDNN if amd and exact else Products.MKL
    monkeypatch.setattr(kernels, "is_exact_switched", lambda: exact)
    monkeypatch.setattr(kernels, "choose_products", lambda _: own)

    def chosen(stored: str | None) -> str:
        return choose_kernel(CPU, capsules=True, precision=Precision.FP32, stored=stored)

    assert chosen(None) == f"{kernels.CPU}-{own}"
    assert chosen(f"{kernels.CPU}-mkl") == f"{kernels.CPU}-mkl"
    assert chosen(f"{kernels.CPU}-onednn") == f"{kernels.CPU}-{'onednn' if exact else own}"
    # Of an older release.
    assert chosen("eager-1") == f"{kernels.CPU}-{own}"
    assert chosen("cpu-1-mkl") == f"{kernels.CPU}-{own}"


def test_a_float32_name_never_serves_bf16() -> None:
    stored = f"{kernels.CPU}-mkl"
    name = choose_kernel(CPU, capsules=True, precision=Precision.BF16, stored=stored)
    assert name == f"{kernels.CPU}-bf16"
