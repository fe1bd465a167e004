"""Weights and Adam's averages in flat buffers, in the layout that the products read.

One layout serves every kernel, so that the batch size may change within a run: the primary
convolution's weight is kept tap by tap, ``[81, C, O]``, its taps grouped by phase (``TAPS``). All
other parameters lie as torch has them. Networks, checkpoints and exports keep torch's layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

ALIGNMENT = 16  # numbers; 64 bytes, a cache line
PRIMARY = "primary_capsules.convolution.weight"

PHASES = [(i, j) for j in (0, 1) for i in (0, 1)]
"""Parities (row, column) of a tap and of the features it meets. Column parity is the outer one:
the taps of one column parity are then a block of 9 rows, which folds in one go."""

TAPS = [(2 * a + i) * 9 + 2 * b + j for i, j in PHASES for a in range(5 - i) for b in range(5 - j)]
"""Place in a 9x9 kernel of each of the 81 stored taps."""


class Piece(NamedTuple):
    """Where a parameter lies in the flat buffers.

    Attributes:
        start: First number.
        shape: Its stored shape.
    """

    start: int
    shape: torch.Size

    @property
    def end(self) -> int:
        """One past the last number."""
        return self.start + self.shape.numel()


class Weights:
    """Parameters and Adam's two averages of one network.

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
        self._pieces: dict[str, Piece] = {}
        end = 0
        for name, parameter in network.named_parameters():
            shape = _stored(name, parameter).shape
            self._pieces[name] = Piece(end, shape)
            end += -(-shape.numel() // ALIGNMENT) * ALIGNMENT
        dtype = next(network.parameters()).dtype
        self.values = torch.zeros(end, dtype=dtype)
        self.exp_avg = torch.zeros(end, dtype=dtype)
        self.exp_avg_sq = torch.zeros(end, dtype=dtype)
        self.step = torch.zeros(())
        self._views = {name: self._view(self.values, name) for name in self._pieces}
        self.copy_from_module()

    def __getitem__(self, name: str) -> Tensor:
        """Parameter of that name, in its stored shape: a view."""
        return self._views[name]

    def span(self, first: str, last: str) -> slice:
        """Numbers from the first to the last of some neighbouring parameters."""
        end = self._pieces[last].end
        return slice(self._pieces[first].start, -(-end // ALIGNMENT) * ALIGNMENT)

    def start(self, name: str) -> int:
        """First number of a parameter."""
        return self._pieces[name].start

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
        return {
            f"{quantity}.{name}": tensor
            for name in self._pieces
            for quantity, tensor in (
                ("exp_avg", _usual(name, self._view(self.exp_avg, name)).clone()),
                ("exp_avg_sq", _usual(name, self._view(self.exp_avg_sq, name)).clone()),
                ("step", self.step.clone()),
            )
        }

    def load_optimiser(self, stored: Mapping[str, Tensor]) -> None:
        """Take what :meth:`optimiser_state` gave.

        Raises:
            KeyError: A tensor is missing.
            ValueError: One has another shape.
        """
        for name, parameter in self._network.named_parameters():
            for quantity, flat in (("exp_avg", self.exp_avg), ("exp_avg_sq", self.exp_avg_sq)):
                tensor = stored[f"{quantity}.{name}"]
                if tensor.shape != parameter.shape:
                    raise ValueError(name)
                self._view(flat, name).copy_(_stored(name, tensor))
            self.step.copy_(stored[f"step.{name}"])

    def _view(self, flat: Tensor, name: str) -> Tensor:
        piece = self._pieces[name]
        return flat[piece.start : piece.end].view(piece.shape)


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
