"""What both ways to compute the two convolutions share.

Letters: B batch, C channels, O output channels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import Adam
from fastrcaps_search.capsnet.cpu.buffers import Buffers
from fastrcaps_search.capsnet.cpu.weights import PRIMARY, Weights


class Convolutions:
    """Images to the sums before squash, and back.

    Args:
        buffers: Memory.
        weights: The network's weights.
        batch: B.
        coupling: Factor of the primary convolution, but not of its bias.
    """

    def __init__(self, buffers: Buffers, weights: Weights, *, batch: int, coupling: float) -> None:
        _, C, O = weights[PRIMARY].shape
        self._buffers = buffers
        self._weights = weights
        self._coupling = coupling
        self._sizes = batch, C, O
        self._filters = weights["convolution.weight"].view(C, 81).t()
        self._bias = weights["convolution.bias"]
        self._kernel_bias = weights["primary_capsules.convolution.bias"]

    def prepare(self) -> None:
        """Take notice of new weights; :meth:`forward` needs it."""

    def _plan_biases(self, adam: Adam) -> None:
        self._bias_gradient = self._buffers("kernel bias gradient", self._sizes[2])
        start = self._weights.start("primary_capsules.convolution.bias")
        self._update_bias = adam.of(start, self._bias_gradient)
        self._first = FirstGradient(self._buffers, self._weights, adam)


class FirstGradient:
    """Gradient of the first convolution, summed up in parts.

    Args:
        buffers: Memory.
        weights: The network's weights.
        adam: Updates.
    """

    def __init__(self, buffers: Buffers, weights: Weights, adam: Adam) -> None:
        channels = weights["convolution.bias"].shape[0]
        span = weights.span("convolution.weight", "convolution.bias")
        self._flat = buffers("first gradients", span.stop - span.start)
        self._filters = self._flat[: channels * 81].view(channels, 81)
        place = weights.start("convolution.bias") - span.start
        self._bias = self._flat[place : place + channels]
        self.update = adam.of(span.start, self._flat)

    def begin(self) -> None:
        """Begin a sum."""
        self._flat.zero_()

    def add(self, gradient: Tensor, columns: Tensor) -> None:
        """Add a part.

        Args:
            gradient: Of the features before ReLU [rows, C].
            columns: The image patch that each of them saw [rows, 81].
        """
        self._filters.addmm_(gradient.t(), columns)
        self._bias.add_(gradient.sum(0))


def before_relu(gradient: Tensor, features: Tensor, *, out: Tensor) -> None:
    """Write the gradient, zero where a feature after ReLU is zero; in place torch would copy."""
    torch.ops.aten.threshold_backward.grad_input(gradient, features, 0, grad_input=out)
