"""The training step: one optimiser update, with its sums left on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import BETAS, EPSILON
from fastrcaps_search.capsnet.cpu.products import Products, multiplying
from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.loss import Losses
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.errors import CheckpointError


class TrainingStep(Protocol):
    """What trains one network, whatever computes it."""

    @property
    def network(self) -> CapsNet | LeNet5:
        """The network. Its parameters are those of the last ``publish``."""

    def warm_up(self, size: int) -> None:
        """Do the set-up work of a batch size, so that no clock sees it; changes no weight."""

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update.

        Args:
            images: float32 [B, 1, 28, 28] in [0, 1].
            labels: int64 [B].
            rate: Learning rate.
        """

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""

    def publish(self) -> None:
        """Bring the parameters of ``network`` up to date."""

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam on the CPU: ``step``, ``exp_avg``, ``exp_avg_sq`` of each parameter."""

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states of network and optimiser.

        Raises:
            CheckpointError: A state of another network.
            RuntimeError: A network state of other names or shapes.
        """


class EagerStep:
    """Forward, backward and Adam through torch's autograd, on any device.

    Args:
        network: The network, on its device.
        products: Who multiplies on a processor.
    """

    def __init__(self, network: CapsNet | LeNet5, *, products: Products = Products.MKL) -> None:
        self.network = network
        self._products = products
        self._names = [name for name, _ in network.named_parameters()]
        self._parameters: list[Tensor] = list(network.parameters())
        device = self._parameters[0].device
        self._exp_avgs = [torch.zeros_like(p) for p in self._parameters]
        self._exp_avg_sqs = [torch.zeros_like(p) for p in self._parameters]
        self._steps = [torch.zeros((), device=device) for _ in self._parameters]
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)
        self._warm: set[int] = set()

    def warm_up(self, size: int) -> None:
        """Run forward and backward once without an update, when the size is new."""
        if size in self._warm:
            return
        self._warm.add(size)
        device = self._sums.device
        images = torch.zeros(size, 1, 28, 28, device=device)
        labels = torch.zeros(size, dtype=torch.int64, device=device)
        self._losses_and_gradients(images, labels)

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        """One update; see :class:`TrainingStep`."""
        losses, gradients = self._losses_and_gradients(images, labels)
        with torch.no_grad():
            torch._foreach_add_(self._steps, 1)
            # What torch.optim.Adam(fused=True) calls. Its own set-up takes longer than a small
            # network's update (LeNet5, batch 1, one thread of a Xeon: 0.3 ms of 1.6 ms).
            torch._fused_adam_(
                self._parameters,
                gradients,
                self._exp_avgs,
                self._exp_avg_sqs,
                [],
                self._steps,
                lr=rate,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=0.0,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )
            means = torch.stack([losses.total, losses.classification, losses.reconstruction])
            self._sums[:3].add_(means, alpha=labels.shape[0])
            self._sums[3].add_(losses.correct)

    def _losses_and_gradients(self, images: Tensor, labels: Tensor) -> tuple[Losses, list[Tensor]]:
        with multiplying(self._products):
            losses = self.network.loss(images, labels)
            gradients = torch.autograd.grad(losses.total, self._parameters)
        pairs = zip(gradients, self._parameters, strict=True)
        return losses, [_laid_out(gradient, parameter) for gradient, parameter in pairs]

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = self._sums.tolist()
        self._sums.zero_()
        return sums

    def publish(self) -> None:
        """Nothing to do: the network's own parameters are trained."""

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam; see :class:`TrainingStep`."""
        return {
            f"{quantity}.{name}": tensor.contiguous().cpu().clone()
            for quantity, tensors in self._quantities()
            for name, tensor in zip(self._names, tensors, strict=True)
        }

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states; see :class:`TrainingStep`."""
        self.network.load_state_dict(network)
        for quantity, tensors in self._quantities():
            for name, tensor in zip(self._names, tensors, strict=True):
                stored = optimiser.get(f"{quantity}.{name}")
                if stored is None or stored.shape != tensor.shape:
                    raise CheckpointError(
                        f"the checkpoint must hold the optimiser's state of {name}"
                    )
                tensor.copy_(stored)

    def _quantities(self) -> list[tuple[str, list[Tensor]]]:
        return [
            ("exp_avg", self._exp_avgs),
            ("exp_avg_sq", self._exp_avg_sqs),
            ("step", self._steps),
        ]


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient in the parameter's memory order, which is all that fused Adam looks at."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
