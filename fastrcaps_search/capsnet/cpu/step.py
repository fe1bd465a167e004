"""The training step of a CapsNet on a processor, written out from the parts beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import Adam
from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend
from fastrcaps_search.capsnet.cpu.program import BatchProgram
from fastrcaps_search.capsnet.cpu.weights import Weights
from fastrcaps_search.errors import CheckpointError

if TYPE_CHECKING:
    from fastrcaps_search.capsnet.network import CapsNet

MOST_SIZES = 2
"""Batch sizes that stay laid out: an epoch has one, and a last batch that is shorter."""


class CpuStep:
    """See :class:`fastrcaps_search.capsnet.trainable.TrainingStep`.

    Args:
        network: The network. Its parameters are those of the last ``publish``.
        backend: Who multiplies.
    """

    def __init__(self, network: CapsNet, *, backend: MatmulBackend) -> None:
        self.network = network
        self._backend = backend
        self._weights = Weights(network)
        self._adam = Adam(self._weights)
        self._buffers = Buffers(self._weights.values.dtype)
        self._sums = torch.zeros(4, dtype=torch.float64)
        self._programs: dict[int, BatchProgram] = {}
        # Of those that only classify: in memory of their own, so that no training step moves.
        self._classifying: dict[int, BatchProgram] = {}
        self._more_buffers = Buffers(self._weights.values.dtype)

    def warm_up(self, size: int) -> None:
        """Make the buffers of a batch size and touch them, unless that is done."""
        if size in self._programs:
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
        program = self._program(labels.shape[0])
        program.train(images, labels, sums=self._sums)

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = self._sums.tolist()
        self._sums.zero_()
        return sums

    def copy_to_module(self) -> None:
        """Bring the parameters of ``network`` up to date."""
        self._weights.copy_to_module()

    def classes(self, batches: Iterable[Tensor]) -> Tensor:
        """Classes [N] of batches of images, by the weights as they are now."""
        for program in self._classifying.values():
            program.prepare()
        return torch.cat([self._classes(images) for images in batches])

    def _classes(self, images: Tensor) -> Tensor:
        size = images.shape[0]
        if size not in self._classifying:
            self._classifying[size] = BatchProgram(
                self.network,
                self._weights,
                self._more_buffers,
                batch=size,
                backend=self._backend,
            )
            self._classifying[size].prepare()
        capsules = self._classifying[size].forward(images)
        return (capsules * capsules).sum(2).argmax(dim=1)

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam by parameter, in torch's layout."""
        return self._weights.optimiser_state()

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states."""
        self.network.load_state_dict(network)
        self._weights.copy_from_module()
        try:
            self._weights.load_optimiser(optimiser)
        except (KeyError, ValueError) as error:
            name = error.args[0]
            raise CheckpointError(
                f"the checkpoint must hold the optimiser's state of {name}"
            ) from error

    def _program(self, size: int) -> BatchProgram:
        found = self._programs.pop(size, None)
        if found is None:
            while len(self._programs) >= MOST_SIZES:
                self._programs.pop(next(iter(self._programs)))
            found = BatchProgram(
                self.network,
                self._weights,
                self._buffers,
                batch=size,
                backend=self._backend,
                adam=self._adam,
            )
        self._programs[size] = found  # the last one used comes last
        return found
