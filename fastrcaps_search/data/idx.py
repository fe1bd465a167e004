"""Data sets in the IDX files in which MNIST is published.

They are looked for in one folder and in those below it that are named for the set, or ``raw``; the
first complete place wins::

    MNIST/raw/train-images-idx3-ubyte             torchvision's; FashionMNIST/raw/...
    mnist/train-images-idx3-ubyte.gz              Debian's; fashion-mnist/...
    train-images.idx3-ubyte                       flat

gzipped or not, with a dash or a dot. The sets share their file names, so what a file holds is
decided by its checksum, wherever it is. What is found nowhere is downloaded once, but not into a
folder that holds other images.

An IDX file is two zero bytes, a type byte (8: unsigned bytes), the number of dimensions, one
big-endian 32-bit size per dimension, then the values in row-major order (Y. LeCun, C. Cortes and
C. J. C. Burges, "The MNIST database of handwritten digits", file formats).
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import textwrap
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fastrcaps_search.data.data_set import DATA_VARIABLE, DataSet, Images, default_folder
from fastrcaps_search.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
"""The files of each set, without ``.gz``, in the order of :class:`Images`."""

DEEPEST = 3
"""Folders below the one that was named that are looked into: ``MNIST/MNIST/raw``."""
PICTURES = (".bmp", ".gif", ".heic", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff", ".webp")
MOST_LOOKED_AT = 10_000
"""Files among which pictures are looked for before a download."""
OWN_IMAGES = "images of your own are read by a plug-in (docs/where-files-go.md)"
_REASON_CHARACTERS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class IdxDataSet(DataSet):
    """A data set in four IDX files.

    Attributes:
        checksums: SHA-256 of each of :data:`FILE_NAMES`, plain. Compressed copies of the same
            content differ from one archive to the next, so theirs would say nothing.
        torchvision_name: torchvision's class for it, which is also the name of its folder; empty
            for one that torchvision does not have.
        own_folder: Where a set that comes with a package is; None for one of the user's folder.
    """

    checksums: tuple[str, str, str, str]
    torchvision_name: str = ""
    own_folder: Path | None = None

    def read(self, folder: Path | None) -> Images:
        """Read the files, downloaded first where there is none of them."""
        folder = self.own_folder or folder or default_folder()
        files = self.find(folder) or self._downloaded(folder)
        return Images(*map(self._values, files, self.checksums))

    def place(self, folder: Path | None) -> str:
        """The folder of the files, or where a download would go."""
        folder = self.own_folder or folder or default_folder()
        try:
            files = self._recognised(folder)
        except DataError as error:
            return str(error)
        if files:
            return str(files[0].parent)
        return f"not in {folder}; downloaded there when first needed"

    def look(self, folder: Path | None) -> None:
        """Refuse a folder that holds a part of the set, another one or other images."""
        self._recognised(self.own_folder or folder or default_folder())

    def _recognised(self, folder: Path) -> tuple[Path, ...]:
        """As :meth:`find`, of files the smallest of which is that of this set."""
        files = self.find(folder)
        if files:
            self._content(files[-1], self.checksums[-1])
        return files

    def find(self, folder: Path) -> tuple[Path, ...]:
        """The files in the first complete place, not opened yet; none to have them downloaded.

        Raises:
            DataError: Some, but not all, of the files are there, or none but other images.
        """
        names = {"raw", _simple(self.name), _simple(self.torchvision_name)}
        layouts = [
            (place, files) for place in _places(folder, names) if (files := _files_in(place))
        ]
        for _, files in layouts:
            if len(files) == len(FILE_NAMES):
                return tuple(files.values())
        for place, files in layouts:
            missing = ", ".join(name for name in FILE_NAMES if name not in files)
            raise DataError(
                f"{place} must hold all four files of {self}, but {missing} is missing: add it "
                "(gzipped or not), or remove the others to have all downloaded"
            )
        if picture := _picture_in(folder):
            raise DataError(
                f"the images of {self} must be under {folder}, but it holds others, as {picture}, "
                f"and nothing is downloaded beside them: name with --data-dir or {DATA_VARIABLE} "
                f"the folder that has {self}, or an empty one to download into; {OWN_IMAGES}"
            )
        return ()

    def _downloaded(self, folder: Path) -> tuple[Path, ...]:
        """The files after a download, one process at a time."""
        from filelock import FileLock

        try:
            if not self.torchvision_name:
                raise FileNotFoundError("torchvision has no such data set")
            # Brings torch, which most runs do not need for their data.
            from fastrcaps_search.data.download import download

            folder.mkdir(parents=True, exist_ok=True)
            # The kernel frees the lock of a process that is killed; its file stays.
            with FileLock(folder / f".{self}.lock"):
                # Another process may have brought them while this one waited.
                if not self.find(folder):
                    download(self.torchvision_name, folder=folder)
                return self.find(folder)
        except Exception as error:  # torchvision lets through whatever its network stack raises
            cause = textwrap.shorten(str(error) or type(error).__name__, _REASON_CHARACTERS)
            raise DataError(
                f"the images of {self} must be under {folder}, but they are not and the download "
                f"failed ({cause}): put {', '.join(f'{name}.gz' for name in FILE_NAMES)} (gzipped "
                f"or not) into {folder / self.name}, or name the folder that has them with "
                f"--data-dir or {DATA_VARIABLE}; the data set mnist-mini needs no download"
            ) from error

    def _values(self, file: Path, checksum: str) -> NDArray[np.uint8]:
        """The numbers in one file."""
        import numpy as np

        content = self._content(file, checksum)
        sizes = _sizes(content)
        # torch warns about arrays that cannot be written.
        values = np.frombuffer(bytearray(content), np.uint8, offset=4 + 4 * len(sizes))
        return values.reshape(sizes)

    def _content(self, file: Path, checksum: str) -> bytes:
        """What one file holds, where that is what was published."""
        content = _plain(file)
        found = hashlib.sha256(content).hexdigest()
        if found != checksum:
            raise self._another(file, found, content)
        return content

    def _another(self, file: Path, checksum: str, content: bytes) -> DataError:
        """The error for a file with a checksum that is not its own."""
        from fastrcaps_search.data.shipped import DATA_SETS

        for other in DATA_SETS:
            if other != self and isinstance(other, IdxDataSet) and checksum in other.checksums:
                return DataError(
                    f"{file} must be a file of {self}, but its content is that of {other}: ask "
                    f"for {other}, or put the files of {self} into a folder named {self}"
                )
        sizes = _sizes(content)
        came = f"another {sizes}" if sizes else "not whole"
        advice = f" if it is meant to be {self}; {OWN_IMAGES}" if sizes else ""
        return DataError(
            f"{file} must hold what was published as {self}, but its content is {came} (SHA-256 "
            f"of the plain file: {checksum[:12]}...): replace it with a fresh copy{advice}"
        )


def _simple(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _places(folder: Path, names: set[str], deepest: int = DEEPEST) -> Iterator[Path]:
    """Folders below this one whose names are among the simple ones given, then this one."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()) if deepest else ():
            if _simple(path.name) in names:
                yield from _places(path, names, deepest - 1)
    yield folder


