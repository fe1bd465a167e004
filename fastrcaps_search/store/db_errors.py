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

from fastrcaps_search.disk import FULL, owned
from fastrcaps_search.errors import (
    DiskError,
    FastrcapsError,
    ReadOnlyStoreError,
    StoreError,
    StoreUnavailableError,
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
AGAIN = "run the same line again, nothing is lost"
ANOTHER = "name another database with --storage"
REPORT = "this may be a fault of fastrcaps-search, which --debug or the worker's log can trace"
LOCK_TIMEOUT = "55P03"
BY_DISK = ("disk I/O error", "locking protocol", "locked")
"""What SQLite says where its disk may refuse."""
PROBE_BYTES = 65_536
PASSING = ("08", "25P", "40", "53", "55", "57")
"""Beginnings of the states that pass: lost connections, time-outs, deadlocks, shutdowns."""
_used: set[str] = set()
"""Databases, as they are shown, that this process or the one that started it could use."""


def note_used(location: Location) -> None:
    """From now on it is an outage when the server is read-only, or the disk refuses."""
    _used.add(location.shown)


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
    return _of_postgresql(error, original, cause, location.shown)


def _of_sqlite(error: Exception, cause: str, path: Path) -> FastrcapsError:
    refused = _refusal(path) if any(sign in cause for sign in BY_DISK) else 0
    if refused:
        cause = f"{cause} ({os.strerror(refused)})"
    kind: type[FastrcapsError] = StoreError
    who, must, advice = str(path), "take every request", REPORT
    if refused == errno.EFBIG:
        must = "be allowed to grow"
        advice = f"raise the limit on the size of files (`ulimit -f`) and {AGAIN}"
    elif "disk is full" in cause or refused in FULL:
        kind, who, must = DiskError, f"{path}: the disk", "have room for the database"
        advice = f"free some space and {AGAIN}"
    elif "unable to open" in cause and not path.exists():
        return removed(path)
    elif "unable to open" in cause and not os.access(path, os.R_OK):
        kind, who, must = ReadOnlyStoreError, owned(path), "be readable"
        advice = f"fix that, or {ANOTHER}"
    elif any(sign in cause for sign in ("readonly", "read-only", "unable to open")):
        closed = _closed(path)
        kind, who = ReadOnlyStoreError, closed or who
        must = "be writable" if closed else "be writable, and so must its folder"
        advice = f"fix that, or {ANOTHER}"
    elif "not a database" in cause or "malformed" in cause:
        kind, must, advice = WrongStoreError, "be an SQLite database", ANOTHER
    elif _came_between(error) or ("locked" in cause and not refused):
        kind, must = StoreUnavailableError, f"be free for writing within {BUSY_SECONDS:g} s"
        advice = "stop the program that holds it"
    elif any(sign in cause for sign in BY_DISK):
        # What could be used before is out; any other disk is refused for good.
        kind = StoreUnavailableError if who in _used else StoreError
        must = "be on a disk that can hold and lock an SQLite database"
        advice = (
            "NFS, 9p and the like cannot: name a file on a local disk or a PostgreSQL database "
            "with --storage, or look after the disk"
        )
    return kind(f"{who} must {must}, got: {cause}; {advice}")


def _refusal(path: Path) -> int:
    """What the system says to a lock, and a write as far from the start: SQLite does not tell.

    Returns:
        The error's number; 0 where nothing is refused.
    """
    beside = [path, path.with_name(f"{path.name}-wal")]
    try:
        end = max((file.stat().st_size for file in beside if file.exists()), default=0)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            # Of the database itself, the lock would end that of SQLite.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(file.fileno(), bytes(PROBE_BYTES), end)
    except PermissionError:
        # Beside the database nothing need be made.
        return 0
    except OSError as error:
        return error.errno or 0
    return 0


def _closed(path: Path) -> str:
    """The file of a database that cannot be written, and whose it is; empty where all can."""
    for ending in ("-shm", "-wal", "-journal", ""):
        file = path.with_name(f"{path.name}{ending}")
        if os.access(path.parent, os.W_OK) and file.exists() and not os.access(file, os.W_OK):
            return owned(file)
    return ""


def _of_postgresql(
    error: Exception, original: BaseException, cause: str, shown: str
) -> FastrcapsError:
    state = getattr(original, "sqlstate", None) or ""
    # Without a state it is the driver's own, which may be a fault of the request.
    is_operational = type(original).__name__ in ("OperationalError", "InterfaceError")
    passing = state.startswith(PASSING) if state else is_operational
    kind: type[FastrcapsError] = StoreError
    must, advice = "take every request", REPORT
    if state == "53100":
        kind, shown, must = DiskError, f"{shown}: the server's disk", "have room"
        advice = "free some space there"
    elif state == READ_ONLY and shown in _used:
        kind, must = StoreUnavailableError, "be writable, as it was"
        advice = "end a switchover to another server, or let this one be written again"
    elif state == READ_ONLY:
        kind, must, advice = ReadOnlyStoreError, "be writable", ANOTHER
    elif state == "42501":
        kind, must = ReadOnlyStoreError, "allow this user to read and write"
        advice = f"grant it, or {ANOTHER}"
    elif state == LOCK_TIMEOUT:
        kind, must = StoreUnavailableError, "be free for writing in time"
        advice = "end the program that holds it, or let it go on if it is suspended"
    elif any(sign in cause for sign in UNKNOWN) and not state.startswith("42"):
        kind, must = WrongStoreError, "be a database that this user may open"
        advice = "fix the URL of --storage"
    elif any(sign in cause for sign in POOLED):
        kind, must = WrongStoreError, "be pooled by transaction or session"
        advice = "change that, or leave out options (of the URL or PGOPTIONS) that it refuses"
    elif any(sign in cause for sign in TAKEN):
        kind, must = StoreUnavailableError, "have a connection free for each worker and two more"
        advice = "allow this user more, or start fewer workers"
    elif _came_between(error) or isinstance(error, OperationalError) or passing:
        kind, must = StoreUnavailableError, "answer"
        advice = "start the server or fix the way to it"
    return kind(f"{shown} must {must}, got: {cause}; {advice}")


def _came_between(error: Exception) -> bool:
    """Whether the connection was lost, whatever the request."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, InterfaceError | PendingRollbackError | PoolTimeoutError)
