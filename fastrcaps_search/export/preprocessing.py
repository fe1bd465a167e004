"""Images as people have them, made into what a network takes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastrcaps_search.data.data_set import IMAGE_SIDE
from fastrcaps_search.errors import UsageError

_SHAPES = "[28, 28], [N, 28, 28] or [N, 1, 28, 28]"


def as_batch(images: object) -> tuple[Tensor, bool]:
    """Images as float32 [N, 1, 28, 28] in [0, 1], and whether it was a single one [28, 28].

    Args:
        images: Whole numbers from 0 to 255 or floats from 0 to 1, of shape [28, 28],
            [N, 28, 28] or [N, 1, 28, 28]; an array, a tensor or nested lists.

    Raises:
        UsageError: They are nothing of the kind.
    """
    values = _array(images)
    shape = values.shape
    side = (IMAGE_SIDE, IMAGE_SIDE)
    if shape[-2:] != side or len(shape) not in (2, 3, 4) or (len(shape) == 4 and shape[1] != 1):
        raise UsageError(f"images must have the shape {_SHAPES}, got {list(shape)}")
    batch = torch.from_numpy(_scaled(values)).view(-1, 1, *side)
    return batch, len(shape) == 2


def _array(images: object) -> NDArray[np.generic]:
    if isinstance(images, Tensor):
        floats = images.detach().cpu()
        # Numpy has no bfloat16.
        return np.asarray((floats.float() if floats.is_floating_point() else floats).numpy())
    try:
        return np.asarray(images)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"images must be numbers of the shape {_SHAPES}, got rows of several lengths"
        ) from error


def _scaled(values: NDArray[np.generic]) -> NDArray[np.float32]:
    """Contiguous float32 in [0, 1]."""
    kinds = {"i": ("whole numbers", 255), "u": ("whole numbers", 255), "f": ("floats", 1)}
    if values.dtype.kind not in kinds:
        raise UsageError(
            "images must be whole numbers from 0 to 255 or floats from 0 to 1, got values of type "
            f"{values.dtype}"
        )
    what, largest = kinds[values.dtype.kind]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    # NaN is in no range.
    if not (low >= 0 and high <= largest):
        advice = "; divide them by 255" if 1 < high <= 255 and low >= 0 else ""
        raise UsageError(
            f"images of {what} must be from 0 to {largest}, got {low:g} to {high:g}{advice}"
        )
    if largest == 255 and high == 1:
        raise UsageError(
            "images of whole numbers must reach from 0 to 255, got none above 1; pass floats for "
            "images in [0, 1]"
        )
    # In float32, as the images that the network was trained on.
    return np.array(values, dtype=np.float32, order="C") / np.float32(largest)
