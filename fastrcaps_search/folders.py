"""Folders whose files are whole or absent: on a disk, or in object storage by URL.

Object storage is reached through fsspec, which is imported when a URL is opened and finds the
package of its scheme: s3fs for ``s3://``. Nothing there is appended to or renamed, so that only
checkpoints and networks are kept in it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fastrcaps_search.disk import (
    MOST_BYTES,
    disk_errors,
    regular_bytes,
    remove_file,
    replace_file,
)
from fastrcaps_search.errors import CheckpointError, FastrcapsError, UsageError
from fastrcaps_search.typed import URL

Answer = TypeVar("Answer")
ANSWER_SECONDS = 15.0
"""How long object storage may take to list, copy or remove."""
CONTENT_SECONDS = 60.0
"""How long it may take to store or give a file, an outage included."""
AGAIN_SECONDS = 1.0
LONGEST = 300
"""Characters of what another library says."""
USER = re.compile(r"(?<=://)[^/@\s]*@")


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


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """What object storage keeps under a URL.

    Attributes:
        url: Without a trailing slash. It holds no password (:mod:`fastrcaps_search.store.location`
            refuses it), and may be shown.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def names(self) -> list[str]:
        """As in :class:`Folder`."""
        with suppress(FileNotFoundError), _said():
            files, path = self._opened()
            found = files.ls(path, detail=False, **_within(files, ANSWER_SECONDS))
            # Some servers keep a folder, with no name here, where there was a file.
            return [name for name in (one.rpartition("/")[2] for one in found) if name]
        return []

    def sizes(self) -> dict[str, int]:
        """As in :class:`Folder`."""
        with suppress(FileNotFoundError), _said():
            files, path = self._opened()
            found = files.find(path, detail=True, **_within(files, CONTENT_SECONDS))
            return {
                name.removeprefix(path).strip("/"): int(facts["size"] or 0)
                for name, facts in found.items()
                if name != path and not name.endswith("/")
            }
        return {}

    def read(self, name: str) -> bytes:
        """As in :class:`Folder`."""

        def read() -> bytes:
            files, path = self._opened(name)
            limit = _within(files, CONTENT_SECONDS)
            if (found := files.info(path, **limit)["size"]) > MOST_BYTES:
                raise CheckpointError(f"{self}/{name} must be a checkpoint, got: {found} bytes")
            return bytes(files.cat_file(path, **limit))

        advice = "run the same line again once it can be, to go on from the last good checkpoint"
        with disk_errors("a checkpoint", self.url, advice=advice, must="readable"):
            try:
                return _patiently(read)
            except FileNotFoundError as error:
                raise CheckpointError(f"{self}/{name} must be a checkpoint, got: none") from error

    def write(self, name: str, content: bytes) -> None:
        """As in :class:`Folder`: by one request, or one upload that counts when it is complete."""

        def write() -> None:
            files, path = self._opened(name)
            files.pipe_file(path, content, **_within(files, CONTENT_SECONDS))

        _patiently(write)

    def rename(self, old: str, new: str) -> None:
        """As in :class:`Folder`: copied, then removed."""
        if old == new:
            return
        with _said():
            files, path = self._opened(old)
            limit = _within(files, ANSWER_SECONDS)
            files.cp_file(path, path.removesuffix(old) + new, **limit)
        self.remove([old])

    def remove(self, names: Iterable[str]) -> None:
        """As in :class:`Folder`; where one cannot be, no others are tried."""
        with suppress(OSError):
            for name in names:
                with suppress(FileNotFoundError), _said():
                    files, path = self._opened(name)
                    files.rm_file(path, **_within(files, ANSWER_SECONDS))

    def require_usable(self) -> None:
        """Write, read, find and remove a small file.

        Raises:
            DiskError: That cannot be done.
            UsageError: A package is not installed.
        """
        name, content = f"probe-{secrets.token_hex(8)}", secrets.token_bytes(16)
        with disk_errors("files", self.url, advice="check bucket, credentials and permissions"):
            with _said():
                files, path = self._opened(name)
                limit = _within(files, ANSWER_SECONDS)
                files.pipe_file(path, content, **limit)
                is_whole = files.cat_file(path, **limit) == content and name in self.names()
            self.remove([name])
            if not is_whole or name in self.names():
                raise OSError(errno.EIO, "a file that is not as it was written, or that stays")

    def _opened(self, name: str = "") -> tuple[Any, str]:
        """The file system of the URL, which has forgotten what it has seen, and a path in it."""
        scheme = self.url.partition(":")[0]
        try:
            import fsspec

            files, path = fsspec.url_to_fs(f"{self.url}/{name}".rstrip("/"))
        except ImportError as error:
            raise UsageError(
                f"files at {scheme}:// need a package that is not installed ({error}); for s3:// "
                "pip install 'fastrcaps-search[remote]', for others fsspec and theirs"
            ) from None
        except ValueError as error:
            raise UsageError(
                f"files must be in a folder or at a URL that fsspec knows, as s3://bucket/prefix, "
                f"got {scheme}:// ({error})"
            ) from None
        # Another machine may have written there since.
        files.invalidate_cache()
        return files, path


def _size(path: Path) -> int | None:
    """Bytes of a regular file; none of anything else, nor of what a worker has just removed."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _within(files: Any, seconds: float) -> dict[str, float]:  # noqa: ANN401  # of no type
    """What ends a call after so long, of those that can be ended."""
    return {"timeout": seconds} if files.async_impl else {}


def _patiently(call: Callable[[], Answer]) -> Answer:
    """The answer of a call that is made again for a minute while there is none.

    Raises:
        FileNotFoundError: What it asks for is not there.
        OSError: There was none.
    """
    end = time.monotonic() + CONTENT_SECONDS
    while True:
        try:
            with _said():
                return call()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:
            if time.monotonic() >= end:
                raise
        time.sleep(AGAIN_SECONDS)


@contextmanager
def _said() -> Iterator[None]:
    """Have whatever a library of object storage raises as an OSError that says it in a line.

    Raises:
        OSError: Instead of any other error; FileNotFoundError and PermissionError stay what they
            are.
    """
    try:
        yield
    except FastrcapsError:
        raise
    except Exception as error:
        said = " ".join(USER.sub("***@", str(error)).split()).rstrip(".")
        if isinstance(error, TimeoutError):
            said = said or "no answer in time"
        elif not isinstance(error, OSError):
            said = f"{type(error).__name__}: {said}"
        numbers = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}
        number = next((n for one, n in numbers.items() if isinstance(error, one)), errno.EIO)
        raise OSError(number, textwrap.shorten(said, LONGEST)) from error
