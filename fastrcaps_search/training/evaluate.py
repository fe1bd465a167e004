"""Accuracy of a network on a split."""

from __future__ import annotations

from torch import Tensor

from fastrcaps_search.capsnet.trainable import TrainableNetwork, TrainedNetwork
from fastrcaps_search.training.splits import Split
from fastrcaps_search.training.trainer import make_step

BATCH = {"cpu": 100, "cuda": 500}
"""Images at a time, by kind of device."""


def hits(trained: TrainedNetwork, split: Split) -> Tensor:
    """Which images of a split the network, as it is now, classifies right: bool [N]."""
    return classes(trained, split) == split.labels


def classes(trained: TrainedNetwork, split: Split) -> Tensor:
    """Classes int64 [N] of the images of a split, which is on the network's device."""
    batches = split.batches(BATCH[split.labels.device.type])
    return trained.classes(images for images, _ in batches)


def accuracy(network: TrainableNetwork, split: Split, *, kernel: str) -> float:
    """Fraction of a split that a network classifies right, the decoder left out.

    Args:
        network: The network, on the split's device.
        split: The split.
        kernel: Name of the kernels that train it.
    """
    return int(hits(make_step(network, kernel=kernel), split).sum()) / len(split)
