"""Primary capsules, class capsules and decoder as modules that own their weights; their losses.

Letters: B batch, I primary capsules. The repository's docs/differences.md lists what differs
from the paper and from its authors' code, here and in LeNet5, shifts and schedules. The losses
are those of Sabour's text; in both published programs the reconstruction counts more.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastrcaps_search.capsnet.cuda.routing import can_route, route_capsules
from fastrcaps_search.capsnet.routing import route, squash
from fastrcaps_search.definition.choices import Decoder, RoutingGradient

CLASSES = 10
PRIMARY_SIZE = 8  # Sabour et al. 2017, section 4
CLASS_SIZE = 16  # Sabour et al. 2017, section 4
STRIDE = 2  # of the primary capsules' convolution; Sabour et al. 2017, section 4
KERNEL = 9  # both convolutions; Sabour et al. 2017, section 4
POSITIONS = 36  # 28x28 -> 20x20 (9x9) -> 6x6 (9x9, stride 2)
PIXELS = 28 * 28
PRESENT_MARGIN = 0.9  # m+ of Sabour et al. 2017, equation 4
ABSENT_MARGIN = 0.1  # m- of the same
ABSENT_WEIGHT = 0.5  # lambda of the same
CLASS_WEIGHT_STD = 0.1  # standard deviation of the initial class-capsule weights


class Convolution(nn.Conv2d):
    """Convolution that can train with factors in bfloat16, its weights staying as they are.

    Attributes:
        rounded: Whether factors and results of a training step are bfloat16. Evaluation never
            rounds them.
    """

    rounded = False

    def forward(self, x: Tensor, *, biased: bool = True) -> Tensor:
        """As ``nn.Conv2d``, the bias added if ``biased``; bfloat16 if ``rounded`` in training."""
        weight, bias = self.weight, self.bias if biased else None
        if self.rounded and self.training:
            x, weight = x.bfloat16(), weight.bfloat16()
            bias = None if bias is None else bias.bfloat16()
        return F.conv2d(x, weight, bias, self.stride)


class PrimaryCapsules(nn.Module):
    """Capsules of ``types`` x 8D: the squash of ``coupling * convolution + bias``.

    In Sabour's published code, and in that of FasTrCaps' authors, this layer is a capsule layer
    with one routing iteration: its logits are equal, so that each of the T types is coupled with
    1/T. Without that factor Adam's first steps blow the capsules up to length 1, where they say
    nothing of the image: with shared weights, or at batch 1, most networks never learn.

    The first weights are torch's times T, so that the capsules begin as long as without the factor
    (deviation 0.13 for T = 32, 0.06 for T = 8; 0.1 in Sabour's code). Adam moves them by its rate
    whatever their size, so smaller ones only begin later: torch's own reach 90 and 81 % (own and
    shared weights, means of three seeds) where these reach 92 and 87 % (4,000 images of MNIST,
    batch 128, two epochs).

    Args:
        in_channels: Channels of the feature map.
        types: T, capsule types; channel ``type * 8 + dim`` holds one dimension of one type.

    Attributes:
        coupling: 1/T, the coupling coefficient of one routing iteration with equal logits.
    """

    def __init__(self, in_channels: int, *, types: int) -> None:
        super().__init__()
        self.types = types
        self.coupling = 1.0 / types
        self.convolution = Convolution(in_channels, types * PRIMARY_SIZE, KERNEL, STRIDE)
        with torch.no_grad():
            self.convolution.weight.mul_(types)

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, C, 20, 20] to capsules [B, types * 36, 8], index type * 36 + position."""
        products = self.convolution(features, biased=False)
        assert self.convolution.bias is not None  # nn.Conv2d's may be None
        # From here on in the precision of the bias, whatever the convolution rounded.
        s = torch.add(self.convolution.bias.view(-1, 1, 1), products, alpha=self.coupling)
        s = s.view(-1, self.types, PRIMARY_SIZE, POSITIONS)
        # Squash before the transposition: 36 neighbours in memory share each vector operation.
        return squash(s, dim=2).transpose(2, 3).reshape(-1, self.types * POSITIONS, PRIMARY_SIZE)


