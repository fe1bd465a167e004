"""Memory of the written-out step: weights with Adam's averages, and what lies between two layers.

One layout of the weights serves every kernel, so that the batch size may change within a run: the
primary convolution's weight is kept tap by tap, ``[81, C, O]``, its taps grouped by phase
(``TAPS``). All other parameters lie as torch has them. Networks, checkpoints and exports keep
torch's layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from fastrcaps_search.capsnet.trainable import fused_adam

ALIGNMENT = 16  # numbers; 64 bytes, a cache line
PRIMARY = "primary_capsules.convolution.weight"

PHASES = [(i, j) for j in (0, 1) for i in (0, 1)]
"""Parities (row, column) of a tap and of the features it meets. Column parity is the outer one:
the taps of one column parity are then a block of 9 rows, which folds in one go."""

TAPS = [(2 * a + i) * 9 + 2 * b + j for i, j in PHASES for a in range(5 - i) for b in range(5 - j)]
"""Place in a 9x9 kernel of each of the 81 stored taps."""


class Buffers:
    """Named memory that all batch sizes and steps of one network use in turn.

    It outlives a step: an allocation of many megabytes costs more than a product. Whoever asks
    says what is in a buffer; nothing clears it between two uses. What one batch size leaves there
    is lost to it once another has used the name.

    Args:
        dtype: Type of all of them.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._held: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The beginning of the buffer of that name, contiguous; zeros when it is new.

        Args:
            name: Its name.
            shape: The shape to see it in. A buffer that is too small is replaced by a larger one;
                those who hold the smaller one keep it to themselves.
        """
        size = math.prod(shape)
        found = self._held.get(name)
        if found is None or found.numel() < size:
            found = self._held[name] = torch.zeros(size, dtype=self._dtype)
        return found[:size].view(shape)


class Weights:
    """Parameters and Adam's two averages of one network, updated piece by piece.

    A step of batch 1 is bound by memory: 8.2 million weights with two averages each are read and
    written. A gradient that is written to memory and read again by an optimiser at the end of the
    step would add a third to that, so each piece is updated while its gradient is in the cache.

    Args:
        network: Gives names, shapes, type and first values. Its parameters are not touched before
            :meth:`copy_to_module`.

    Attributes:
        values: Flat parameters [N]; the gaps between two are zero and stay so.
        exp_avg: Running mean of the gradient [N].
        exp_avg_sq: Running mean of its square [N].
        step: Number of updates, 0-dim float32, as torch's fused Adam counts them.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._places: dict[str, slice] = {}
        self._shapes: dict[str, torch.Size] = {}
        end = 0
        for name, parameter in network.named_parameters():
            self._shapes[name] = shape = _stored(name, parameter).shape
            self._places[name] = slice(end, end + shape.numel())
            end += -(-shape.numel() // ALIGNMENT) * ALIGNMENT
        dtype = next(network.parameters()).dtype
        self.values, self.exp_avg, self.exp_avg_sq = (
            torch.zeros(end, dtype=dtype) for _ in range(3)
        )
        self.step = torch.zeros(())
        self._rate = 0.0
        self._views = {name: self._view(self.values, name) for name in self._places}
        self.copy_from_module()

    def __getitem__(self, name: str) -> Tensor:
        """Parameter of that name, in its stored shape: a view."""
        return self._views[name]

    def start(self, name: str) -> int:
        """First number of a parameter."""
        return int(self._places[name].start)

    def begin_step(self, rate: float) -> None:
        """Count a step of Adam and set its learning rate, before its first update."""
        self.step += 1
        self._rate = rate

    def updater(self, start: int, gradient: Tensor) -> Callable[[], None]:
        """What updates a part of the weights by Adam, made once and called in every step.

        Args:
            start: First number of the part in the flat weights.
            gradient: Where the part's gradient will be, contiguous, as many numbers.
        """
        part = slice(start, start + gradient.numel())
        tensors = (
            [self.values[part]],
            [gradient.view(-1)],
            [self.exp_avg[part]],
            [self.exp_avg_sq[part]],
            [self.step],
        )

        def update() -> None:
            fused_adam(*tensors, rate=self._rate)

        return update

    def gradients(
        self, buffers: Buffers, buffer: str, *names: str
    ) -> tuple[list[Tensor], Callable[[], None]]:
        """Where the gradients of neighbouring parameters go, and what then updates them.

        Args:
            buffers: Memory.
            buffer: Name of the buffer to use.
            names: The parameters in their order; none of them is the tap by tap one.

        Returns:
            A gradient in the shape of each parameter, and its updater.
        """
        start, end = self.start(names[0]), self._places[names[-1]].stop
        flat = buffers(buffer, -(-end // ALIGNMENT) * ALIGNMENT - start)
        found = [
            flat[self.start(name) - start :][: self[name].numel()].view_as(self[name])
            for name in names
        ]
        return found, self.updater(start, flat)

    def copy_from_module(self) -> None:
        """Take the network's parameters."""
        for name, parameter in self._network.named_parameters():
            self[name].copy_(_stored(name, parameter.detach()))

    def copy_to_module(self) -> None:
        """Write the parameters into the network."""
        with torch.no_grad():
            for name, parameter in self._network.named_parameters():
                parameter.copy_(_usual(name, self[name]))

    def optimiser_state(self) -> dict[str, Tensor]:
        """Copies of Adam's state in torch's layout: ``exp_avg.<parameter>`` and so on."""
        averages = {
            f"{quantity}.{name}": _usual(name, self._view(flat, name)).clone()
            for quantity, flat in self._averages()
            for name in self._places
        }
        return averages | {f"step.{name}": self.step.clone() for name in self._places}

    def load_optimiser(self, stored: Mapping[str, Tensor]) -> None:
        """Take what :meth:`optimiser_state` gave of a network of the same shapes."""
        for name in self._places:
            for quantity, flat in self._averages():
                self._view(flat, name).copy_(_stored(name, stored[f"{quantity}.{name}"]))
            self.step.copy_(stored[f"step.{name}"])

    def _averages(self) -> tuple[tuple[str, Tensor], ...]:
        return ("exp_avg", self.exp_avg), ("exp_avg_sq", self.exp_avg_sq)

    def _view(self, flat: Tensor, name: str) -> Tensor:
        return flat[self._places[name]].view(self._shapes[name])


def pack_taps(weight: Tensor) -> Tensor:
    """Taps [81, C, O] of a weight [O, C, 9, 9]."""
    O, C, _, _ = weight.shape
    # The plain transposition is the one strided copy that torch does in blocks.
    by_tap = weight.permute(2, 3, 1, 0).reshape(81, C, O)
    return by_tap.index_select(0, torch.tensor(TAPS))


def unpack_taps(taps: Tensor) -> Tensor:
    """Weight [O, C, 9, 9] of taps [81, C, O]."""
    by_tap = torch.empty_like(taps).index_copy_(0, torch.tensor(TAPS), taps)
    return by_tap.view(9, 9, *taps.shape[1:]).permute(3, 2, 0, 1).contiguous()


def _stored(name: str, tensor: Tensor) -> Tensor:
    """The stored form of a parameter."""
    return pack_taps(tensor) if name == PRIMARY else tensor


def _usual(name: str, tensor: Tensor) -> Tensor:
    """Torch's form of a stored parameter."""
    return unpack_taps(tensor) if name == PRIMARY else tensor
