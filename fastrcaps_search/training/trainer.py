"""The fastest step and trainer for a network, on the device where it is."""

from __future__ import annotations

import torch

from fastrcaps_search.capsnet.trainable import TrainableNetwork, TrainingStep
from fastrcaps_search.training.graph import GraphTrainer
from fastrcaps_search.training.kernels import backend_of, precision_of
from fastrcaps_search.training.splits import EpochImages, Split
from fastrcaps_search.training.step import EagerStep, StepTrainer, Trainer


def make_step(network: TrainableNetwork, *, kernel: str) -> TrainingStep:
    """The step that a kernel's name stands for."""
    if next(network.parameters()).device.type != "cpu":
        return EagerStep(network)
    backend = backend_of(kernel)
    own = network.fast_step(backend)
    if own is not None:
        return own
    # Pooling and ReLU are faster so: 1.0x to 1.2x a step (LeNet5, one thread of a Xeon).
    return EagerStep(network.to(memory_format=torch.channels_last), backend=backend)


def make_trainer(
    network: TrainableNetwork, split: Split, *, seed: int, shifts: bool, kernel: str
) -> Trainer:
    """The trainer that a kernel's name stands for.

    Args:
        network: The network.
        split: Training split, on the same device.
        seed: Seed of the order and the shifts.
        shifts: Whether images are shifted.
        kernel: Name of the kernels.
    """
    images = EpochImages(split, seed=seed, shifts=shifts)
    if images.device.type == "cuda":
        return GraphTrainer(network, images, precision=precision_of(kernel))
    return StepTrainer(make_step(network, kernel=kernel), images)