class ClassCapsules(nn.Module):
    """Ten 16D capsules routed from the primary capsules.

    Args:
        types: Types of primary capsules, each at 36 positions.
        weight_sharing: One matrix per type and class at all positions (weight [types, 8, 160])
            instead of one per capsule and class (weight [types * 36, 8, 160]).
        routing_gradient: Which routing iterations the gradient flows through.
    """

    def __init__(
        self, types: int, *, weight_sharing: bool, routing_gradient: RoutingGradient
    ) -> None:
        super().__init__()
        matrices = types if weight_sharing else types * POSITIONS
        self.routing_gradient = routing_gradient
        self.weight = nn.Parameter(torch.empty(matrices, PRIMARY_SIZE, CLASSES * CLASS_SIZE))
        self.bias = nn.Parameter(torch.zeros(CLASSES, CLASS_SIZE))
        nn.init.normal_(self.weight, std=CLASS_WEIGHT_STD)

    def votes(self, capsules: Tensor) -> Tensor:
        """Votes [I, B, 10, 16] of primary capsules [B, I, 8] (equation 2, Sabour et al. 2017)."""
        B, I, _ = capsules.shape
        matrices = self.weight.shape[0]
        # A shared matrix meets all positions of its type in one product; it is never repeated.
        by_matrix = capsules.view(B, matrices, I // matrices, PRIMARY_SIZE).permute(1, 2, 0, 3)
        flat = by_matrix.reshape(matrices, -1, PRIMARY_SIZE)
        return torch.bmm(flat, self.weight).view(I, B, CLASSES, CLASS_SIZE)

    def forward(self, capsules: Tensor) -> Tensor:
        """Primary capsules [B, I, 8] to class capsules [B, 10, 16]."""
        gradient = self.routing_gradient
        if can_route(capsules):
            return route_capsules(capsules, self.weight, self.bias, gradient=gradient)
        return route(self.votes(capsules), self.bias, gradient=gradient)


class CapsuleDecoder(nn.Module):
    """Fully connected 512-1024-784 decoder (Sabour et al. 2017, figure 2).

    Args:
        decoder: ``FULL`` reads all capsules with every class but one set to zero; ``REDUCED``
            reads the chosen capsule alone (FasTrCaps 2020, section III-D).
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.reduced = decoder is Decoder.REDUCED
        inputs = CLASS_SIZE if self.reduced else CLASSES * CLASS_SIZE
        self.first = nn.Linear(inputs, 512)
        self.second = nn.Linear(512, 1024)
        self.pixels = nn.Linear(1024, PIXELS)

    def forward(self, capsules: Tensor, chosen: Tensor) -> Tensor:
        """Reconstruct each image from one of its capsules.

        Args:
            capsules: [B, classes, size].
            chosen: int64 [B], the class whose capsule is read.

        Returns:
            [B, 784] in (0, 1).
        """
        selected = select(capsules, chosen) if self.reduced else mask(capsules, chosen)
        hidden = F.relu(self.second(F.relu(self.first(selected))))
        return torch.sigmoid(self.pixels(hidden))


def select(capsules: Tensor, chosen: Tensor) -> Tensor:
    """The chosen capsule [B, size] of capsules [B, classes, size]."""
    index = chosen.view(-1, 1, 1).expand(-1, 1, capsules.shape[2])
    return capsules.gather(1, index).squeeze(1)


def mask(capsules: Tensor, chosen: Tensor) -> Tensor:
    """All capsules, the unchosen ones zero, flattened to [B, classes * size]."""
    keep = torch.zeros_like(capsules[:, :, :1]).scatter_(1, chosen.view(-1, 1, 1), 1.0)
    return (capsules * keep).flatten(1)


def margin_loss(lengths: Tensor, labels: Tensor) -> Tensor:
    """Equation 4 of Sabour et al. 2017, summed over classes, mean over the batch.

    Args:
        lengths: Capsule lengths [B, classes].
        labels: int64 [B].
    """
    present = torch.zeros_like(lengths).scatter_(1, labels.view(-1, 1), 1.0)
    missed = F.relu(PRESENT_MARGIN - lengths) ** 2
    imagined = F.relu(lengths - ABSENT_MARGIN) ** 2
    loss = present * missed + ABSENT_WEIGHT * (1 - present) * imagined
    return loss.sum() / lengths.shape[0]


def reconstruction_loss(reconstructions: Tensor, images: Tensor, *, weight: float) -> Tensor:
    """Weight x squared error summed over the image, mean over the batch.

    Args:
        reconstructions: [B, 784].
        images: [B, 1, 28, 28].
        weight: Of the error.
    """
    error = reconstructions - images.flatten(1)
    return weight * (error * error).sum() / images.shape[0]
