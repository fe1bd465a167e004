"""Folders whose files are whole or absent: what they can do, and those on a disk.

Those in object storage are in :mod:`fastrcaps_search.object_storage`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fastrcaps_search.disk import regular_bytes, remove_file, replace_file
from fastrcaps_search.typed import URL


class Folder(Protocol):
    """The files of one folder, by name. Shown as its path or URL."""

    def names(self) -> list[str]:
        """Names of what is in it, as it is now; none where it is not there.

        Raises:
            OSError: Object storage does not say. A disk that does not has none.
        """

    def sizes(self) -> dict[str, int]:
        """Bytes of each file in it and in all below it, by path from here.

        Raises:
            OSError: They may not be seen, or object storage does not say.
        """

    def read(self, name: str) -> bytes:
        """All bytes of a file.

        Raises:
            CheckpointError: It is not there, too large, or nothing that can be read.
            DiskError: Object storage has not given it for a minute.
        """

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file or none, in place of one of that name.

        Raises:
            OSError: It cannot be written.
        """

    def rename(self, old: str, new: str) -> None:
        """Give a file another name.

        Raises:
            FileNotFoundError: It is not there.
            OSError: The folder cannot be written.
        """

    def remove(self, names: Iterable[str]) -> None:
        """Remove files that are no longer needed; those that cannot be only take room."""


def is_url(place: str) -> bool:
    """Whether files are in object storage, not on a disk."""
    return URL.match(place) is not None


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on a disk, made when first written to."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def names(self) -> list[str]:
        """As in :class:`Folder`."""
        try:
            return os.listdir(self.path)  # noqa: PTH208  # iterdir raises outside of this block
        except OSError:
            return []

    def sizes(self) -> dict[str, int]:
        """As in :class:`Folder`; links count for nothing."""

        def fault(error: OSError) -> None:
            if isinstance(error, PermissionError):
                raise error

        found = os.walk(self.path, onerror=fault)
        paths = (Path(above, name) for above, _, names in found for name in names)
        sizes = {str(path.relative_to(self.path)): _size(path) for path in paths}
        return {path: size for path, size in sizes.items() if size is not None}

    def read(self, name: str) -> bytes:
        """As in :class:`Folder`."""
        return regular_bytes(self.path / name, what="a checkpoint")

    def write(self, name: str, content: bytes) -> None:
        """As in :class:`Folder`; a killed process leaves at most ``.NAME.xxxxxxxx.part``."""
        replace_file(self.path / name, content)

    def rename(self, old: str, new: str) -> None:
        """As in :class:`Folder`."""
        (self.path / old).replace(self.path / new)

    def remove(self, names: Iterable[str]) -> None:
        """As in :class:`Folder`."""
        for name in names:
            remove_file(self.path / name)


def _size(path: Path) -> int | None:
    """Bytes of a regular file; none of anything else, nor of what a worker has just removed."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
