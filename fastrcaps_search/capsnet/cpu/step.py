"""The training step of a CapsNet on a processor, written out from the parts beside it.

Letters: B batch, J classes, E capsule size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.capsules import Capsules
from fastrcaps_search.capsnet.cpu.convolutions import Convolutions, Im2colConv
from fastrcaps_search.capsnet.cpu.decoder import Losses
from fastrcaps_search.capsnet.cpu.fft import FftConv
from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend, use_backend
from fastrcaps_search.capsnet.cpu.weights import Buffers, Weights
from fastrcaps_search.capsnet.trainable import TrainingStep

if TYPE_CHECKING:
    from fastrcaps_search.capsnet.network import CapsNet

MOST_SIZES = 2
"""Batch sizes that stay laid out: an epoch has one, and a last batch that is shorter."""

# Images from which on frequencies beat patches, in a whole step on a Xeon with AMX (for oneDNN on
# a Zen 5). Against patches, in float32: 0.8x at 8, 1.1x to 1.2x at 16, 1.6x at 32 in the full
# network, 0.95x, 1.2x and 1.5x in the narrow one; in bf16 0.75x at 16 and 1.0x to 1.1x at 32.
_SMALLEST_FFT = {MatmulBackend.MKL: 12, MatmulBackend.ONEDNN: 16, MatmulBackend.BF16: 32}


def choose_convolutions(*, batch: int, backend: MatmulBackend) -> type[Convolutions]:
    """The fastest form, a function of these alone: a resumed run repeats it bit for bit."""
    return FftConv if batch >= _SMALLEST_FFT[backend] else Im2colConv


class BatchProgram:
    """What a batch size computes, laid out once: forward, and a whole training step.

    Args:
        network: Says what is computed; its own parameters are not read.
        weights: Weights.
        buffers: Memory, shared with other batch sizes of the same weights.
        batch: B.
        backend: Who multiplies in the convolutions; all else is float32.
        trains: Whether there is more to it than :meth:`forward`.
        convolutions: How the convolutions are computed; ``None`` for the fastest.
    """

    def __init__(
        self,
        network: CapsNet,
        weights: Weights,
        buffers: Buffers,
        *,
        batch: int,
        backend: MatmulBackend,
        trains: bool = True,
        convolutions: type[Convolutions] | None = None,
    ) -> None:
        self._backend = backend
        form = convolutions or choose_convolutions(batch=batch, backend=backend)
        self._convolutions = form(network, weights, buffers, batch=batch)
        self._capsules = Capsules(
            network, weights, buffers, batch=batch, position_first=form.position_first
        )
        if trains:
            self._losses = Losses(network, weights, buffers)
            self._gradient = torch.zeros_like(self._capsules.found)
            self._capsules.plan_backward(self._gradient)
            self._convolutions.plan_backward(self._capsules.gradient)

    def prepare(self) -> None:
        """Take notice of new weights; :meth:`forward` needs it."""
        self._convolutions.prepare()

    def forward(self, images: Tensor) -> Tensor:
        """Class capsules [B, J, E] of images [B, 1, 28, 28], valid until the next call."""
        with use_backend(self._backend):
            sums = self._convolutions.forward(images)
        return self._capsules.forward(sums)

    def train(self, images: Tensor, labels: Tensor, *, sums: Tensor) -> None:
        """One update of all weights.

        Args:
            images: [B, 1, 28, 28], contiguous.
            labels: int64 [B].
            sums: Loss, its two parts, right answers [4] are added to it, each over the batch.
        """
        self.prepare()
        capsules = self.forward(images)
        self._losses(capsules, images, labels, sums=sums, gradient=self._gradient)
        self._capsules.backward()
        with use_backend(self._backend):
            self._convolutions.backward()


class CpuStep(TrainingStep):
    """The step that :mod:`fastrcaps_search.capsnet.trainable` describes, for a CapsNet.

    Args:
        network: The network. Its parameters are those of the last ``copy_to_module``.
        backend: Who multiplies.
    """

    network: CapsNet

    def __init__(self, network: CapsNet, *, backend: MatmulBackend) -> None:
        super().__init__(network)
        self._weights = Weights(network)
        self._lay_out = partial(BatchProgram, network, self._weights, backend=backend)
        self._buffers = Buffers(self._weights.values.dtype)
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
        self._weights.begin_step(rate)
        self._program(labels.shape[0]).train(images, labels, sums=self._sums)

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
            self._classifying[size] = self._lay_out(self._more_buffers, batch=size, trains=False)
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
        self._weights.load_optimiser(optimiser)

    def _program(self, size: int) -> BatchProgram:
        found = self._programs.pop(size, None)
        if found is None:
            while len(self._programs) >= MOST_SIZES:
                self._programs.pop(next(iter(self._programs)))
            found = self._lay_out(self._buffers, batch=size)
        self._programs[size] = found  # the last one used comes last
        return found
