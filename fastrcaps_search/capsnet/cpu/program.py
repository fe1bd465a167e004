"""A CapsNet at one batch size: forward, and a whole training step.

Letters: B batch, J classes, E capsule size.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import Adam
from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.capsules import PrimaryCapsules
from fastrcaps_search.capsnet.cpu.decoder import Losses
from fastrcaps_search.capsnet.cpu.fft import FftConv
from fastrcaps_search.capsnet.cpu.im2col import Im2colConv
from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend, use_backend
from fastrcaps_search.capsnet.cpu.routing import Routing
from fastrcaps_search.capsnet.cpu.weights import Weights
from fastrcaps_search.capsnet.layers import POSITIONS

if TYPE_CHECKING:
    from fastrcaps_search.capsnet.network import CapsNet

# Images from which on frequencies beat patches, in a whole step on a Xeon with AMX (for oneDNN on
# a Zen 5). Against patches, in float32: 0.8x at 8, 1.1x to 1.2x at 16, 1.6x at 32 in the full
# network, 0.95x, 1.2x and 1.5x in the narrow one; in bf16 0.75x at 16 and 1.0x to 1.1x at 32.
_SMALLEST_FFT = {MatmulBackend.MKL: 12, MatmulBackend.ONEDNN: 16, MatmulBackend.BF16: 32}


class ConvAlgorithm(StrEnum):
    """How the primary convolution is computed; both give the same up to rounding."""

    IM2COL = "im2col"
    FFT = "fft"


def choose_algorithm(*, batch: int, backend: MatmulBackend) -> ConvAlgorithm:
    """The fastest algorithm, a function of these alone: a resumed run repeats it bit for bit."""
    return ConvAlgorithm.FFT if batch >= _SMALLEST_FFT[backend] else ConvAlgorithm.IM2COL


class BatchProgram:
    """What a batch size computes, laid out once.

    Args:
        network: Says what is computed; its own parameters are not read.
        weights: Weights.
        buffers: Memory, shared with other batch sizes of the same weights.
        batch: B.
        backend: Who multiplies in the convolutions; all else is float32.
        adam: Updates the weights; ``None`` for a program that only classifies.
        algorithm: How the primary convolution is computed; ``None`` for the fastest.
    """

    def __init__(
        self,
        network: CapsNet,
        weights: Weights,
        buffers: Buffers,
        *,
        batch: int,
        backend: MatmulBackend,
        adam: Adam | None = None,
        algorithm: ConvAlgorithm | None = None,
    ) -> None:
        self._backend = backend
        algorithm = algorithm or choose_algorithm(batch=batch, backend=backend)
        convolutions = FftConv if algorithm is ConvAlgorithm.FFT else Im2colConv
        self._convolutions: FftConv | Im2colConv = convolutions(
            buffers, weights, batch=batch, coupling=network.primary_capsules.coupling
        )
        self._routing = Routing(
            buffers,
            weights,
            batch=batch,
            capsules=network.types * POSITIONS,
            gradient=network.class_capsules.routing_gradient,
        )
        self._primary = PrimaryCapsules(
            buffers,
            self._routing,
            types=network.types,
            batch=batch,
            position_first=self._convolutions.position_first,
        )
        if adam is not None:
            self._losses = Losses(
                buffers,
                weights,
                decoder=network.decoder,
                weight=network.reconstruction_weight,
                adam=adam,
            )
            self._gradient = torch.zeros_like(self._routing.found)
            self._routing.plan_backward(self._gradient, adam)
            self._convolutions.plan_backward(self._primary.gradient, adam)

    def prepare(self) -> None:
        """Take notice of new weights; :meth:`forward` needs it."""
        self._convolutions.prepare()

    def forward(self, images: Tensor) -> Tensor:
        """Class capsules [B, J, E] of images [B, 1, 28, 28], valid until the next call."""
        with use_backend(self._backend):
            sums = self._convolutions.forward(images)
        self._primary.forward(sums)
        return self._routing.forward()

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
        self._routing.backward()
        self._primary.backward()
        with use_backend(self._backend):
            self._convolutions.backward()
