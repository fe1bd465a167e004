"""Images that a network is given: checked, scaled, and compared with those of its training."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastrcaps_search.data.data_set import IMAGE_SIDE, DataSet, Shades
from fastrcaps_search.errors import UsageError

SHAPES = "[28, 28], [N, 28, 28] or [N, 1, 28, 28]"
OVERSHOOT = 0.25
"""How far resizing may put floats beyond 0 and 1: Lanczos and bicubic filters up to about 0.2."""
BLACK = 0.01
"""The lightest pixel of an image of MNIST or Fashion-MNIST is at least 0.99."""

UNLIKE = 0.6
"""So far from the training's is the mean of the edge of inverted images; that of noise is not."""
EDGE = np.pad(np.zeros([IMAGE_SIDE - 2] * 2, dtype=bool), 1, constant_values=True)


def as_batch(images: object, *, like: DataSet | None = None) -> tuple[Tensor, bool]:
    """Images as float32 [N, 1, 28, 28] in [0, 1], and whether it was a single one [28, 28].

    Args:
        images: Whole numbers from 0 to 255 or floats from 0 to 1, of shape [28, 28],
            [N, 28, 28] or [N, 1, 28, 28]; an array, a tensor or nested lists.
        like: The data set that the network was trained on, to warn of images that are unlike it.

    Raises:
        UsageError: They are nothing of the kind.
    """
    values = _array(images)
    shape = values.shape
    side = (IMAGE_SIDE, IMAGE_SIDE)
    if shape[-2:] != side or len(shape) not in (2, 3, 4) or (len(shape) == 4 and shape[1] != 1):
        raise UsageError(f"images must have the shape {SHAPES}, got {list(shape)}")
    shades = like.shades if like else None
    scaled = _scaled(values, shades).reshape(-1, 1, *side)
    if like and shades and scaled.size:
        _compare(scaled, like.name, shades, white="1" if values.dtype.kind == "f" else "255")
    return torch.from_numpy(scaled), len(shape) == 2


def _array(images: object) -> NDArray[np.generic]:
    if getattr(images, "mode", "") == "P":
        raise UsageError(
            'images must be grey, got one with a palette; convert it, as in image.convert("L")'
        )
    if isinstance(images, Tensor):
        try:
            values = images.detach().to_dense().cpu()
            # Numpy has no bfloat16.
            return np.asarray((values.float() if values.is_floating_point() else values).numpy())
        except (RuntimeError, TypeError) as error:
            raise UsageError(
                f"images must be a tensor with values, got a {images.layout} on {images.device}"
            ) from error
    try:
        return np.asarray(images)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"images must be numbers of the shape {SHAPES}, got rows of several lengths"
        ) from error


def _scaled(values: NDArray[np.generic], shades: Shades | None) -> NDArray[np.float32]:
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
        advice = _advice(low, high, shades) if shades and largest == 1 else ""
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


def _advice(low: float, high: float, shades: Shades) -> str:
    """The first change that gives floats of another range that of the training, if any."""
    back = f"images * {shades.deviation:.4f} + {shades.mean:.4f}"
    # With the factor and what is added.
    changes = [
        ("clip them, as in images.clip(0, 1)", 1.0, 0.0),
        ("divide them by 255", 1 / 255, 0.0),
        ("pass (images + 1) / 2", 0.5, 0.5),
        (f"take their normalisation back, as in {back}", shades.deviation, shades.mean),
    ]
    for advice, factor, added in changes:
        # Every image of a training has black and white in it.
        if -OVERSHOOT <= low * factor + added < 0.5 <= high * factor + added <= 1 + OVERSHOOT:
            return f"; {advice}"
    return ""


def _compare(images: NDArray[np.float32], name: str, shades: Shades, *, white: str) -> None:
    """Warn of images [N, 1, 28, 28] in [0, 1] that are inverted or black."""
    unlike = ""
    inverted = int((abs(images[..., EDGE].mean((1, 2)) - shades.border) > UNLIKE).sum())
    if inverted:
        sides = ("light on dark", "dark on light")
        wanted, got = sides if shades.border < 0.5 else sides[::-1]
        some = "" if inverted == len(images) else f"{inverted} of {len(images)} "
        unlike = f"{wanted}, got {some}{got}; pass {white} - images{some and ' of these'}"
    elif images.max() < BLACK:
        unlike = f"from 0 to {white}, got black ones; do not divide twice or round floats"
    if unlike:
        # At the line that calls a method of the network: once, with Python's usual filters.
        warnings.warn(f"images must be like those of {name}, {unlike}", stacklevel=6)
