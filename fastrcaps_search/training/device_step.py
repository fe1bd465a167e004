"""A training step that reads nothing from the host.

Its batch, its rate and its place in the epoch are taken on the device, so that many steps can be
recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.definition.choices import Precision
from fastrcaps_search.training.checkpoint import load_optimiser, optimiser_state
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
        self._adam = torch.optim.Adam(
            network.parameters(),
            lr=torch.zeros((), device=device),
            fused=True,
            capturable=device.type == "cuda",
        )
        # Torch warns of a capturable optimiser that runs uncaptured, as it does to warm up.
        self._adam._warned_capturable_if_run_uncaptured = True
        self._rate: Tensor = self._adam.param_groups[0]["lr"]
        self._names: dict[Tensor, str] = {p: name for name, p in network.named_parameters()}
        # Adam would make its state in its first step; a recorded step needs it before.
        for parameter in self._names:
            self._adam.state[parameter] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            }
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
        with rounding(self.network, self._precision):
            losses = self.network.loss(images, labels)
        losses.total.backward()
        for parameter in self._names:
            parameter.grad = _laid_out(parameter.grad, parameter)
        self._rate.copy_(self._rates[self._number].squeeze(0))
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        means = torch.stack([losses.total, losses.classification, losses.reconstruction])
        self._sums.add_(means.detach(), alpha=size)
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
        """State of Adam on the CPU, as that of :class:`EagerStep`."""
        return optimiser_state(self._adam, self._names)

    def load(self, network: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Go on from stored states, copied into the buffers that recorded steps know.

        Raises:
            CheckpointError: A state of another network.
            RuntimeError: A network state of other names or shapes.
        """
        self.network.load_state_dict(network)
        kept = dict(self._adam.state)
        load_optimiser(self._adam, self._names, optimiser)
        for parameter, state in kept.items():
            for quantity, buffer in state.items():
                buffer.copy_(self._adam.state[parameter][quantity])
            self._adam.state[parameter] = state

    def saved(self) -> list[Tensor]:
        """Copies of everything that a step changes; for ``restore``."""
        return [tensor.detach().clone() for tensor in self._changing()]

    @torch.no_grad()
    def restore(self, saved: list[Tensor]) -> None:
        """Put back what ``saved`` gave."""
        for tensor, value in zip(self._changing(), saved, strict=True):
            tensor.copy_(value)

    def _changing(self) -> list[Tensor]:
        averages = [tensor for state in self._adam.state.values() for tensor in state.values()]
        counters = [self._first_sample, self._number, self._sums, self._right, self._rate]
        return [*self._names, *averages, *counters]


def _laid_out(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    """The gradient with the strides of its parameter, which fused Adam insists on.

    Autograd takes care of that but for axes of length 1, as the single input channel.
    """
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter, memory_format=torch.preserve_format).copy_(gradient)
