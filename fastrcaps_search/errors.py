"""The errors that callers may catch.

::

    FastrcapsError                 root: one line, meant for a person
    ├── UsageError                 a wrong flag, file or study definition (exit code 2)
    │   ├── DefinitionError        a study file or definition that breaks a rule
    │   ├── StudyMismatchError     a stored study resumed with another definition
    │   └── ExportedNetworkError   an exported network that is missing, changed or unknown
    ├── DataError                  data missing, corrupt or short (exit code 1)
    ├── StoreError                 the database cannot be used (exit code 1)
    │   ├── WrongStoreError        not a database of ours (exit code 2)
    │   ├── ReadOnlyStoreError     the database cannot be written
    │   ├── StoreUnavailableError  the database does not answer now, but may later
    │   ├── StudyNotFoundError     the database has no such study (exit code 2)
    │   └── LeaseLostError         another worker has taken the trial over
    ├── DiskError                 the disk or folder refuses what must be written (exit code 1)
    ├── CheckpointError            a checkpoint that cannot be trusted or read (exit code 1)
    ├── LibraryError               a library that cannot be imported (exit code 1)
    ├── RunError                   the run stopped without meeting its budget (exit code 1)
    ├── DivergedError              a non-finite loss; the trial fails
    ├── SuspendedError             the process was suspended; the epoch is trained again
    ├── DeviceError                the device or memory gave out; a fresh process may go on
    ├── NothingFitsError           nothing satisfies the criteria (exit code 3)
    └── InterruptedRunError        stopped on request, state saved (exit code 130)

Each message says what must hold, what came, and the next step, in one line.
"""

from __future__ import annotations

import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 400
"""Characters of what another library says."""


class FastrcapsError(Exception):
    """Root of every error that this package raises on purpose."""

    exit_code = 1


class UsageError(FastrcapsError):
    """A wrong flag, path or file: the user can fix it and try again."""

    exit_code = 2


class DefinitionError(UsageError):
    """A study definition that breaks a rule.

    Args:
        message: What must hold and what came.
        key: The key of the study file, dotted where nested (``space.decoder``).
        file: The study file, where there is one.
    """

    def __init__(self, message: str, *, key: str | None = None, file: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
        self.file = file

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.file, self.key) if part)
        return f"{place}: {self.message}" if place else self.message


class StudyMismatchError(UsageError):
    """A stored study was resumed with another space, direction or protocol."""


class ExportedNetworkError(UsageError):
    """A folder that holds no exported network, or one that is not as it was written."""


class DataError(FastrcapsError):
    """Image data that is missing, corrupt or short."""


class StoreError(FastrcapsError):
    """The database cannot be opened, read or written."""


class WrongStoreError(StoreError):
    """The file that was named is missing, or is not a database of ours."""

    exit_code = 2


class ReadOnlyStoreError(StoreError):
    """The database or its folder cannot be written."""


class StoreUnavailableError(StoreError):
    """The database does not answer now, or holds a lock for too long: it may answer later."""


class StudyNotFoundError(StoreError):
    """The database holds no study of that name."""

    exit_code = 2


class LeaseLostError(StoreError):
    """The trial's fencing token is no longer this worker's: nothing may be written."""


class DiskError(FastrcapsError):
    """The disk is full or a folder cannot be written."""


class CheckpointError(FastrcapsError):
    """A checkpoint that is damaged or belongs to something else."""


class LibraryError(FastrcapsError, ImportError):
    """A library that is missing, broken or too old."""


class RunError(FastrcapsError):
    """A run that stopped before its budget was met."""


class DivergedError(FastrcapsError):
    """A loss or value became NaN or infinite."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"diverged at epoch {epoch}")
        self.epoch = epoch


class SuspendedError(FastrcapsError):
    """The process or machine was suspended during an epoch, whose seconds mean nothing."""


class DeviceError(FastrcapsError):
    """The device or the machine's memory gave out: not a fault of the configuration."""


class NothingFitsError(FastrcapsError):
    """No trial satisfies the criteria."""

    exit_code = 3


class InterruptedRunError(FastrcapsError):
    """Stopped by Ctrl-C, SIGTERM or the like after the state was saved."""

    exit_code = 130


@contextmanager
def importing() -> Iterator[None]:
    """Say in one line which library keeps modules of this package from being imported.

    Raises:
        LibraryError: One does.
    """
    try:
        yield
    except FastrcapsError:
        raise
    except Exception as error:
        # From torch come OSError, ImportError, RuntimeError and more; numpy writes an essay.
        came = textwrap.shorten(f"{type(error).__name__}: {error}", _LONGEST)
        raise LibraryError(
            f"{_culprit(error)} must be importable, got {came}; "
            "install it again with what it needs, or give it memory (`ulimit -v`)"
        ) from error


def _culprit(error: Exception) -> str:
    """The library that was being imported, or else the one that an error is about."""
    frames = traceback.walk_tb(error.__traceback__)
    names = [str(frame.f_globals.get("__name__", "")) for frame, _ in frames]
    names += [error.name or ""] if isinstance(error, ImportError) else []
    roots = (name.partition(".")[0] for name in names)
    own = {"", __package__, "__main__", "importlib"}
    return next((root for root in roots if root not in own), "every library")
