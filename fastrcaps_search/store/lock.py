"""The admission lock of a study: a file's for SQLite, an advisory one of a PostgreSQL server.

Kernel and server free it when its holder dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import sqlalchemy
from sqlalchemy import Connection, Engine

from fastrcaps_search.errors import (
    DiskError,
    FastrcapsError,
    ReadOnlyStoreError,
    StoreError,
    StoreUnavailableError,
)
from fastrcaps_search.store.engine import BUSY_SECONDS, IDLE_SECONDS, removed
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.refusals import store_errors

FIRST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.05
REFUSALS: dict[int, type[FastrcapsError]] = {
    errno.ENOSPC: DiskError,
    errno.EACCES: ReadOnlyStoreError,
    errno.EPERM: ReadOnlyStoreError,
    errno.EROFS: ReadOnlyStoreError,
}


@dataclass(frozen=True, slots=True)
class AdmissionLock:
    """The one lock of a study.

    Attributes:
        location: The database.
        engine: Connections to it.
        name: The study, or another word for what is locked; an SQLite file has one lock for all.
        wait_seconds: Longest wait for the lock in one attempt.
        idle_seconds: Silence after which a server takes the lock from its holder.
    """

    location: Location
    engine: Engine
    name: str
    wait_seconds: float = field(default=BUSY_SECONDS, kw_only=True)
    idle_seconds: float = field(default=IDLE_SECONDS, kw_only=True)

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Hold the lock; gives what raises unless it is held still.

        Raises:
            StoreUnavailableError: Another process holds it for too long.
        """
        if self.location.path is not None:
            with self._file():
                yield lambda: None
        else:
            with self._server() as connection:
                # The server takes it from those that are silent for too long.
                yield lambda: connection.execute(sqlalchemy.text("SELECT 1")).close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Hold the lock for one transaction.

        On a server the transaction itself holds the lock: whoever loses the one, by a silence
        that was too long, has lost the other too.
        """
        if self.location.path is None:
            with self._server() as connection:
                yield connection
        else:
            with self._file(), store_errors(self.location), self.engine.begin() as connection:
                yield connection

    @contextmanager
    def _server(self) -> Iterator[Connection]:
        with store_errors(self.location), self.engine.begin() as connection:
            # Those of the connection suit claiming, not entering.
            limits = {
                "lock_timeout": self.wait_seconds,
                "idle_in_transaction_session_timeout": self.idle_seconds,
            }
            for setting, seconds in limits.items():
                connection.exec_driver_sql(f"SET LOCAL {setting} = '{seconds:g}s'")
            connection.execute(
                sqlalchemy.text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"),
                {"name": f"fastrcaps-search/{self.name}"},
            )
            yield connection

    @contextmanager
    def _file(self) -> Iterator[None]:
        path = self._lock_path()
        end = time.monotonic() + self.wait_seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            with self._open(path) as file:
                if _locked(file, path):
                    yield
                    return
            if time.monotonic() >= end:
                raise StoreUnavailableError(
                    f"{path} must be free within {self.wait_seconds:g} s, but a process holds "
                    "it, maybe a suspended one; let it go on, or end it"
                )
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _lock_path(self) -> Path:
        assert self.location.path is not None
        return self.location.path.with_name(self.location.path.name + ".lock")

    def _open(self, path: Path) -> IO[str]:
        try:
            return path.open("a")
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> FastrcapsError:
        path = self.location.path
        if error.errno == errno.ENOENT and path is not None:
            return removed(path)
        return REFUSALS.get(error.errno or 0, StoreError)(
            f"{self._lock_path().parent} must be a folder that can be written, got: "
            f"{error.strerror}; mend it, or name another database with --storage"
        )


def _locked(file: IO[str], path: Path) -> bool:
    """Whether the lock was got; not that of a file that was removed meanwhile."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreError(
            f"{path} must be on a local disk that knows file locks, got: {error.strerror}; "
            "name another database with --storage"
        ) from error
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
