"""The images of each data set, checked, as plain arrays.

Files are looked for under one folder in three layouts, the first complete one wins::

    MNIST/raw/train-images-idx3-ubyte             torchvision's; FashionMNIST/raw/...
    mnist/train-images-idx3-ubyte.gz              Debian's; fashion-mnist/...
    train-images-idx3-ubyte.gz                    flat

gzipped or not. The sets share their file names, so what a file holds is decided by its checksum,
in every layout. What is found nowhere is downloaded once; mnist-mini comes with the package.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastrcaps_search.definition import data_facts
from fastrcaps_search.definition.choices import DataSet
from fastrcaps_search.errors import DataError, FastrcapsError
from fastrcaps_search.training.download import (
    TORCHVISION_NAMES,
    download,
    download_lock,
    missing_error,
)
from fastrcaps_search.training.idx import content_checksum, read_idx

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

_NEXT_STEP = "replace it with a fresh copy"

OWN_FOLDER = Path(__file__).parents[1] / "data_sets"
"""The digits of mnist-mini are here: MNIST's, CC BY-SA 3.0, see SOURCE.txt beside them."""


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """A data set in memory.

    Attributes:
        data_set: Which one.
        train_images: [n, 28, 28] uint8; the validation split is the last
            :func:`~fastrcaps_search.definition.data_facts.validation_size` of them.
        train_labels: [n] uint8, 0 to 9.
        test_images: [t, 28, 28] uint8.
        test_labels: [t] uint8, 0 to 9.
    """

    data_set: DataSet
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


def load_images(data_set: DataSet, *, folder: Path | None) -> Images:
    """Read a data set, downloading it first where it is nowhere to be found.

    Args:
        data_set: Which one.
        folder: Where to look, and where a download goes; :func:`default_folder` when None.
            ``mnist-mini`` comes with the package.

    Returns:
        The images and labels, checked.

    Raises:
        DataError: The data are missing and cannot be downloaded, or a file is damaged, short or
            of another data set; one line that names the file and the next step.
    """
    if data_set is DataSet.MNIST_MINI:
        folder = OWN_FOLDER
    files = _found_or_downloaded(data_set, default_folder() if folder is None else folder)
    train = _read_split(
        data_set,
        images_file=files[data_facts.TRAIN_IMAGES],
        labels_file=files[data_facts.TRAIN_LABELS],
        size=data_facts.train_size(data_set),
    )
    test = _read_split(
        data_set,
        images_file=files[data_facts.TEST_IMAGES],
        labels_file=files[data_facts.TEST_LABELS],
        size=data_facts.test_size(data_set),
    )
    return Images(data_set, *train, *test)


def default_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/fastrcaps-search``, or ``~/.cache/fastrcaps-search``.

    Raises:
        DataError: There is no such variable and no home folder.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification has relative paths ignored.
    if not cache.is_absolute():
        try:
            cache = Path.home() / ".cache"
        except RuntimeError as error:
            raise DataError(
                "the data need a folder, but this user has no home folder: "
                "name one with --data-dir or FASTRCAPS_DATA"
            ) from error
    return cache / "fastrcaps-search"


def find_files(data_set: DataSet, *, folder: Path) -> Mapping[str, Path] | None:
    """Return the four files of a data set in the first complete layout.

    Args:
        data_set: ``mnist`` or ``fashion-mnist``.
        folder: Where the layouts start.

    Returns:
        A path for each of :data:`~fastrcaps_search.definition.data_facts.FILE_NAMES`, not opened
        yet; None where there is none of them in any layout.

    Raises:
        DataError: Some, but not all, of the files are there, or the folder cannot be read.
    """
    try:
        layouts = [(place, _files_in(place)) for place in _places(data_set, folder)]
    except OSError as error:
        raise DataError(
            f"{folder} must be a folder that can be read, but {error.strerror}: "
            "check its permissions, or name another with --data-dir or FASTRCAPS_DATA"
        ) from error
    started = [layout for layout in layouts if layout[1]]
    for _, files in started:
        if len(files) == len(data_facts.FILE_NAMES):
            return files
    if not started:
        return None
    place, files = started[0]
    missing = ", ".join(name for name in data_facts.FILE_NAMES if name not in files)
    raise DataError(
        f"{place} must hold all four files of {data_set}, but {missing} is missing: add it "
        "(gzipped or not), or remove the others to have all downloaded"
    )


