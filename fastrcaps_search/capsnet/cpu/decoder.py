"""The decoder and both losses, written out.

Letters: B batch, J classes, E capsule size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from fastrcaps_search.capsnet.cpu.weights import Buffers, Weights
from fastrcaps_search.capsnet.layers import ABSENT_MARGIN, ABSENT_WEIGHT, PRESENT_MARGIN
from fastrcaps_search.capsnet.routing import safe_length

if TYPE_CHECKING:
    from fastrcaps_search.capsnet.network import CapsNet

LAYERS = ("decoder.first", "decoder.second", "decoder.pixels")


class Losses:
    """Margin loss and reconstruction of class capsules, and their gradient.

    Args:
        network: Says what is computed; its own parameters are not read.
        weights: Its weights.
        buffers: Memory.
    """

    def __init__(self, network: CapsNet, weights: Weights, buffers: Buffers) -> None:
        decoder = network.decoder
        self._weight = network.reconstruction_weight
        self._reduced = decoder is not None and decoder.reduced
        # The largest first: the others then fit into its memory.
        names = LAYERS[::-1] if decoder is not None else ()
        self._layers = [_Layer(name, buffers, weights) for name in names][::-1]

    def __call__(
        self, capsules: Tensor, images: Tensor, labels: Tensor, *, sums: Tensor, gradient: Tensor
    ) -> None:
        """Add to the sums, update the decoder, write the gradient.

        Args:
            capsules: Class capsules [B, J, E].
            images: [B, 1, 28, 28].
            labels: int64 [B].
            sums: Loss, its two parts, right answers [4], of any floating type: added to.
            gradient: Of the capsules [B, J, E]: written.
        """
        B = capsules.shape[0]
        length = safe_length(capsules, dim=2, keepdim=True)
        present = torch.zeros_like(length).scatter_(1, labels.view(-1, 1, 1), 1.0)
        missed = F.relu(PRESENT_MARGIN - length).mul_(present)
        imagined = F.relu(length - ABSENT_MARGIN).mul_(1 - present)
        margin = torch.sum(missed * missed) + ABSENT_WEIGHT * torch.sum(imagined * imagined)
        slope = imagined.mul_(ABSENT_WEIGHT).sub_(missed).mul_(2 / B).div_(length)
        right = (length.view(B, -1).argmax(1) == labels).sum()
        error = self._reconstruct(capsules, images, labels, present, gradient)
        sums.add_(torch.stack([margin + error, margin, error, right]))
        gradient.addcmul_(slope, capsules)

    def _reconstruct(
        self, capsules: Tensor, images: Tensor, labels: Tensor, present: Tensor, gradient: Tensor
    ) -> Tensor:
        """Reconstruction loss summed over the batch; its gradient is written."""
        if not self._layers:
            return torch.sum(gradient.zero_())
        B, J, E = capsules.shape
        chosen = labels.view(-1, 1, 1).expand(-1, 1, E)
        x = capsules.gather(1, chosen) if self._reduced else capsules * present
        x = x.view(B, -1)
        first, second, last = self._layers
        one = first.forward(x).relu_()
        two = second.forward(one).relu_()
        pixels = last.forward(two).sigmoid_()
        difference = torch.sub(pixels, images.view(B, -1))
        error = self._weight * torch.sum(difference * difference)
        difference.mul_(2 * self._weight / B)
        back = last.backward(torch.ops.aten.sigmoid_backward(difference, pixels), two)
        back = second.backward(torch.ops.aten.threshold_backward(back, two, 0), one)
        back = first.backward(torch.ops.aten.threshold_backward(back, one, 0), x)
        if self._reduced:
            gradient.zero_().scatter_(1, chosen, back.view(B, 1, E))
        else:
            torch.mul(back.view(B, J, E), present, out=gradient)
        return error


class _Layer:
    """A linear layer, updated on the way back."""

    def __init__(self, name: str, buffers: Buffers, weights: Weights) -> None:
        names = f"{name}.weight", f"{name}.bias"
        self._weight, self._bias = map(weights.__getitem__, names)
        # One layer after the other is updated, from the same memory.
        (self._gradient, self._bias_gradient), self._update = weights.gradients(
            buffers, "layer gradients", *names
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, outputs] of x [B, inputs], before the activation."""
        return torch.addmm(self._bias, x, self._weight.t())

    def backward(self, gradient: Tensor, x: Tensor) -> Tensor:
        """Update from the gradient of the outputs; gradient of x."""
        below = torch.mm(gradient, self._weight)
        torch.mm(gradient.t(), x, out=self._gradient)
        torch.sum(gradient, 0, out=self._bias_gradient)
        self._update()
        return below
