"""The training step: one optimiser update, with its sums left on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet

KERNEL = "eager-1"
"""Name of the kernels, stored with each run. Its number grows with every change of the bits that a
step gives, so that a run continued by another release is marked as not bit-equal."""


class TrainingStep:
    """Forward, backward and Adam on one batch.

    Args:
        network: The network, on its device.
    """

    def __init__(self, network: CapsNet | LeNet5) -> None:
        self.network = network
        self.optimiser = torch.optim.Adam(network.parameters(), lr=0.0, fused=True)
        device = next(network.parameters()).device
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)

    @property
    def names(self) -> dict[Tensor, str]:
        """Name of each learned parameter."""
        return {parameter: name for name, parameter in self.network.named_parameters()}

    def warm_up(self, size: int) -> None:
        """Run forward and backward once without an update, so that no clock sees set-up work."""
        device = self._sums.device
        images = torch.zeros(size, 1, 28, 28, device=device)
        labels = torch.zeros(size, dtype=torch.int64, device=device)
        self.network.loss(images, labels).total.backward()
        self.optimiser.zero_grad(set_to_none=True)

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update.

        Args:
            images: float32 [B, 1, 28, 28] in [0, 1].
            labels: int64 [B].
            rate: Learning rate.
        """
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
