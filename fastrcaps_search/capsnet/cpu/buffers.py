"""Memory that outlives a step: an allocation of many megabytes costs more than a product."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Buffers:
    """Named tensors of one batch size, made when first asked for and never filled again.

    Whoever asks says what is in a buffer; nothing clears it between two uses.

    Args:
        dtype: Type of all of them.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._held: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The buffer of that name, contiguous.

        Args:
            name: One name has one shape.
            shape: Its shape.
        """
        found = self._held.get(name)
        if found is None:
            found = self._held[name] = torch.zeros(shape, dtype=self._dtype)
        return found

    def shared(self, name: str, *shape: int) -> Tensor:
        """The beginning of a buffer that several shapes use in turn."""
        size = math.prod(shape)
        found = self._held.get(name)
        if found is None or found.numel() < size:
            found = self._held[name] = torch.zeros(size, dtype=self._dtype)
        return found[:size].view(shape)
