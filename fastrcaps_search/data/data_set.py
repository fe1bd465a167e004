"""What a data set is: what is known of it before a file is opened, and how it is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastrcaps_search.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DATA_VARIABLE = "FASTRCAPS_DATA"
"""Environment variable that stands in for ``--data-dir``."""

IMAGE_SIDE = 28
"""Height and width of an image, in pixels."""

CLASSES = 10
"""Classes in each data set; labels are 0 to 9."""


class Images(NamedTuple):
    """A data set in memory, in arrays that may be written.

    Attributes:
        train_images: uint8 [n, 28, 28], light on dark; the validation split is the last of them.
        train_labels: uint8 [n], 0 to 9.
        test_images: uint8 [t, 28, 28].
        test_labels: uint8 [t], 0 to 9.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet(ABC):
    """A data set that studies name; a plug-in registers its own in ``data.shipped.DATA_SETS``.

    The networks take grey images of 28x28 pixels and tell ten classes apart: images of another
    size must be scaled by :meth:`read`, and there must be ten classes.

    Attributes:
        name: By which study files, flags and exported networks know it.
        class_names: What each label stands for.
        train_size: Training images, those of the validation split among them.
        validation_size: How many of the training images, the last ones, form that split.
        test_size: Test images.
        most_frequent: Images of the largest class in the validation split and in the test set.
        drawn_from: Name of the data set from whose training images, without the validation split,
            all images of this one are; empty where there is none.

    Raises:
        UsageError: There are not ten classes, or the validation split leaves nothing to train on.
    """

    name: str
    class_names: tuple[str, ...]
    train_size: int
    validation_size: int
    test_size: int
    most_frequent: tuple[int, int]
    drawn_from: str = ""

    def __post_init__(self) -> None:
        if len(self.class_names) != CLASSES or not 0 < self.validation_size < self.train_size:
            raise UsageError(
                f"the data set {self.name} must have {CLASSES} classes and images left to train "
                f"on, got {len(self.class_names)} classes and {self.validation_size} of "
                f"{self.train_size} images to validate; fix its plug-in"
            )

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def read(self, folder: Path | None) -> Images:
        """Read the images, the same every time, in an order of their own.

        Whatever this needs (numpy, another library) it imports itself: definitions are read where
        nothing heavy may be imported.

        Args:
            folder: The folder that the user named; None for :func:`default_folder`.

        Raises:
            DataError: Data missing, corrupt or short; one line with the file and the next step.
        """

    def place(self, folder: Path | None) -> str:
        """Where ``doctor`` says that the images are."""
        return f"read by {type(self).__module__}"

    def load(self, *, folder: Path | None) -> Images:
        """Read the images and check that they are as many and of the kind that is expected.

        Args:
            folder: The folder that the user named; None for :func:`default_folder`.

        Raises:
            DataError: Data missing, corrupt or short.
        """
        images = self.read(folder)
        side = (IMAGE_SIDE, IMAGE_SIDE)
        train, test = (self.train_size,), (self.test_size,)
        wanted = [(*train, *side), train, (*test, *side), test]
        if [part.shape for part in images] != wanted or any(p.dtype != "uint8" for p in images):
            came = ", ".join(f"{part.dtype} {list(part.shape)}" for part in images)
            raise DataError(
                f"the images of {self} must be uint8 {', '.join(map(str, map(list, wanted)))}, "
                f"got {came}; fix what reads them"
            )
        if (highest := max(images.train_labels.max(), images.test_labels.max())) >= CLASSES:
            raise DataError(
                f"the labels of {self} must be 0 to {CLASSES - 1}, got {highest}; "
                "fix what reads them"
            )
        return images


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/fastrcaps-search``, or ``~/.cache/fastrcaps-search``."""
    import platformdirs

    return platformdirs.user_cache_path("fastrcaps-search")
