"""A training step that reads nothing from the host.

Its batch, its rate and its place in the epoch are taken on the device, so that many steps can be
recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu.adam import BETAS, EPSILON
from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.errors import CheckpointError
from fastrcaps_search.training.precision import rounding
from fastrcaps_search.training.splits import EpochImages


class DeviceStep:
    """Forward, backward and Adam over buffers whose addresses never change.

    Args:
        network: The network, on its device.
        images: Draws the batches, on the same device.
        precision: Arithmetic of the products; see ``precision.py``.
    """

    def __init__(
        self, network: CapsNet | LeNet5, images: EpochImages, *, precision: Precision
    ) -> None:
        self.network = network
        self.device = device = images.device
        self._images = images
        self._precision = precision
        self._parameters: dict[str, Tensor] = dict(network.named_parameters())
        self._state = {
            "exp_avg": [_zeros_like(p) for p in self._parameters.values()],
            "exp_avg_sq": [_zeros_like(p) for p in self._parameters.values()],
            "step": [torch.zeros((), device=device) for _ in self._parameters],
        }
        self._rate = torch.zeros((), device=device)
        self._order, self._corners = images.draw(epoch=1)
        self._rates = torch.zeros(len(self._order), device=device)
        self._first_sample = torch.zeros(1, dtype=torch.int64, device=device)
        self._number = torch.zeros(1, dtype=torch.int64, device=device)
        self._sums = torch.zeros(3, dtype=torch.float64, device=device)
        self._right = torch.zeros((), dtype=torch.int64, device=device)
        self._ranges: dict[int, Tensor] = {}

    def __len__(self) -> int:
        """Images of an epoch."""
        return len(self._order)

    def begin(self, epoch: int, rates: list[float]) -> None:
        """Draw the order of ``epoch`` (from 1) and go to its first step.

        Args:
            epoch: Which.
            rates: Learning rate of each of its steps, at most one per image.
        """
        order, corners = self._images.draw(epoch)
        self._order.copy_(order)
        self._corners.copy_(corners)
        self._rates[: len(rates)] = torch.tensor(rates, device=self.device)
        self.rewind()

    def rewind(self) -> None:
        """Go to the first step of the epoch."""
        self._first_sample.zero_()
        self._number.zero_()

    def prepare(self, size: int) -> None:
        """Make what a step of ``size`` images reads beside the epoch."""
        if size not in self._ranges:
            self._ranges[size] = torch.arange(size, device=self.device)

    def __call__(self, size: int) -> None:
        """The next update of the epoch, with ``size`` images; ``prepare`` comes before."""
        places = self._first_sample + self._ranges[size]
        images, labels = self._images.batch(self._order[places], self._corners[places])
        parameters = list(self._parameters.values())
        with rounding(self.network, self._precision):
            losses = self.network.loss(images, labels)
        gradients = torch.autograd.grad(losses.total, parameters)
        self._rate.copy_(self._rates[self._number].squeeze(0))
        with torch.no_grad():
            torch._foreach_add_(self._state["step"], 1)
            # What torch.optim.Adam(fused=True) calls; a rate on the device is not read back.
            torch._fused_adam_(
                parameters,
                [_laid_out(g, p) for g, p in zip(gradients, parameters, strict=True)],
                self._state["exp_avg"],
                self._state["exp_avg_sq"],
                [],
                self._state["step"],
                lr=self._rate,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=0.0,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )
            means = torch.stack([losses.total, losses.classification, losses.reconstruction])
            self._sums.add_(means, alpha=size)
            self._right.add_(losses.correct)
        self._first_sample.add_(size)
        self._number.add_(1)

    def take_sums(self) -> list[float]:
        """Sums since the last call over images: loss, classification, reconstruction, right."""
        sums: list[float] = torch.cat([self._sums, self._right.view(1)]).tolist()
        self._sums.zero_()
        self._right.zero_()
        return sums

    def optimiser_state(self) -> dict[str, Tensor]:
        """State of Adam on the CPU, named as that of every step."""
        return {
            f"{quantity}.{name}": tensor.contiguous().cpu().clone()
            for quantity, tensors in self._state.items()
            for name, tensor in zip(self._parameters, tensors, strict=True)
        }

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states, copied into the buffers that recorded steps know.

        Raises:
            CheckpointError: A state of another network.
            RuntimeError: A network state of other names or shapes.
        """
        self.network.load_state_dict(network)
        for quantity, tensors in self._state.items():
            for name, tensor in zip(self._parameters, tensors, strict=True):
                stored = optimiser.get(f"{quantity}.{name}")
                if stored is None or stored.shape != tensor.shape:
                    raise CheckpointError(
                        f"the checkpoint must hold the optimiser's state of {name}"
                    )
                tensor.copy_(stored)

    def saved(self) -> list[Tensor]:
        """Copies of everything that a step changes; for ``restore``."""
        return [tensor.detach().clone() for tensor in self._changing()]

    @torch.no_grad()
    def restore(self, saved: list[Tensor]) -> None:
        """Put back what ``saved`` gave."""
        for tensor, value in zip(self._changing(), saved, strict=True):
            tensor.copy_(value)

    def _changing(self) -> list[Tensor]:
        averages = [tensor for tensors in self._state.values() for tensor in tensors]
        counters = [self._first_sample, self._number, self._sums, self._right, self._rate]
        return [*self._parameters.values(), *averages, *counters]


def _zeros_like(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter, memory_format=torch.preserve_format, requires_grad=False)


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient with the strides of its parameter, which fused Adam insists on.

    They may differ in axes of length 1, as the single input channel.
    """
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter, memory_format=torch.preserve_format).copy_(gradient)
