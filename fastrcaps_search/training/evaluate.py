"""Accuracy of a network on a split."""

from __future__ import annotations

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


def accuracy(network: CapsNet | LeNet5, split: Split, *, kernel: str | None = None) -> float:
    """Fraction of the split that the network classifies right; see :class:`Evaluation`."""
    return Evaluation(network, kernel=kernel).accuracy(split)


class Evaluation:
    """Classifies with a network, the decoder left out, and keeps its memory for the next time.

    Args:
        network: The network, on its device.
        kernel: Name of the kernels that train it; ``None`` for float32.
    """

    def __init__(self, network: CapsNet | LeNet5, *, kernel: str | None = None) -> None:
        self._network = network
        self._device = next(network.parameters()).device
        self._products = Products.MKL
        self._classifier: CpuClassifier | None = None
        if self._device.type != "cpu":
            return
        if kernel is not None:
            self._products = products_of(kernel)
        if isinstance(network, CapsNet):
            self._classifier = CpuClassifier(network, products=self._products)
        else:
            # As in training: sums in another order could part a tie in another way.
            network.to(memory_format=torch.channels_last)

    def accuracy(self, split: Split) -> float:
        """Fraction of the split that the network, as it is now, classifies right.

        Args:
            split: On the network's device.
        """
        return int(self.hits(split).sum()) / len(split)

    def hits(self, split: Split) -> Tensor:
        """Which images of the split are classified right: bool [N], on the network's device."""
        return self.classes(split) == split.labels

    @torch.no_grad()
    def classes(self, split: Split) -> Tensor:
        """Classes int64 [N] of the split's images, by the network as it is now.

        Classes that tie, or are NaN, count as the first of them.

        Args:
            split: On the network's device.
        """
        was_training = self._network.training
        self._network.eval()
        if self._classifier is not None:
            self._classifier.read()
        batches = split.batches(BATCH[self._device.type])
        found = [self._classify(images) for images, _ in batches]
        self._network.train(was_training)
        return torch.cat(found)

    def _classify(self, images: Tensor) -> Tensor:
        if self._classifier is not None:
            return self._classifier(images)
        with multiplying(self._products):
            return self._network.classify(images).argmax(dim=1)


class CpuClassifier:
    """A CapsNet that only classifies, on a processor.

    Args:
        network: The network.
        products: Who multiplies.
    """

    def __init__(self, network: CapsNet, *, products: Products) -> None:
        self._network = network
        self._weights = Weights(network)
        self._buffers = Buffers(self._weights.values.dtype)
        self._products = products
        self._workspaces: dict[int, Workspace] = {}

    def read(self) -> None:
        """Take the network's parameters as they are now."""
        self._weights.read()
        for workspace in self._workspaces.values():
            workspace.prepare()

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