def _picture_in(folder: Path) -> Path | None:
    """One of the images in a folder or anywhere below it that are no IDX files."""
    files = (Path(above, name) for above, _, names in os.walk(folder) for name in names)
    looked_at = islice(files, MOST_LOOKED_AT)
    return next((file for file in looked_at if file.name.lower().endswith(PICTURES)), None)


def _sizes(content: bytes) -> list[int]:
    """The dimensions of a whole IDX file of bytes; none of anything else."""
    start = 4 + 4 * content[3] if content[:3] == b"\0\0\x08" and len(content) > 4 else 0
    found = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    return found if len(content) == start + math.prod(found) else []


def _files_in(place: Path) -> dict[str, Path]:
    """Those of the four files that are in a folder, by name, the plain one before the gzipped.

    Some archives unpack to a folder of each file's name.
    """
    found: dict[str, Path] = {}
    for name in FILE_NAMES:
        for one in (name, name.replace("-idx", ".idx")):
            for path in (place / one, place / f"{one}.gz", place / one / one):
                # Where it cannot be looked, there is no file, and the download says why.
                if os.path.isfile(path):  # noqa: PTH113  # Path.is_file raises there
                    found.setdefault(name, path)
    return found


def _plain(file: Path) -> bytes:
    """The plain content of a file that is gzipped or not, whatever its name."""
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise DataError(
            f"{file} must be a whole file that can be read, got: {reason}; replace it with a "
            "fresh copy"
        ) from error
