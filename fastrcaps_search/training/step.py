"""The training step: one optimiser update, with its sums left on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.products import Products, multiplying
from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.loss import Losses
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.training.optimiser import ParameterAdam


class TrainingStep(Protocol):
    """What trains one network, whatever computes it."""

    @property
    def network(self) -> CapsNet | LeNet5:
        """The network. Its parameters are those of the last ``publish``."""

    def warm_up(self, size: int) -> None:
        """Do the set-up work of a batch size, so that no clock sees it; changes no weight."""

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update.

        Args:
            images: float32 [B, 1, 28, 28] in [0, 1].
            labels: int64 [B].
            rate: Learning rate.
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


class EagerStep:
    """Forward, backward and Adam through torch's autograd, on any device.

    Args:
        network: The network, on its device.
        products: Who multiplies on a processor.
    """

    def __init__(self, network: CapsNet | LeNet5, *, products: Products = Products.MKL) -> None:
        self.network = network
        self._products = products
        self._adam = ParameterAdam(network)
        device = next(network.parameters()).device
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)
        self._warm: set[int] = set()

    def warm_up(self, size: int) -> None:
        """Run forward and backward once without an update, when the size is new."""
        if size in self._warm:
            return
        self._warm.add(size)
        device = self._sums.device
        images = torch.zeros(size, 1, 28, 28, device=device)
        labels = torch.zeros(size, dtype=torch.int64, device=device)
        self._losses_and_gradients(images, labels)

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update; see :class:`TrainingStep`."""
        losses, gradients = self._losses_and_gradients(images, labels)
        self._adam.update(gradients, rate=rate)
        with torch.no_grad():
            means = torch.stack([losses.total, losses.classification, losses.reconstruction])
            self._sums[:3].add_(means, alpha=labels.shape[0])
            self._sums[3].add_(losses.correct)

    def _losses_and_gradients(
        self, images: Tensor, labels: Tensor
    ) -> tuple[Losses, tuple[Tensor, ...]]:
        with multiplying(self._products):
            losses = self.network.loss(images, labels)
            parameters = list(self._adam.parameters.values())
            return losses, torch.autograd.grad(losses.total, parameters)

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = self._sums.tolist()
        self._sums.zero_()
        return sums

    def publish(self) -> None:
        """Nothing to do: the network's own parameters are trained."""

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam; see :class:`TrainingStep`."""
        return self._adam.state()

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states; see :class:`TrainingStep`."""
        self.network.load_state_dict(network)
        self._adam.load(optimiser)
