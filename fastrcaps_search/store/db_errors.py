"""What a database refuses, in one line that names it and says what to do."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import (
    DBAPIError,
    InterfaceError,
    OperationalError,
    PendingRollbackError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fastrcaps_search.disk import FULL, owner_of
from fastrcaps_search.errors import (
    DiskError,
    FastrcapsError,
    ReadOnlyStoreError,
    StoreError,
    StoreUnavailableError,
    UnfitDiskError,
    WrongStoreError,
)
from fastrcaps_search.store.engine import BUSY_SECONDS, READ_ONLY, removed
from fastrcaps_search.store.location import Location

UNKNOWN = (
    *("authentication failed", "no password supplied", "pg_hba.conf", "does not exist"),
    *("no such user", "no such database", "invalid connection option"),
)
"""What PostgreSQL and pgbouncer say to whom they do not know, or of what they do not have."""
POOLED = ("unsupported startup parameter", "statement pooling")
"""What pgbouncer does not pass on."""
TAKEN = ("too many connections", "too many clients", "slots are reserved", "no more connections")
"""What they say while others hold all the connections; the driver gives no state then."""
REPORT = "this may be a fault of fastrcaps-search, which --debug or the worker's log can trace"
LOCK_TIMEOUT = "55P03"
BY_DISK = ("disk I/O error", "locking protocol", "locked")
"""What SQLite says where its disk may refuse."""
PROBE_BYTES = 65_536
PASSING = ("08", "25P", "40", "53", "55", "57")
"""Beginnings of the states that pass: lost connections, time-outs, deadlocks, shutdowns."""
_written: set[str] = set()
"""Databases, as they are shown, that this process or the one that started it has written."""


def note_written(location: Location) -> None:
    """From now on it is an outage when the database or its disk refuses: it could be written."""
    _written.add(location.shown)


@contextmanager
def store_errors(location: Location) -> Iterator[None]:
    """Turn what SQLAlchemy and the drivers raise into one line that names the database."""
    try:
        yield
    except FastrcapsError:
        raise
    except Exception as error:
        # Listeners of connections raise the driver's own.
        driver = type(error).__module__.partition(".")[0]
        if not (isinstance(error, SQLAlchemyError | sqlite3.Error) or driver == "psycopg"):
            raise
        raise translated(error, location) from error


def translated(error: Exception, location: Location) -> FastrcapsError:
    """The error for people; :class:`StoreUnavailableError` where trying again may help."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig else error
    cause = location.redacted((str(original).splitlines() or [type(original).__name__])[0])
    if location.path is not None:
        return _of_sqlite(error, cause, location.path)
    return _of_postgresql(error, original, cause, location)


def _of_sqlite(error: Exception, cause: str, path: Path) -> FastrcapsError:
    refused = _refusal(path) if any(sign in cause for sign in BY_DISK) else OSError()
    if refused.errno:
        cause = f"{cause} ({refused.strerror})"
    if refused.errno == errno.EFBIG:
        return StoreError(
            f"{path} must be allowed to grow, got: {cause}; raise the limit on the size of files "
            "(`ulimit -f`) and run the same line again, nothing is lost"
        )
    if "disk is full" in cause or refused.errno in FULL:
        return DiskError(
            f"{path}: the disk must have room for the database, got: {cause}; "
            "free some space and run the same line again, nothing is lost"
        )
    if "unable to open" in cause and not path.exists():
        return removed(path)
    if any(sign in cause for sign in ("readonly", "read-only", "unable to open")):
        return ReadOnlyStoreError(
            f"{_closed(path) or f'{path} must be writable, and so must its folder'}, got: "
            f"{cause}; fix that, or name another database with --storage"
        )
    if "not a database" in cause or "malformed" in cause:
        return WrongStoreError(
            f"{path} must be an SQLite database, got: {cause}; name another with --storage"
        )
    if _came_between(error) or ("locked" in cause and not refused.errno):
        return StoreUnavailableError(
            f"{path} must be free for writing within {BUSY_SECONDS:g} s, got: {cause}; "
            "stop the program that holds it"
        )
    if any(sign in cause for sign in BY_DISK):
        kind = StoreUnavailableError if str(path) in _written else UnfitDiskError
        return kind(
            f"{path} must be on a disk that can hold and lock an SQLite database, got: {cause}; "
            "NFS, 9p and the like cannot: name a file on a local disk or a PostgreSQL database "
            "with --storage, or look after the disk"
        )
    return StoreError(f"{path} must take every request, got: {cause}; {REPORT}")


