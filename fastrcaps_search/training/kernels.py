"""What trains a network, by the name of its kernels: chosen once per run, stored, used again.

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
from fastrcaps_search.capsnet.trainable import TrainableNetwork, TrainedNetwork, TrainingStep
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.definition.networks import NETWORKS
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.graph import GraphTrainer
from fastrcaps_search.training.splits import EpochImages, Split
from fastrcaps_search.training.step import EagerStep, StepTrainer, use_precision

GRAPH = "graph-1"

Trainer = StepTrainer | GraphTrainer
"""Epochs of one network; both have the same methods."""


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


def make_step(network: TrainableNetwork, *, kernel: str) -> TrainingStep:
    """The step that a kernel's name stands for."""
    if next(network.parameters()).device.type != "cpu":
        return EagerStep(network)
    backend = MatmulBackend(kernel.rpartition("-")[2])
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
        return GraphTrainer(network, images, precision=Precision(kernel.rpartition("-")[2]))
    return StepTrainer(make_step(network, kernel=kernel), images)


def classifier_of(
    network: TrainableNetwork, device: torch.device, *, definition: StudyDefinition, stored: str
) -> tuple[TrainedNetwork, str]:
    """What classifies as training does after each epoch, and the name of its kernels.

    Args:
        network: The network; it is moved to the device.
        device: Where its images are.
        definition: The study that it was trained in.
        stored: Name of the kernels that trained it, used where this machine can.
    """
    precision = definition.precision
    kernel = choose_kernel(device, network=definition.network, precision=precision, stored=stored)
    if device.type == "cuda":
        # The routing of an evaluation is never rounded.
        use_precision(network, precision, plain_routing=True)
    return make_step(network.to(device), kernel=kernel), kernel
