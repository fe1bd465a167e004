"""Losses of both networks, each a mean over the batch.

The formulas are those of Sabour's text; in both published programs the reconstruction counts more
(docs/differences.md of the repository).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

PRESENT_MARGIN = 0.9  # m+ of Sabour et al. 2017, equation 4
ABSENT_MARGIN = 0.1  # m- of the same
ABSENT_WEIGHT = 0.5  # lambda of the same


class Losses(NamedTuple):
    """Losses of one batch, 0-dim tensors on the network's device.

    Attributes:
        total: ``classification + reconstruction``, the one to differentiate.
        classification: Margin loss or cross-entropy, mean over the batch.
        reconstruction: Weighted squared error, summed over the image, mean over the batch; 0
            without a decoder.
        correct: Right classifications in the batch, int64.
    """

    total: Tensor
    classification: Tensor
    reconstruction: Tensor
    correct: Tensor


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


@torch.no_grad()
def count_correct(outputs: Tensor, labels: Tensor) -> Tensor:
    """How many rows of [B, classes] are largest at their label: 0-dim int64, no gradient."""
    return (outputs.argmax(1) == labels).sum()