def _refusal(path: Path) -> OSError:
    """What the system says to a lock, and a write as far from the start: SQLite does not tell."""
    beside = [path, path.with_name(f"{path.name}-wal")]
    try:
        end = max((file.stat().st_size for file in beside if file.exists()), default=0)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            # Of the database itself, the lock would end that of SQLite.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(file.fileno(), bytes(PROBE_BYTES), end)
    except OSError as error:
        # Beside the database nothing need be made.
        return OSError() if isinstance(error, PermissionError) else error
    return OSError()


def _closed(path: Path) -> str:
    """The file of a database that cannot be written, and whose it is; empty where all can."""
    for ending in ("-shm", "-wal", "-journal", ""):
        file = path.with_name(f"{path.name}{ending}")
        if os.access(path.parent, os.W_OK) and file.exists() and not os.access(file, os.W_OK):
            return f"{file}, which belongs to {owner_of(file)}, must be writable"
    return ""


def _of_postgresql(
    error: Exception, original: BaseException, cause: str, location: Location
) -> FastrcapsError:
    shown = location.shown
    state = getattr(original, "sqlstate", None) or ""
    if state == "53100":
        return DiskError(
            f"{shown}: the server's disk must have room, got: {cause}; free some space there"
        )
    if state == READ_ONLY and shown in _written:
        return StoreUnavailableError(
            f"{shown} must be writable, as it was, got: {cause}; end a switchover to another "
            "server, or let this one be written again"
        )
    if state == READ_ONLY:
        return ReadOnlyStoreError(
            f"{shown} must be writable, got: {cause}; name another database with --storage"
        )
    if state == "42501":
        return ReadOnlyStoreError(
            f"{shown} must allow this user to read and write, got: {cause}; grant it, or name "
            "another database with --storage"
        )
    if state == LOCK_TIMEOUT:
        return StoreUnavailableError(
            f"{shown} must be free for writing in time, got: {cause}; end the program that holds "
            "it, or let it go on if it is suspended"
        )
    if any(sign in cause for sign in UNKNOWN) and not state.startswith("42"):
        return WrongStoreError(
            f"{shown} must be a database that this user may open, got: {cause}; fix the URL of "
            "--storage"
        )
    if any(sign in cause for sign in POOLED):
        return WrongStoreError(
            f"{shown} must be pooled by transaction or session, and opened without options in the "
            f"URL or environment (PGOPTIONS) that the pooler refuses, got: {cause}; change that"
        )
    if any(sign in cause for sign in TAKEN):
        return StoreUnavailableError(
            f"{shown} must have a connection free for each worker and two more, got: {cause}; "
            "allow this user more, or start fewer workers"
        )
    # Without a state it is the driver's own, which may be a fault of the request.
    is_operational = type(original).__name__ in ("OperationalError", "InterfaceError")
    passing = state.startswith(PASSING) if state else is_operational
    if _came_between(error) or isinstance(error, OperationalError) or passing:
        return StoreUnavailableError(
            f"{shown} must answer, got: {cause}; start the server or fix the way to it"
        )
    return StoreError(f"{shown} must take every request, got: {cause}; {REPORT}")


def _came_between(error: Exception) -> bool:
    """Whether the connection was lost, whatever the request."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, InterfaceError | PendingRollbackError | PoolTimeoutError)
