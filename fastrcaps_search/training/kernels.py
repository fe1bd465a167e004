"""Names of the kernels that train a network: chosen once per run, stored, used again.

A name says everything but device, threads and torch's version that decides about the bits of a
result on a processor. Its number grows with every change of those bits, so that a run continued by
another release is marked as not bit-equal.
"""

from __future__ import annotations

import torch

from fastrcaps_search.capsnet.cpu.products import Products, choose_products, is_exact_switched
from fastrcaps_search.definition.choices import Precision

CPU = "cpu-2"
EAGER = "eager-2"
GRAPH = "graph-1"


def choose_kernel(
    device: torch.device, *, capsules: bool, precision: Precision, stored: str | None = None
) -> str:
    """The stored name where this machine can do as it says, else the fastest here.

    Args:
        device: Where the network trains.
        capsules: Whether it is a CapsNet.
        precision: Arithmetic of the products.
        stored: Name stored when the run began.
    """
    if device.type != "cpu":
        return f"{GRAPH}-{precision}"
    family = CPU if capsules else EAGER
    if stored == f"{family}-{Products.MKL}" and precision is not Precision.BF16:
        return stored
    if stored == f"{family}-{Products.ONEDNN}" and is_exact_switched():
        return stored
    return f"{family}-{choose_products(precision)}"


def products_of(kernel: str) -> Products:
    """Who multiplies, by the name of a processor's kernel."""
    return Products(kernel.rpartition("-")[2])