def _places(data_set: DataSet, folder: Path) -> tuple[Path, ...]:
    """Return the folders that may hold the set, in order of preference."""
    torchvision = TORCHVISION_NAMES.get(data_set, "")
    return (folder / torchvision / "raw", folder / data_set, folder)


def _files_in(place: Path) -> dict[str, Path]:
    """Return those of the four files that are in a folder, the plain one before the gzipped."""
    found: dict[str, Path] = {}
    for name in data_facts.FILE_NAMES:
        for path in (place / name, place / f"{name}.gz"):
            if path.is_file():
                found.setdefault(name, path)
    return found


def _found_or_downloaded(data_set: DataSet, folder: Path) -> Mapping[str, Path]:
    """Return the four files, after a download where there is none of them."""
    files = find_files(data_set, folder=folder)
    if files is not None:
        return files
    try:
        with download_lock(data_set, folder=folder):
            # Another process may have brought them while this one waited for the lock.
            if find_files(data_set, folder=folder) is None:
                download(data_set, folder=folder)
    except FastrcapsError:
        raise
    except Exception as error:  # torchvision lets through whatever its network stack raises
        raise missing_error(data_set, folder=folder, reason=error) from error
    files = find_files(data_set, folder=folder)
    if files is None:
        reason = FileNotFoundError("the downloaded files are gone again")
        raise missing_error(data_set, folder=folder, reason=reason)
    return files


def _read_split(
    data_set: DataSet, *, images_file: Path, labels_file: Path, size: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read the images and labels of one split and check them, the plainest mistake first."""
    images, labels = read_idx(images_file), read_idx(labels_file)
    side = data_facts.IMAGE_SIDE
    if images.shape[1:] != (side, side):
        raise DataError(
            f"{images_file} must hold images of {side} x {side} pixels, but its sizes are "
            f"{images.shape}: {_NEXT_STEP}"
        )
    if labels.shape != images.shape[:1]:
        raise DataError(
            f"{labels_file} must hold one label for each of the {len(images):,} images in "
            f"{images_file.name}, but its sizes are {labels.shape}: {_NEXT_STEP}"
        )
    if len(images) != size:
        raise DataError(
            f"{images_file} must hold the {size:,} images of {data_set}, but it holds "
            f"{len(images):,}: {_NEXT_STEP}"
        )
    if (highest := int(labels.max())) >= data_facts.CLASSES:
        raise DataError(
            f"{labels_file} must hold labels from 0 to 9, but it holds {highest}: {_NEXT_STEP}"
        )
    _check_content(data_set, images, file=images_file)
    _check_content(data_set, labels, file=labels_file)
    return images, labels


def _check_content(data_set: DataSet, values: NDArray[np.uint8], *, file: Path) -> None:
    """Check that a file holds what was published under its name for this very set."""
    name = file.name.removesuffix(".gz")
    expected = data_facts.CHECKSUMS[data_set][name]
    checksum = content_checksum(values)
    if checksum == expected:
        return
    for other, checksums in data_facts.CHECKSUMS.items():
        if checksum == checksums[name]:
            raise DataError(
                f"{file} must be a file of {data_set}, but its content is that of {other}: ask "
                f"for {other}, or put the files of {data_set} into a folder named {data_set}"
            )
    raise DataError(
        f"{file} must hold what was published as {data_set} (SHA-256 {expected[:12]}... of the "
        f"plain file), but it holds something else ({checksum[:12]}...): {_NEXT_STEP}"
    )
