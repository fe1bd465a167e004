"""What is known of each data set before a file is opened: sizes, file names, checksums."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from fastrcaps_search.definition.choices import DataSet

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_VARIABLE = "FASTRCAPS_DATA"
"""Environment variable that stands in for ``--data-dir``."""
IMAGE_SIDE = 28
"""Height and width of an image, in pixels."""

CLASSES = 10
"""Classes in each data set; labels are 0 to 9."""

_DIGITS = tuple(str(digit) for digit in range(CLASSES))
CLASS_NAMES: Mapping[DataSet, tuple[str, ...]] = MappingProxyType(
    {
        DataSet.MNIST: _DIGITS,
        # Table of labels in the README of zalandoresearch/fashion-mnist.
        DataSet.FASHION_MNIST: (
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        DataSet.MNIST_MINI: _DIGITS,
    }
)
"""What each label stands for."""


class _Sizes(NamedTuple):
    """Numbers of images."""

    train: int
    validation: int
    test: int


_LARGE = _Sizes(train=60_000, validation=5_000, test=10_000)
_SIZES = {
    DataSet.MNIST: _LARGE,
    DataSet.FASHION_MNIST: _LARGE,
    DataSet.MNIST_MINI: _Sizes(train=4_500, validation=500, test=500),
}


def train_size(data_set: DataSet) -> int:
    """Return the number of training images, those of the validation split among them."""
    return _SIZES[data_set].train


def validation_size(data_set: DataSet) -> int:
    """Return how many of the training images, the last ones, form the validation split."""
    return _SIZES[data_set].validation


def test_size(data_set: DataSet) -> int:
    """Return the number of test images."""
    return _SIZES[data_set].test


# Counted in the labels of the real data; the mini set is split by class.
_MOST_FREQUENT = {
    DataSet.MNIST: (563, 1_135),
    DataSet.FASHION_MNIST: (527, 1_000),
    DataSet.MNIST_MINI: (50, 50),
}


def most_frequent(data_set: DataSet, *, test: bool) -> int:
    """Return how many images of a validation split or a test set are of its largest class."""
    return _MOST_FREQUENT[data_set][test]


TRAIN_IMAGES = "train-images-idx3-ubyte"
TRAIN_LABELS = "train-labels-idx1-ubyte"
TEST_IMAGES = "t10k-images-idx3-ubyte"
TEST_LABELS = "t10k-labels-idx1-ubyte"

FILE_NAMES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)
"""The four IDX files of each set, without ``.gz``. All sets use the same names."""

# SHA-256 of the decompressed files, made with `gzip -dc FILE.gz | sha256sum` from the real data
# and compared with the sums that other projects publish for the original files. Compressed copies
# of the same content differ from one archive to the next, so theirs would say nothing.
CHECKSUMS: Mapping[DataSet, Mapping[str, str]] = MappingProxyType(
    {
        DataSet.MNIST: MappingProxyType(
            {
                TRAIN_IMAGES: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                TRAIN_LABELS: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                TEST_IMAGES: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                TEST_LABELS: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            }
        ),
        DataSet.FASHION_MNIST: MappingProxyType(
            {
                TRAIN_IMAGES: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                TRAIN_LABELS: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                TEST_IMAGES: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                TEST_LABELS: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            }
        ),
        DataSet.MNIST_MINI: MappingProxyType(
            {
                TRAIN_IMAGES: "d7131fd16d32d642650fe6c9a3c2bf6dde8614b49d932b0b713a43b2fe5c9bdc",
                TRAIN_LABELS: "63a7e99bd5569ee35d40893c4eea627a8077a925e3dd812bfd8e8b10a410f485",
                TEST_IMAGES: "d8cd1e03205a2204404c94ec884c4af3c583d8ab100479c459f5f2cfeebec158",
                TEST_LABELS: "169fd913234e219a6366015a68494b831aa1d8c008f5bb3c87d660cc889abcfd",
            }
        ),
    }
)
