"""What every network can do, and what trains one: the words that training knows a network by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend
from fastrcaps_search.capsnet.loss import Losses, count_correct


class TrainableNetwork(nn.Module):
    """Base of a network of images [B, 1, 28, 28] in [0, 1]; ``definition.networks`` names it.

    Its ``forward`` gives scores [B, 10], or it says otherwise how it classifies; all else has a
    usual form.

    Attributes:
        rounds_itself: Whether its own layers round what a training step in bfloat16 rounds.
    """

    rounds_itself: ClassVar[bool] = False

    def classify(self, images: Tensor) -> Tensor:
        """Scores [B, 10], the largest of which names the class: what ``forward`` gives."""
        scores: Tensor = self.forward(images)
        return scores

    def loss(self, images: Tensor, labels: Tensor) -> Losses:
        """Losses for int64 labels [B]; the cross-entropy of the scores, unless it has others."""
        scores = self.classify(images)
        classification = F.cross_entropy(scores, labels)
        return Losses(
            total=classification,
            classification=classification,
            reconstruction=classification.new_zeros(()),
            correct=count_correct(scores, labels),
        )

    @property
    def reconstructs(self) -> bool:
        """Whether it can reconstruct images."""
        return False

    def reconstruct(self, images: Tensor) -> Tensor:
        """What its decoder makes of the images [B, 784] in [0, 1]."""
        raise NotImplementedError

    def fast_step(self, backend: MatmulBackend) -> TrainingStep | None:
        """A training step of its own on a processor; ``None`` for the one through autograd."""
        return None

    def routes_plainly(self) -> bool:
        """Whether, on its card, it routes by torch's products, which TF32 would round too."""
        return False


class TrainedNetwork(Protocol):
    """A network with its optimiser, whatever updates them."""

    @property
    def network(self) -> TrainableNetwork:
        """The network. Its parameters are those of the last ``copy_to_module``."""

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""

    def copy_to_module(self) -> None:
        """Bring the parameters of ``network`` up to date."""

    def classes(self, batches: Iterable[Tensor]) -> Tensor:
        """Classes int64 [N] of N images in batches float32 [B, 1, 28, 28], as of now.

        Classes that tie, or are NaN, count as the first of them.
        """

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam on the CPU: ``step``, ``exp_avg``, ``exp_avg_sq`` of each parameter."""

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states of network and optimiser.

        Raises:
            CheckpointError: A state of another network.
            RuntimeError: A network state of other names or shapes.
        """


class TrainingStep(TrainedNetwork, Protocol):
    """One optimiser update at a time, its sums left on the device."""

    def warm_up(self, size: int) -> None:
        """Do the set-up work of a batch size, so that no clock sees it; changes no weight."""

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update.

        Args:
            images: float32 [B, 1, 28, 28] in [0, 1].
            labels: int64 [B].
            rate: Learning rate.
        """
