"""A training step that reads nothing from the host.

Its batch, its rate and its place in the epoch are taken on the device, so that many steps can be
recorded once and replayed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fastrcaps_search.capsnet.loss import Losses
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.training.precision import rounding
from fastrcaps_search.training.splits import EpochImages
from fastrcaps_search.training.step import AutogradNetwork


class DeviceStep(AutogradNetwork):
    """Forward, backward and Adam over buffers whose addresses never change.

    Args:
        network: The network, on its device.
        images: Draws the batches, on the same device.
        precision: Arithmetic of the products; see ``precision.py``.
    """

    def __init__(
        self, network: TrainableNetwork, images: EpochImages, *, precision: Precision
    ) -> None:
        super().__init__(network)
        device = self.device
        self._images = images
        self._precision = precision
        self._rate = torch.zeros((), device=device)
        self._order, self._corners = images.draw(epoch=1)
        self._rates = torch.zeros(len(self._order), device=device)
        self._first_sample = torch.zeros(1, dtype=torch.int64, device=device)
        self._number = torch.zeros(1, dtype=torch.int64, device=device)
        self._ranges: dict[int, Tensor] = {}

    def __len__(self) -> int:
        """Images of an epoch."""
        return len(self._order)

    def begin(self, epoch: int, rates: list[float]) -> None:
        """Draw the order of ``epoch`` (from 1) and go to its first step.

        Args:
            epoch: Which.
            rates: Learning rate of each of its steps, at most one per image.
        """
        order, corners = self._images.draw(epoch)
        self._order.copy_(order)
        self._corners.copy_(corners)
        self._rates[: len(rates)] = torch.tensor(rates, device=self.device)
        self.rewind()

    def rewind(self) -> None:
        """Go to the first step of the epoch."""
        self._first_sample.zero_()
        self._number.zero_()

    def prepare(self, size: int) -> None:
        """Make what a step of ``size`` images reads beside the epoch."""
        if size not in self._ranges:
            self._ranges[size] = torch.arange(size, device=self.device)

    def __call__(self, size: int) -> None:
        """The next update of the epoch, with ``size`` images; ``prepare`` comes before."""
        places = self._first_sample + self._ranges[size]
        images, labels = self._images.batch(self._order[places], self._corners[places])
        self._rate.copy_(self._rates[self._number].squeeze(0))
        self._update(images, labels, rate=self._rate)
        self._first_sample.add_(size)
        self._number.add_(1)

    def _losses(self, images: Tensor, labels: Tensor) -> Losses:
        with rounding(self.network, self._precision):
            return super()._losses(images, labels)

    def saved(self) -> list[Tensor]:
        """Copies of everything that a step changes; for ``restore``."""
        return [tensor.detach().clone() for tensor in self._changing()]

    @torch.no_grad()
    def restore(self, saved: list[Tensor]) -> None:
        """Put back what ``saved`` gave."""
        for tensor, value in zip(self._changing(), saved, strict=True):
            tensor.copy_(value)

    def _changing(self) -> list[Tensor]:
        counters = [self._first_sample, self._number, self._sums, self._rate]
        return [*self._adam.changing(), *counters]
