"""Draws the 5,000 digits of mnist-mini from MNIST, always the same, and writes their files.

    FASTRCAPS_DATA=data python -m tests.data.draw_mini

Of each class 500 of the first 55,000 training images: 400 to train on, 50 to validate, 50 to test.
"""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fastrcaps_search

FOLDER = Path(fastrcaps_search.__file__).parent / "data" / "mnist-mini"
BEFORE_VALIDATION = 55_000
SEED = 0


def drawn(labels: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The images to keep, by their numbers in MNIST.

    Args:
        labels: [60000], of MNIST's training images.

    Returns:
        4,000 to train on with 500 to validate behind them, both mixed, and 500 to test.
    """
    generator = np.random.default_rng(SEED)
    usable = labels[:BEFORE_VALIDATION]
    by_class = [generator.permutation(np.flatnonzero(usable == label)) for label in range(10)]
    train, validation, test = (
        generator.permutation(np.concatenate([numbers[part] for numbers in by_class]))
        for part in (slice(400), slice(400, 450), slice(450, 500))
    )
    return np.concatenate([train, validation]), test


def idx(values: NDArray[np.uint8]) -> bytes:
    """An IDX file of unsigned bytes."""
    header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    return header + values.tobytes()


def mnist(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """MNIST's training images [60000, 28, 28] and labels, from gzipped files in ``folder``."""
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"train-{name}.gz").read_bytes()), np.uint8)
        for name in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    return images[16:].reshape(60_000, 28, 28), labels[8:]


def files(folder: Path) -> dict[str, bytes]:
    """The plain content of each file of mnist-mini, drawn from MNIST in ``folder``."""
    images, labels = mnist(folder)
    found = {}
    for name, numbers in zip(("train", "t10k"), drawn(labels), strict=True):
        found[f"{name}-images-idx3-ubyte"] = idx(images[numbers])
        found[f"{name}-labels-idx1-ubyte"] = idx(labels[numbers])
    return found


if __name__ == "__main__":
    for name, content in files(Path(os.environ["FASTRCAPS_DATA"]) / "mnist").items():
        (FOLDER / f"{name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
