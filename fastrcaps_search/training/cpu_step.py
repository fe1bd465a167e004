"""The training step of a CapsNet on a processor, written out (``capsnet.cpu``)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import Adam
from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.products import Products
from fastrcaps_search.capsnet.cpu.weights import Weights
from fastrcaps_search.capsnet.cpu.workspace import Workspace
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.errors import CheckpointError

MOST_SIZES = 2
"""Batch sizes that stay laid out: an epoch has one, and a last batch that is shorter."""


class CpuStep:
    """See :class:`fastrcaps_search.training.step.TrainingStep`.

    Args:
        network: The network. Its parameters are those of the last ``publish``.
        products: Who multiplies.
    """

    def __init__(self, network: CapsNet, *, products: Products) -> None:
        self.network = network
        self._products = products
        self._weights = Weights(network)
        self._adam = Adam(self._weights)
        self._buffers = Buffers(self._weights.values.dtype)
        self._sums = torch.zeros(4, dtype=torch.float64)
        self._workspaces: dict[int, Workspace] = {}

    def warm_up(self, size: int) -> None:
        """Make the buffers of a batch size and touch them, unless that is done."""
        if size in self._workspaces:
            return
        weights = self._weights
        kept = [weights.values, weights.exp_avg, weights.exp_avg_sq, weights.step, self._sums]
        before = [tensor.clone() for tensor in kept]
        images = torch.zeros(size, 1, 28, 28, dtype=weights.values.dtype)
        self(images, torch.zeros(size, dtype=torch.int64), rate=0.0)
        for tensor, value in zip(kept, before, strict=True):
            tensor.copy_(value)

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update."""
        self._adam.begin(rate)
        workspace = self._workspace(labels.shape[0])
        workspace.train(images, labels, sums=self._sums)

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = self._sums.tolist()
        self._sums.zero_()
        return sums

    def publish(self) -> None:
        """Bring the parameters of ``network`` up to date."""
        self._weights.publish()

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam by parameter, in torch's layout."""
        return self._weights.optimiser_state()

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states."""
        self.network.load_state_dict(network)
        self._weights.read()
        try:
            self._weights.load_optimiser(optimiser)
        except (KeyError, ValueError) as error:
            name = error.args[0]
            raise CheckpointError(
                f"the checkpoint must hold the optimiser's state of {name}"
            ) from error

    def _workspace(self, size: int) -> Workspace:
        found = self._workspaces.pop(size, None)
        if found is None:
            while len(self._workspaces) >= MOST_SIZES:
                self._workspaces.pop(next(iter(self._workspaces)))
            found = Workspace(
                self.network,
                self._weights,
                self._buffers,
                batch=size,
                products=self._products,
                adam=self._adam,
            )
        self._workspaces[size] = found  # the last one used comes last
        return found
