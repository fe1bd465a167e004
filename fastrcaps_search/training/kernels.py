"""Names of the kernels that train a network: chosen once per run, stored, used again.

A name says everything but device, threads and torch's version that decides about the bits of a
result on a processor. Its number grows with every change of those bits, so that a run continued by
another release is marked as not bit-equal.
"""

from __future__ import annotations

import torch

from fastrcaps_search.capsnet.cpu.matmul import (
    MatmulBackend,
    choose_backend,
    is_exact_switched,
)
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.definition.networks import NETWORKS

GRAPH = "graph-1"


def choose_kernel(
    device: torch.device, *, network: str, precision: Precision, stored: str | None = None
) -> str:
    """The stored name where this machine can do as it says, else the fastest here.

    Args:
        device: Where the network trains.
        network: Which network.
        precision: Arithmetic of the products.
        stored: Name stored when the run began.
    """
    if device.type != "cpu":
        return f"{GRAPH}-{precision}"
    family = NETWORKS[network].kernel
    if stored == f"{family}-{MatmulBackend.MKL}" and precision is not Precision.BF16:
        return stored
    if stored == f"{family}-{MatmulBackend.ONEDNN}" and is_exact_switched():
        return stored
    return f"{family}-{choose_backend(precision)}"


def backend_of(kernel: str) -> MatmulBackend:
    """Who multiplies, by the name of a processor's kernel."""
    return MatmulBackend(kernel.rpartition("-")[2])


def precision_of(kernel: str) -> Precision:
    """Arithmetic of the products, by the name of a card's kernel."""
    return Precision(kernel.rpartition("-")[2])
