"""What every network can do, and what trains one: the words that training knows a network by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend


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


@torch.no_grad()
def count_correct(outputs: Tensor, labels: Tensor) -> Tensor:
    """How many rows of [B, classes] are largest at their label: 0-dim int64, no gradient."""
    return (outputs.argmax(1) == labels).sum()


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


class TrainedNetwork(ABC):
    """A network with its optimiser, whatever updates them.

    Args:
        network: The network, on its device.

    Attributes:
        network: Its parameters are those of the last :meth:`copy_to_module`.
    """

    def __init__(self, network: TrainableNetwork) -> None:
        self.network = network
        self.device = next(network.parameters()).device
        self._sums = torch.zeros(4, dtype=torch.float64, device=self.device)

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = self._sums.tolist()
        self._sums.zero_()
        return sums

    def sums(self) -> Tensor:
        """What :meth:`take_sums` would give: a copy on the CPU, float64 [4]."""
        return self._sums.cpu().clone()

    def load_sums(self, sums: Tensor) -> None:
        """Go on summing from what :meth:`sums` gave."""
        self._sums.copy_(sums)

    @abstractmethod
    def copy_to_module(self) -> None:
        """Bring the parameters of ``network`` up to date."""

    @abstractmethod
    def classes(self, batches: Iterable[Tensor]) -> Tensor:
        """Classes int64 [N] of N images in batches float32 [B, 1, 28, 28], as of now.

        Classes that tie, or are NaN, count as the first of them.
        """

    @abstractmethod
    def optimiser_state(self) -> dict[str, Tensor]:
        """Copies of Adam's state on the CPU, in torch's layout.

        ``step.<name>``, ``exp_avg.<name>`` and ``exp_avg_sq.<name>`` of each parameter.
        """

    @abstractmethod
    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states of this very network and its optimiser."""


class TrainingStep(TrainedNetwork):
    """One optimiser update at a time, its sums left on the device."""

    @abstractmethod
    def warm_up(self, size: int) -> None:
        """Do the set-up work of a batch size, so that no clock sees it; changes no weight."""

    @abstractmethod
    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update.

        Args:
            images: float32 [B, 1, 28, 28] in [0, 1].
            labels: int64 [B].
            rate: Learning rate.
        """


def fused_adam(
    parameters: list[Tensor],
    gradients: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    steps: list[Tensor],
    *,
    rate: float | Tensor,
) -> None:
    """One update of Adam (Kingma and Ba 2015) in place, over any tensors, with torch's defaults.

    It is what ``torch.optim.Adam(fused=True)`` calls, without its set-up, which takes longer than
    a small network to train (LeNet5, batch 1, one thread of a Xeon: 0.3 ms of 1.6 ms).

    The four tensors of a parameter must share their memory order, which is all that it looks at.

    Args:
        parameters: What to update; no gradient may be recorded.
        gradients: Of each.
        exp_avgs: Running mean of the gradient of each.
        exp_avg_sqs: Running mean of its square.
        steps: 0-dim float32, the number of this update, counted before.
        rate: Learning rate; a tensor on a card is not read back.
    """
    torch._fused_adam_(
        parameters,
        gradients,
        exp_avgs,
        exp_avg_sqs,
        [],
        steps,
        lr=rate,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.0,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )
