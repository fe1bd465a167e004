"""The training step: one optimiser update, with its sums left on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.products import Products, multiplying
from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.training.checkpoint import load_optimiser, optimiser_state


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
        self.optimiser = torch.optim.Adam(network.parameters(), lr=0.0, fused=True)
        device = next(network.parameters()).device
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)

    @property
    def names(self) -> dict[Tensor, str]:
        """Name of each learned parameter."""
        return {parameter: name for name, parameter in self.network.named_parameters()}

    def warm_up(self, size: int) -> None:
        """Run forward and backward once without an update."""
        device = self._sums.device
        images = torch.zeros(size, 1, 28, 28, device=device)
        labels = torch.zeros(size, dtype=torch.int64, device=device)
        with multiplying(self._products):
            self.network.loss(images, labels).total.backward()
        self.optimiser.zero_grad(set_to_none=True)

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update; see :class:`TrainingStep`."""
        with multiplying(self._products):
            losses = self.network.loss(images, labels)
            losses.total.backward()
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        means = torch.stack([losses.total, losses.classification, losses.reconstruction])
        self._sums[:3] += means.detach() * labels.shape[0]
        self._sums[3] += losses.correct

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = self._sums.tolist()
        self._sums.zero_()
        return sums

    def publish(self) -> None:
        """Nothing to do: the network's own parameters are trained."""

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam; see :class:`TrainingStep`."""
        return optimiser_state(self.optimiser, self.names)

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states; see :class:`TrainingStep`."""
        self.network.load_state_dict(network)
        load_optimiser(self.optimiser, self.names, optimiser)
