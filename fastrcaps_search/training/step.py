"""Training steps through torch's autograd, and the epochs that are made of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend, use_backend
from fastrcaps_search.capsnet.loss import Losses
from fastrcaps_search.capsnet.trainable import TrainableNetwork, TrainedNetwork, TrainingStep
from fastrcaps_search.training.optimiser import ParameterAdam
from fastrcaps_search.training.splits import EpochImages


class AutogradNetwork:
    """A network whose own parameters are trained; see ``capsnet.trainable.TrainedNetwork``.

    Args:
        network: The network, on its device.
        backend: Who multiplies on a processor.
    """

    def __init__(
        self, network: TrainableNetwork, *, backend: MatmulBackend = MatmulBackend.MKL
    ) -> None:
        self.network = network
        self.device = next(network.parameters()).device
        self._backend = backend
        self._adam = ParameterAdam(network)
        self._sums = torch.zeros(4, dtype=torch.float64, device=self.device)

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = self._sums.tolist()
        self._sums.zero_()
        return sums

    def copy_to_module(self) -> None:
        """Nothing to do: the network's own parameters are trained."""

    @torch.no_grad()
    def classes(self, batches: Iterable[Tensor]) -> Tensor:
        """Classes [N] of batches of images, in evaluation mode."""
        was_training = self.network.training
        self.network.eval()
        with use_backend(self._backend):
            found = [self.network.classify(images).argmax(dim=1) for images in batches]
        self.network.train(was_training)
        return torch.cat(found)

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam on the CPU."""
        return self._adam.state()

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states, copied into the tensors that are there."""
        self.network.load_state_dict(network)
        self._adam.load(optimiser)

    def _losses_and_gradients(
        self, images: Tensor, labels: Tensor
    ) -> tuple[Losses, tuple[Tensor, ...]]:
        with use_backend(self._backend):
            losses = self._losses(images, labels)
            parameters = list(self._adam.parameters.values())
            return losses, torch.autograd.grad(losses.total, parameters)

    def _losses(self, images: Tensor, labels: Tensor) -> Losses:
        return self.network.loss(images, labels)

    def _update(self, images: Tensor, labels: Tensor, *, rate: float | Tensor) -> None:
        losses, gradients = self._losses_and_gradients(images, labels)
        self._adam.update(gradients, rate=rate)
        with torch.no_grad():
            means = torch.stack([losses.total, losses.classification, losses.reconstruction])
            self._sums[:3].add_(means, alpha=labels.shape[0])
            self._sums[3].add_(losses.correct)


class EagerStep(AutogradNetwork):
    """Forward, backward and Adam, each started from Python, on any device."""

    def __init__(
        self, network: TrainableNetwork, *, backend: MatmulBackend = MatmulBackend.MKL
    ) -> None:
        super().__init__(network, backend=backend)
        self._warm: set[int] = set()

    def warm_up(self, size: int) -> None:
        """Run forward and backward once without an update, when the size is new."""
        if size in self._warm:
            return
        self._warm.add(size)
        images = torch.zeros(size, 1, 28, 28, device=self.device)
        labels = torch.zeros(size, dtype=torch.int64, device=self.device)
        self._losses_and_gradients(images, labels)

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update."""
        self._update(images, labels, rate=rate)


class Trainer(Protocol):
    """Epochs of one network."""

    @property
    def trained(self) -> TrainedNetwork:
        """The network with its optimiser."""

    def warm_up(self, sizes: Iterable[int]) -> None:
        """Do the set-up work of these batch sizes, so that no clock sees it."""

    def epoch(self, epoch: int, sizes: list[int], rates: list[float]) -> Iterator[int]:
        """Train ``epoch`` (from 1), one update per size and rate.

        Yields:
            Images trained since the last yield, whenever the caller may look after other things
            or leave the epoch for good.
        """


class StepTrainer:
    """One step after the other, each started from Python.

    Args:
        step: The step.
        images: Draws the batches.
    """

    def __init__(self, step: TrainingStep, images: EpochImages) -> None:
        self.trained = step
        self._images = images

    def warm_up(self, sizes: Iterable[int]) -> None:
        """Do the set-up work of these batch sizes."""
        for size in sizes:
            self.trained.warm_up(size)

    def epoch(self, epoch: int, sizes: list[int], rates: list[float]) -> Iterator[int]:
        """Train ``epoch``; yields after every step."""
        batches = self._images.epoch(epoch, sizes)
        for (images, labels), rate in zip(batches, rates, strict=True):
            self.trained(images, labels, rate=rate)
            yield labels.shape[0]
