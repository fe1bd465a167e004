"""Primary and class capsules as modules that own their weights.

Letters: B batch, I primary capsules.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fastrcaps_search.capsnet.convolution import STRIDE, stride_2_convolution
from fastrcaps_search.capsnet.fourier import fourier_convolution
from fastrcaps_search.capsnet.routing import route, squash
from fastrcaps_search.definition.choices import RoutingGradient

CLASSES = 10
PRIMARY_SIZE = 8  # Sabour et al. 2017, section 4
CLASS_SIZE = 16  # Sabour et al. 2017, section 4
KERNEL = 9  # both convolutions; Sabour et al. 2017, section 4
POSITIONS = 36  # 28x28 -> 20x20 (9x9) -> 6x6 (9x9, stride 2)
CLASS_WEIGHT_STD = 0.1  # standard deviation of the initial class-capsule weights


class PrimaryCapsules(nn.Module):
    """Capsules of ``types`` x 8D from a 9x9 convolution with stride 2, squashed.

    Args:
        in_channels: Channels of the feature map.
        types: Capsule types; channel ``type * 8 + dim`` holds one dimension of one type.
    """

    def __init__(self, in_channels: int, *, types: int) -> None:
        super().__init__()
        self.types = types
        self.convolution = nn.Conv2d(in_channels, types * PRIMARY_SIZE, KERNEL, STRIDE)

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, C, 20, 20] to capsules [B, types * 36, 8], index type * 36 + position."""
        s = stride_2_convolution(features, self.convolution.weight, self._bias)
        s = s.view(-1, self.types, PRIMARY_SIZE, POSITIONS)
        # Squash before the transposition: 36 neighbours in memory share each vector operation.
        return squash(s, dim=2).transpose(2, 3).reshape(-1, self.types * POSITIONS, PRIMARY_SIZE)

    def by_position(self, features: Tensor) -> Tensor:
        """The same from position-major features [4, 100, B, C] of ``features_by_position``."""
        s = fourier_convolution(features, self.convolution.weight)
        s = s + self._bias.view(-1, 1)
        capsules = squash(s.view(POSITIONS, self.types, PRIMARY_SIZE, -1), dim=2)
        # In memory [I, B, 8], the order that the votes' product reads.
        by_capsule = capsules.permute(1, 0, 3, 2).reshape(-1, features.shape[2], PRIMARY_SIZE)
        return by_capsule.transpose(0, 1)

    @property
    def _bias(self) -> Tensor:
        if self.convolution.bias is None:
            raise ValueError("the primary convolution must have a bias; build it with one")
        return self.convolution.bias


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
        return route(self.votes(capsules), self.bias, gradient=self.routing_gradient)
