"""Memory that outlives a step: an allocation of many megabytes costs more than a product."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Buffers:
    """Named memory that all batch sizes and steps of one network use in turn.

    Whoever asks says what is in a buffer; nothing clears it between two uses. What one batch size
    leaves there is lost to it once another has used the name.

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
