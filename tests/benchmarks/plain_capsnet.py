"""A CapsNet as public PyTorch code writes it: the peer that the product's step is timed against.

Sabour et al. 2017 with 8.2 M parameters: ``nn.Conv2d``, all votes in memory, routing from
autograd's own operations, ``DataLoader``, ``torch.optim.Adam`` as it comes. Everything is at its
default; denormal numbers are not flushed either.

Votes and routing are written in two ways, both found in several public repositories, with softmax
over the classes and the gradient through the last routing iteration alone (less work than the
product's default, which differentiates all three):

- ``broadcast``: votes by a broadcast ``torch.matmul`` of one small matrix per vote, as in
  XifengGuo/CapsNet-Pytorch and danielhavir/capsule-network, from which most public code descends.
  The agreement is danielhavir's (a second ``matmul``), which was the faster of the two. This is
  the default, since it is how public CapsNets are written.
- ``einsum``: votes and sums by ``torch.einsum``, in the form of labml's annotated implementation
  with the votes detached. Rarer, and 1.5 to 2 times faster from batch 16 on.

Tried and left out as slower: XifengGuo's agreement (a product and a sum) and the gradient through
every iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

ROUTINGS = 3
EVALUATION_BATCH = 100  # that of XifengGuo, and of the product


class Style(StrEnum):
    """How votes and routing are written."""

    EINSUM = "einsum"
    BROADCAST = "broadcast"


def squash(s: Tensor) -> Tensor:
    """Shrink vectors along the last axis to a length below 1."""
    norm: Tensor = torch.norm(s, dim=-1, keepdim=True)
    return norm**2 / (1 + norm**2) / (norm + 1e-8) * s


class EinsumCapsules(nn.Module):
    """Class capsules [B, 10, 16] of primary capsules [B, 1152, 8], by ``einsum``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(1152, 10, 8, 16))

    def forward(self, u: Tensor) -> Tensor:
        """Votes and routing."""
        u_hat = torch.einsum("ijnm,bin->bijm", self.weight, u)
        detached = u_hat.detach()
        b = u.new_zeros(u.shape[0], 1152, 10)
        for _ in range(ROUTINGS - 1):
            c = F.softmax(b, dim=2)
            v = squash(torch.einsum("bij,bijm->bjm", c, detached))
            b = b + torch.einsum("bjm,bijm->bij", v, detached)
        return squash(torch.einsum("bij,bijm->bjm", F.softmax(b, dim=2), u_hat))


class BroadcastCapsules(nn.Module):
    """Class capsules [B, 10, 16] of primary capsules [B, 1152, 8], by broadcast ``matmul``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(10, 1152, 16, 8))

    def forward(self, u: Tensor) -> Tensor:
        """Votes and routing."""
        u_hat = torch.matmul(self.weight, u[:, None, :, :, None]).squeeze(-1)
        detached = u_hat.detach()
        b = u.new_zeros(u.shape[0], 10, 1152, 1)
        for _ in range(ROUTINGS - 1):
            v = squash((F.softmax(b, dim=1) * detached).sum(dim=2))
            b = b + torch.matmul(detached, v.unsqueeze(-1))
        return squash((F.softmax(b, dim=1) * u_hat).sum(dim=2))


class PlainCapsNet(nn.Module):
    """The whole network; as most public ones it has no bias in the class capsules."""

    def __init__(self, style: Style) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 256, kernel_size=9)
        self.primary = nn.Conv2d(256, 32 * 8, kernel_size=9, stride=2)
        capsules = {Style.EINSUM: EinsumCapsules, Style.BROADCAST: BroadcastCapsules}
        self.class_capsules = capsules[style]()
        self.decoder = nn.Sequential(
            nn.Linear(160, 512),
            nn.ReLU(inplace=True),
            nn.Linear(512, 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, 784),
            nn.Sigmoid(),
        )

    def capsules(self, x: Tensor) -> Tensor:
        """Class capsules [B, 10, 16] of images [B, 1, 28, 28]."""
        x = self.primary(F.relu(self.conv1(x), inplace=True))
        v: Tensor = self.class_capsules(squash(x.view(x.size(0), 8, -1).transpose(1, 2)))
        return v

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Margin loss plus 0.0005 times the summed squared error, averaged over the batch."""
        target = F.one_hot(y, 10).float()
        v = self.capsules(x)
        length = v.norm(dim=-1)
        margin = (
            target * F.relu(0.9 - length) ** 2 + 0.5 * (1 - target) * F.relu(length - 0.1) ** 2
        )
        reconstruction = self.decoder((v * target[:, :, None]).view(x.size(0), -1))
        error = F.mse_loss(reconstruction, x.view(x.size(0), -1))
        return margin.sum(dim=1).mean() + 0.0005 * 784 * error


class PlainTraining:
    """Network, optimiser and loaders, with the loop that a user writes around them.

    Args:
        training: Float images [N, 1, 28, 28] in [0, 1], converted once before, and labels.
        test: The same for evaluation.
        style: How votes and routing are written.
    """

    def __init__(self, training: TensorDataset, test: TensorDataset, style: Style) -> None:
        self._training, self._test = training, test
        self.network = PlainCapsNet(style)
        self._optimiser = torch.optim.Adam(self.network.parameters())
        self._batches: dict[int, Iterator[list[Tensor]]] = {}

    def _endless(self, size: int) -> Iterator[list[Tensor]]:
        loader = DataLoader(self._training, batch_size=size, shuffle=True, drop_last=True)
        for _ in count():
            yield from loader

    def train(self, size: int, steps: int) -> None:
        """Fetch ``steps`` batches from the loader and train on them."""
        batches = self._batches.setdefault(size, self._endless(size))
        self.network.train()
        total = 0.0
        for _ in range(steps):
            images, labels = next(batches)
            self._optimiser.zero_grad()
            loss = self.network.loss(images, labels)
            loss.backward()
            self._optimiser.step()
            total += loss.item() * size

    @torch.no_grad()
    def evaluate(self, images: int) -> float:
        """Accuracy on the first test images; the decoder is left out, as in the product."""
        chosen = TensorDataset(*(tensor[:images] for tensor in self._test.tensors))
        self.network.eval()
        correct = 0
        for x, y in DataLoader(chosen, batch_size=EVALUATION_BATCH):
            lengths = self.network.capsules(x).norm(dim=-1)
            correct += int((lengths.argmax(dim=1) == y).sum().item())
        return correct / images
