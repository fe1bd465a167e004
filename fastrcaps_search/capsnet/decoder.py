"""Image reconstruction from the capsule of one class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastrcaps_search.definition.choices import Decoder

PIXELS = 28 * 28


class CapsuleDecoder(nn.Module):
    """Fully connected 512-1024-784 decoder (Sabour et al. 2017, figure 2).

    Args:
        decoder: ``FULL`` reads all capsules with every class but one set to zero; ``REDUCED``
            reads the chosen capsule alone (FasTrCaps 2020, section III-D).
        classes: Number of class capsules.
        capsule_size: Dimensions of each.
    """

    def __init__(self, decoder: Decoder, *, classes: int, capsule_size: int) -> None:
        super().__init__()
        self.reduced = decoder is Decoder.REDUCED
        inputs = capsule_size if self.reduced else classes * capsule_size
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
