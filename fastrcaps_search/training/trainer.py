"""Epochs of one network: whatever draws the batches, makes the steps and adds up the losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.training.cpu_step import CpuStep
from fastrcaps_search.training.graph import GraphTrainer
from fastrcaps_search.training.kernels import choose_kernel, products_of
from fastrcaps_search.training.splits import EpochImages, Split
from fastrcaps_search.training.step import EagerStep, TrainingStep


class Trainer(Protocol):
    """What trains epochs of one network.

    Attributes:
        network: The network. Its parameters are those of the last ``publish``.
    """

    network: CapsNet | LeNet5

    def warm_up(self, sizes: Iterable[int]) -> None:
        """Do the set-up work of these batch sizes, so that no clock sees it."""

    def epoch(self, epoch: int, sizes: list[int], rates: list[float]) -> Iterator[int]:
        """Train ``epoch`` (from 1), one update per size and rate.

        Yields:
            Images trained since the last yield, whenever the caller may look after other things
            or leave the epoch for good.
        """

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""

    def publish(self) -> None:
        """Bring the parameters of ``network`` up to date."""

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam on the CPU: ``step``, ``exp_avg``, ``exp_avg_sq`` of each parameter."""

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states of network and optimiser.

        Raises:
            CheckpointError: A state of another network.
            RuntimeError: A network state of other names or shapes.
        """


class StepTrainer:
    """One step at a time, each started from Python.

    Args:
        step: The step.
        images: Draws the batches.
    """

    def __init__(self, step: TrainingStep, images: EpochImages) -> None:
        self.network = step.network
        self._step = step
        self._images = images
        self.take_sums = step.take_sums
        self.publish = step.publish
        self.optimiser_state = step.optimiser_state
        self.load = step.load

    def warm_up(self, sizes: Iterable[int]) -> None:
        """Do the set-up work of these batch sizes; see :class:`Trainer`."""
        for size in sizes:
            self._step.warm_up(size)

    def epoch(self, epoch: int, sizes: list[int], rates: list[float]) -> Iterator[int]:
        """Train ``epoch``; yields after every step."""
        batches = self._images.epoch(epoch, sizes)
        for (images, labels), rate in zip(batches, rates, strict=True):
            self._step(images, labels, rate=rate)
            yield labels.shape[0]


def make_step(
    network: CapsNet | LeNet5, *, precision: Precision, kernel: str | None = None
) -> TrainingStep:
    """The fastest step for the network, on the device where it is.

    Args:
        network: The network.
        precision: Arithmetic of the products.
        kernel: Name of the kernels; ``None`` to choose.
    """
    device = next(network.parameters()).device
    kernel = kernel or choose_kernel(
        device, capsules=isinstance(network, CapsNet), precision=precision
    )
    if device.type != "cpu":
        return EagerStep(network)
    products = products_of(kernel)
    if isinstance(network, CapsNet):
        return CpuStep(network, products=products)
    # Pooling and ReLU are faster so: 1.0x to 1.2x a step (LeNet5, one thread of a Xeon).
    return EagerStep(network.to(memory_format=torch.channels_last), products=products)


def make_trainer(
    network: CapsNet | LeNet5,
    split: Split,
    *,
    seed: int,
    shifts: bool,
    precision: Precision,
    kernel: str | None = None,
) -> Trainer:
    """The fastest trainer for the network, on the device where it and the split are.

    Args:
        network: The network.
        split: Training split.
        seed: Seed of the order and the shifts.
        shifts: Whether images are shifted.
        precision: Arithmetic of the products.
        kernel: Name of the kernels; ``None`` to choose.
    """
    images = EpochImages(split, seed=seed, shifts=shifts)
    if images.device.type == "cuda":
        return GraphTrainer(network, images, precision=precision)
    return StepTrainer(make_step(network, precision=precision, kernel=kernel), images)
