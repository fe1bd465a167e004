"""LeNet5, the baseline (after LeCun et al. 1998, with ReLU and max-pooling)."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from fastrcaps_search.capsnet.trainable import TrainableNetwork


class LeNet5(TrainableNetwork):
    """6-16-120-84-10 with 5x5 convolutions on images zero-padded to 32x32."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(1, 6, 5)
        self.convolution2 = nn.Conv2d(6, 16, 5)
        self.linear1 = nn.Linear(16 * 5 * 5, 120)
        self.linear2 = nn.Linear(120, 84)
        self.linear3 = nn.Linear(84, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [B, 10] of images [B, 1, 28, 28]."""
        padded = F.pad(images, (2, 2, 2, 2))
        first = F.max_pool2d(F.relu(self.convolution1(padded)), 2)
        second = F.max_pool2d(F.relu(self.convolution2(first)), 2)
        hidden = F.relu(self.linear2(F.relu(self.linear1(second.flatten(1)))))
        return cast(Tensor, self.linear3(hidden))
