"""The digits that come with the package: which they are, how split, and apart from what."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fastrcaps_search.data.shipped import MNIST, MNIST_MINI
from tests.data import draw_mini

REAL = os.environ.get("FASTRCAPS_DATA")
needs_data = pytest.mark.skipif(
    REAL is None, reason="FASTRCAPS_DATA does not name the folder of the real data"
)


def test_it_is_split_by_class_and_mixed() -> None:
    images = MNIST_MINI.load(folder=None)
    assert images.train_images.shape == (4_500, 28, 28)
    assert images.test_images.shape == (500, 28, 28)
    assert images.train_images.dtype == images.train_labels.dtype == np.uint8
    validation = images.train_labels[-500:]
    assert np.bincount(images.train_labels[:-500]).tolist() == [400] * 10
    assert np.bincount(validation).tolist() == [50] * 10
    assert np.bincount(images.test_labels).tolist() == [50] * 10
    # Mixed: neighbours differ nine times in ten, not nine times in all.
    assert (np.diff(images.train_labels[:-500].astype(int)) != 0).mean() > 0.8
    assert (np.diff(validation.astype(int)) != 0).mean() > 0.8


def test_its_files_are_small_and_name_their_source_and_licence() -> None:
    files = {path.name: path for path in draw_mini.FOLDER.iterdir()}
    assert sum(path.stat().st_size for path in files.values()) <= 1_200_000
    source = files["SOURCE.txt"].read_text()
    for words in ("LeCun", "Cortes", "Burges", "creativecommons.org/licenses/by-sa/3.0"):
        assert words in source


def pairs(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> list[tuple[bytes, int]]:
    return [(i.tobytes(), int(label)) for i, label in zip(images, labels, strict=True)]


@needs_data
def test_all_are_among_the_first_55000_of_mnist_and_none_in_its_validation_split() -> None:
    assert REAL is not None
    mini, mnist = (data_set.load(folder=Path(REAL)) for data_set in (MNIST_MINI, MNIST))
    digits = pairs(mini.train_images, mini.train_labels) + pairs(
        mini.test_images, mini.test_labels
    )
    assert len(set(digits)) == 5_000
    before = pairs(mnist.train_images[:55_000], mnist.train_labels[:55_000])
    assert set(digits) <= set(before)
    unseen = np.concatenate([mnist.train_images[55_000:], mnist.test_images])
    assert not {image for image, _ in digits} & {image.tobytes() for image in unseen}


@needs_data
def test_drawing_them_again_gives_the_same_files() -> None:
    assert REAL is not None
    again = draw_mini.files(Path(REAL) / "mnist")
    assert {f"{name}.gz" for name in again} | {"SOURCE.txt"} == {
        path.name for path in draw_mini.FOLDER.iterdir()
    }
    for name, content in again.items():
        assert gzip.decompress((draw_mini.FOLDER / f"{name}.gz").read_bytes()) == content


# A fresh interpreter, because this one may have imported anything already.
ALONE = """
import sys
from fastrcaps_search.data.shipped import MNIST, MNIST_MINI
print(len(MNIST_MINI.load(folder=None).train_labels))
print(sorted({"torch", "torchvision"} & set(sys.modules)))
"""


def test_it_needs_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "4500\n[]\n"
