"""Accuracy of a network on a split."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.products import Products, multiplying
from fastrcaps_search.capsnet.cpu.weights import Weights
from fastrcaps_search.capsnet.cpu.workspace import Workspace
from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.training.kernels import products_of
from fastrcaps_search.training.splits import Split

BATCH = {"cpu": 100, "cuda": 500}
"""Images at a time, by kind of device."""

Classify = Callable[[Tensor], Tensor]
"""Classes [B] of images [B, 1, 28, 28]."""


@torch.no_grad()
def accuracy(network: CapsNet | LeNet5, split: Split, *, kernel: str | None = None) -> float:
    """Fraction of the split that the network classifies right; the decoder is left out.

    Classes that tie, or are NaN, count as the first of them.

    Args:
        network: The network, on the split's device.
        split: The split.
        kernel: Name of the kernels that trained it; ``None`` for float32.
    """
    was_training = network.training
    network.eval()
    device = split.labels.device
    correct = torch.zeros((), dtype=torch.int64, device=device)
    classify = _classify(network, device, kernel)
    for images, labels in split.batches(BATCH[device.type]):
        correct += (classify(images) == labels).sum()
    network.train(was_training)
    return int(correct) / len(split)


def _classify(network: CapsNet | LeNet5, device: torch.device, kernel: str | None) -> Classify:
    if device.type != "cpu":
        return lambda images: network.classify(images).argmax(dim=1)
    products = Products.MKL if kernel is None else products_of(kernel)
    if isinstance(network, CapsNet):
        return CpuClassifier(network, products=products)
    # As in training: sums in another order could part a tie in another way.
    network.to(memory_format=torch.channels_last)

    def classify(images: Tensor) -> Tensor:
        with multiplying(products):
            return network.classify(images).argmax(dim=1)

    return classify


class CpuClassifier:
    """A CapsNet that only classifies, on a processor.

    Args:
        network: The network as it is now: later changes go unnoticed.
        products: Who multiplies.
    """

    def __init__(self, network: CapsNet, *, products: Products) -> None:
        self._network = network
        self._weights = Weights(network)
        self._buffers = Buffers(self._weights.values.dtype)
        self._products = products
        self._workspaces: dict[int, Workspace] = {}

    def __call__(self, images: Tensor) -> Tensor:
        """Classes [B] of images [B, 1, 28, 28]."""
        size = images.shape[0]
        workspace = self._workspaces.get(size)
        if workspace is None:
            workspace = self._workspaces[size] = Workspace(
                self._network,
                self._weights,
                self._buffers,
                batch=size,
                products=self._products,
            )
            workspace.prepare()
        capsules = workspace.forward(images)
        return (capsules * capsules).sum(2).argmax(dim=1)
