"""Numbered slots of this machine, which all runs and studies of a user share: cores, and names.

A slot is a file in one folder, and who holds the file's lock holds the slot. The kernel frees the
lock when its process dies in any way. The folder has a fixed place, the same for all shells of a
user whatever their ``TMPDIR`` says; where programs see different ``/tmp``, as in containers,
``FASTRCAPS_RUNTIME_DIR`` names one that they share.

A file that is deleted while its slot is held is made anew by the next process, and that slot is
held twice until the first lets it go: a program that empties ``/tmp`` must spare files that were
written within the length of a run.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fastrcaps_search.disk import owned
from fastrcaps_search.errors import DiskError, FastrcapsError, InterruptedRunError, UsageError
from fastrcaps_search.training.resources import core_ids
from fastrcaps_search.typed import path_of

RUNTIME_VARIABLE = "FASTRCAPS_RUNTIME_DIR"
WAIT_SECONDS = 0.5
UNKNOWN = "an unknown process"


class Slots(AbstractContextManager["Slots"]):
    """The slots of one kind that this process holds: no other process holds them.

    There is no queue: a process that waits for several slots gets them when as many are free at
    the moment it tries, and starves while processes that want fewer always come first. In a queue
    one process that is stopped, by Ctrl-Z for instance, would hold up all behind it.

    Args:
        owner: Says to waiting processes who holds the slots: ``worker-0 of study mnist``.
        numbers: Those to choose from; by default the cores that this process may use.
        kind: First word of their files.
        folder: Folder of the slots; by default that of :func:`runtime_folder`.

    Raises:
        UsageError: As for :func:`runtime_folder`.
        DiskError: As for :func:`runtime_folder`.
    """

    def __init__(
        self,
        *,
        owner: str,
        numbers: Iterable[int] | None = None,
        kind: str = "core",
        folder: Path | None = None,
    ) -> None:
        self._owner = owner
        self._folder = runtime_folder(folder)
        chosen = core_ids() if numbers is None else numbers
        self._files = {number: self._folder / f"{kind}-{number}" for number in chosen}
        self._locks: dict[int, FileLock] = {}

    @property
    def held(self) -> list[int]:
        """The slots that this process holds, sorted."""
        return sorted(self._locks)

    def try_claim(self, count: int) -> bool:
        """Hold exactly ``count`` slots, or as many as before where more cannot be had now.

        Args:
            count: Slots to hold; those too many are given back at once.

        Returns:
            Whether ``count`` are held.

        Raises:
            UsageError: There are not so many cores, or the folder is not this user's own.
            DiskError: The folder cannot be written.
        """
        if not 0 <= count <= len(self._files):
            raise UsageError(
                f"threads must be at most {len(self._files)}, the number of cores that this "
                f"process may use, got {count}; use fewer threads"
            )
        before = min(len(self._locks), count)
        self._shrink(before)
        try:
            if before < count:
                runtime_folder(self._folder)
                self._grow(count)
        except OSError as error:
            raise DiskError(
                f"{owned(Path(error.filename or self._folder))} must be a file that can be "
                f"written and locked, got: {error.strerror}; fix it, or name another folder with "
                f"{RUNTIME_VARIABLE}"
            ) from error
        finally:
            if len(self._locks) < count:
                self._shrink(before)
        return len(self._locks) == count

    def claim(self, count: int, *, stop: threading.Event, waits: Callable[[str], None]) -> None:
        """Hold exactly ``count`` slots; wait where they cannot be had, holding none meanwhile.

        Args:
            count: Slots to hold.
            stop: Ends the wait when set.
            waits: Called once, with :meth:`holders`, when there are none to be had.

        Raises:
            InterruptedRunError: ``stop`` is set.
            UsageError: As for :meth:`try_claim`.
            DiskError: As for :meth:`try_claim`.
        """
        told = False
        while not stop.is_set():
            if self.try_claim(count):
                return
            # Two that hold some and want more would wait for each other for ever.
            self.release()
            # Empty where the slots were given back in the meantime.
            if not told and (holders := self.holders()):
                waits(holders)
                told = True
            stop.wait(WAIT_SECONDS)
        raise InterruptedRunError("stopped on request")

    def holders(self) -> str:
        """Who else holds slots: ``process 123 (worker-0 of study mnist)``, or several of these.

        Empty where nobody does, or where the folder cannot be read.
        """
        with suppress(FastrcapsError, OSError):
            runtime_folder(self._folder)
            others = [file for number, file in self._files.items() if number not in self._locks]
            return ", ".join(dict.fromkeys(filter(None, map(_holder, others))))
        return ""

    def release(self) -> None:
        """Give all slots back."""
        self._shrink(0)

    def __exit__(self, *_: object) -> None:
        self.release()

    def _shrink(self, count: int) -> None:
        while len(self._locks) > count:
            self._locks.popitem()[1].release()

    def _grow(self, count: int) -> None:
        for number, file in self._files.items():
            if len(self._locks) < count and number not in self._locks and (lock := _locked(file)):
                self._locks[number] = lock
                # Only for people to read: a full disk does not matter.
                with suppress(OSError):
                    text = f"process {os.getpid()} ({self._owner})"
                    file.write_text(text, errors="replace")


def runtime_folder(folder: Path | None = None) -> Path:
    """The folder of the slots, which is made where it is missing.

    Args:
        folder: Another than ``FASTRCAPS_RUNTIME_DIR``, or a folder of this user's in ``/tmp``.

    Raises:
        UsageError: Another user may write it, or has made it.
        DiskError: It cannot be made.
    """
    if folder is None:
        named = os.environ.get(RUNTIME_VARIABLE)
        folder = path_of(named or f"/tmp/fastrcaps-search-{os.geteuid()}", RUNTIME_VARIABLE)
    try:
        fault = _fault(folder)
    except OSError as error:
        raise DiskError(
            f"{folder} must be a folder that can be made, got: {error.strerror}; "
            f"name another with {RUNTIME_VARIABLE}"
        ) from error
    if fault:
        raise UsageError(
            f"{folder} must be an absolute path of a folder of this user's with mode 0700, "
            f"got {fault}; fix or remove it, or name another with {RUNTIME_VARIABLE}"
        )
    return folder


def _fault(folder: Path) -> str:
    """What is wrong with a folder, made where it is missing; empty where nothing is."""
    if not folder.is_absolute():
        return "a relative path"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return "a file"
    if found.st_uid != os.geteuid():
        return f"a folder of user {found.st_uid}"
    # The bits above these may be inherited from the folder around it.
    mode = found.st_mode & 0o777
    return "" if mode == 0o700 else f"mode {mode:04o}"


def _locked(file: Path) -> FileLock | None:
    """The lock of a file, held; ``None`` where another one holds it."""
    # Where the kernel locks no files, a lock would outlive its process.
    lock = FileLock(file, timeout=0, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _holder(file: Path) -> str:
    """What the holder of a slot has written of itself; empty where nobody holds it."""
    if lock := _locked(file):
        lock.release()
        return ""
    with suppress(OSError):
        return file.read_text(errors="replace") or UNKNOWN
    return UNKNOWN
