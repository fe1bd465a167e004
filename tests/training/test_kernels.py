"""Names of kernels: chosen once, used again."""

from __future__ import annotations

import pytest
import torch

from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend, choose_backend
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.definition.networks import CAPSNET, NETWORKS
from fastrcaps_search.training import kernels
from fastrcaps_search.training.kernels import choose_kernel

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


def test_a_name_tells_who_multiplies() -> None:
    for precision in Precision:
        for network in NETWORKS.names:
            name = choose_kernel(CPU, network=network, precision=precision)
            family = NETWORKS[network].kernel
            assert name == f"{family}-{choose_backend(precision)}"
            assert family.startswith("eager-" if network == "lenet5" else "cpu-")


def test_a_card_has_one_kernel_for_each_precision() -> None:
    names = {choose_kernel(CUDA, network="capsnet", precision=p) for p in Precision}
    assert names == {f"{kernels.GRAPH}-{precision}" for precision in Precision}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("amd", [True, False])
def test_a_stored_name_is_used_again_where_this_machine_can(
    amd: bool, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = MatmulBackend.ONEDNN if amd and exact else MatmulBackend.MKL
    monkeypatch.setattr(kernels, "is_exact_switched", lambda: exact)
    monkeypatch.setattr(kernels, "choose_backend", lambda _: own)

    def chosen(stored: str | None) -> str:
        return choose_kernel(CPU, network="capsnet", precision=Precision.FP32, stored=stored)

    assert chosen(None) == f"{CAPSNET.kernel}-{own}"
    assert chosen(f"{CAPSNET.kernel}-mkl") == f"{CAPSNET.kernel}-mkl"
    assert chosen(f"{CAPSNET.kernel}-onednn") == f"{CAPSNET.kernel}-{'onednn' if exact else own}"
    # Of an older release.
    assert chosen("eager-1") == f"{CAPSNET.kernel}-{own}"
    assert chosen("cpu-1-mkl") == f"{CAPSNET.kernel}-{own}"


def test_a_float32_name_never_serves_bf16() -> None:
    stored = f"{CAPSNET.kernel}-mkl"
    name = choose_kernel(CPU, network="capsnet", precision=Precision.BF16, stored=stored)
    assert name == f"{CAPSNET.kernel}-bf16"
