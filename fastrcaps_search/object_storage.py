"""Folders in object storage, by URL: reached through fsspec, within limits of time.

fsspec is imported when a URL is opened and finds the package of its scheme: s3fs for ``s3://``.
Nothing there is appended to or renamed, so that only checkpoints and networks are kept in it.
"""

from __future__ import annotations

import errno
import re
import secrets
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fastrcaps_search.disk import MOST_BYTES, disk_errors
from fastrcaps_search.errors import (
    CheckpointError,
    DiskError,
    FastrcapsError,
    InterruptedRunError,
    UsageError,
)
from fastrcaps_search.processes import start_thread

Answer = TypeVar("Answer")
ANSWER_SECONDS = 15.0
"""How long object storage may take to list, copy or remove, or to show that it can be used."""
CONTENT_SECONDS = 60.0
"""How long it may take to store or give a file, an outage included."""
AGAIN_SECONDS = 1.0
LOOK_SECONDS = 0.1
"""How often whoever waits looks whether it is to stop."""
LONGEST = 300
"""Characters of what another library says."""
USER = re.compile(r"(?<=://)[^/@\s]*@")
QUERY = re.compile(r"(?<=://)([^?\s\"']*)\?[^\s\"']*")
NO_ANSWER = "no answer in time"
NUMBERS = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}
ADVICE = "check bucket, credentials and permissions"
UNREACHED = (
    "check that its server runs and can be reached from here (network, proxy, AWS_ENDPOINT_URL), "
    "and that there are credentials"
)


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

    def require_usable(self, stop: threading.Event | None = None) -> None:
        """Write, read, find and remove a small file.

        Args:
            stop: Ends the waiting for an answer when it is set.

        Raises:
            DiskError: That cannot be done in time, for want of credentials, rights or an answer.
            InterruptedRunError: Asked to stop.
            UsageError: A package is not installed.
        """
        _require_package(self.url.partition(":")[0])
        try:
            _in_time(self._try_out, stop or threading.Event())
        except OSError as error:
            advice = UNREACHED if error.errno == errno.ETIMEDOUT else ADVICE
            raise DiskError(
                f"files must be writable at {self}, got: {error.strerror}; {advice}"
            ) from error

    def _try_out(self) -> None:
        name, content = f"probe-{secrets.token_hex(8)}", secrets.token_bytes(16)
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
        _require_package(self.url.partition(":")[0])
        import fsspec

        # It may look for credentials, or find that there are none.
        files, path = fsspec.url_to_fs(f"{self.url}/{name}".rstrip("/"))
        # Another machine may have written there since.
        files.invalidate_cache()
        return files, path


def _require_package(scheme: str) -> None:
    """Make sure that URLs of a scheme can be opened.

    Raises:
        UsageError: A package is not installed, or nobody knows the scheme.
    """
    try:
        import fsspec

        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        name = getattr(error.__cause__ or error, "name", None)
        needed = "'fastrcaps-search[remote]'" if scheme == "s3" or name == "fsspec" else name
        raise UsageError(
            f"files at {scheme}:// need a package that is not installed ({error}); "
            f"pip install {needed}"
        ) from None
    except ValueError as error:
        raise UsageError(
            f"files must be in a folder or at a URL that fsspec knows, as s3://bucket/prefix, "
            f"got {scheme}:// ({error})"
        ) from None


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


def _in_time(call: Callable[[], None], stop: threading.Event) -> None:
    """Make a call that may hang, in a thread that is left behind where it does.

    Raises:
        InterruptedRunError: Asked to stop.
        OSError: Of the call, or ETIMEDOUT where it has not ended in time.
    """
    done = Future[None]()

    def work() -> None:
        try:
            call()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    end = time.monotonic() + ANSWER_SECONDS
    start_thread(work)
    while not wait([done], timeout=LOOK_SECONDS).done:
        if stop.is_set():
            raise InterruptedRunError("stopped on request while object storage was awaited")
        if time.monotonic() >= end:
            raise OSError(errno.ETIMEDOUT, NO_ANSWER)
    done.result()


def _line(said: str) -> str:
    """What a library says, as one line that is not too long and has no user and no query."""
    said = " ".join(QUERY.sub(r"\1", USER.sub("***@", said)).split()).rstrip(".")
    return textwrap.shorten(said, LONGEST)


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
        said = _line(str(error))
        if isinstance(error, TimeoutError):
            said = said or NO_ANSWER
        elif not isinstance(error, OSError):
            said = f"{type(error).__name__}: {said}"
        number = next((n for kind, n in NUMBERS.items() if isinstance(error, kind)), errno.EIO)
        if any(word in type(error).__name__ for word in ("Connect", "Timeout")):
            number = errno.ETIMEDOUT
        raise OSError(number, said) from error
