"""Connections to a database: how they are opened, and their settings."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy import event, func, select
from sqlalchemy.engine import URL, Engine
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from fastrcaps_search.errors import StoreError, UsageError, WrongStoreError
from fastrcaps_search.store.location import Location

BUSY_SECONDS = 20.0
"""Longest wait for SQLite's write lock, and for a lock of PostgreSQL, in one attempt."""
LOCK_PAUSES_SECONDS = (0.001, 0.004)
"""Shortest and longest pause between two looks at SQLite's write lock."""
IDLE_SECONDS = 15.0
"""PostgreSQL ends the transaction of a client that is silent for so long: a suspended worker must
not hold the study's lock."""
TRANSACTION = {
    # PGTZ would win over an option of the connection.
    "TimeZone": "UTC",
    "lock_timeout": f"{BUSY_SECONDS:g}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS:g}s",
}
"""Settings of PostgreSQL for each transaction."""
CONNECT_SECONDS = 10
KEPT_SECONDS = 1.0
"""A server's connection is kept for transactions that follow each other within this time."""
READ_ONLY = "25006"
"""State of PostgreSQL for a write where nothing can be written."""
READS = "fastrcaps_reads"
"""Option of a connection whose transaction does not write."""
# A peer that has gone without a word is noticed within half a minute, not after two hours.
KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def writing_engine(location: Location) -> Engine:
    """Connections to read and write; an SQLite file must exist.

    Raises:
        UsageError: The driver of the database is not installed.
    """
    engine = _engine(writing_url(location), **engine_settings(location))
    prepare_writing(engine, location)
    return engine


def writing_url(location: Location) -> URL:
    """SQLAlchemy's URL to read and write."""
    if location.path is None:
        return sqlalchemy.make_url(location.url)
    # Without the mode, a file that was removed meanwhile would be made again, empty.
    return _sqlite_url(location.path, mode="rw")


def engine_settings(location: Location) -> dict[str, Any]:
    """Arguments of ``create_engine`` that suit the database."""
    if location.path is not None:
        return {"connect_args": {"timeout": BUSY_SECONDS}}
    return {
        "pool_pre_ping": True,
        # One, and for a moment another one for the thread that renews a lease.
        "pool_size": 1,
        "max_overflow": 1,
        # It would ask the server for a type that we do not have, in each connection.
        "use_native_hstore": False,
        "connect_args": {
            "connect_timeout": CONNECT_SECONDS,
            # Else it is the database's, or PGCLIENTENCODING's.
            "client_encoding": "utf8",
            "application_name": "fastrcaps-search",
            # A pooler such as pgbouncer may give each transaction another session of the server.
            "prepare_threshold": None,
            **KEEPALIVE,
        },
    }


def prepare_writing(engine: Engine, location: Location) -> None:
    """Set up the connections and transactions of an engine, ours or Optuna's."""
    if location.path is not None:
        _make_immediate(engine, location.path)
    else:
        event.listen(engine, "begin", partial(_set_up_transaction, location))
        event.listen(engine, "handle_error", _leave_read_only)
        _give_back_idle(engine)


def _set_up_transaction(location: Location, connection: sqlalchemy.Connection) -> None:
    """Settings of this transaction alone: the session may be another one's next.

    Raises:
        WrongStoreError: It may write, into a database that cannot hold every text.
    """
    settings = dict(TRANSACTION)
    session: Any = connection.connection.dbapi_connection
    encoding = session.info.parameter_status("server_encoding")
    if connection.get_execution_options().get(READS):
        # By SQLAlchemy's own option, all later ones would write even where the server says no.
        settings["transaction_read_only"] = "on"
    elif encoding not in (None, "UTF8"):
        raise WrongStoreError(
            f"{location.shown} must be encoded in UTF8, to hold every text, got {encoding}; make "
            "one by `createdb --encoding=UTF8 --template=template0 --locale=C NAME` and name it "
            "with --storage"
        )
    connection.execute(select(*(func.set_config(*one, True) for one in settings.items())))


def _leave_read_only(context: ExceptionContext) -> None:
    """Connect anew to a server that cannot be written: after a switchover another one can."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def _give_back_idle(engine: Engine) -> None:
    """Close the connection after a transaction that no other has preceded within a second.

    A worker that trains has none then, as it renews its lease all along.
    """
    before = time.monotonic()

    def used(connection: object, entry: ConnectionPoolEntry) -> None:
        nonlocal before
        now = time.monotonic()
        if now - before > KEPT_SECONDS:
            entry.invalidate()
        before = now

    event.listen(engine, "checkin", used)


def snapshot_options(location: Location) -> dict[str, Any]:
    """Options of a connection whose transaction only reads, and sees one state of the database."""
    on_server = {"isolation_level": "REPEATABLE READ"} if location.path is None else {}
    return {READS: True, **on_server}


def _begin_reading(connection: sqlalchemy.Connection) -> None:
    # The driver begins none for a SELECT, and each would see another state.
    connection.exec_driver_sql("BEGIN")


def _begin_writing(connection: sqlalchemy.Connection) -> None:
    """Begin with the write lock, once it is free."""
    # SQLite itself looks after ever longer pauses: one of eight was passed over for seconds.
    connection.exec_driver_sql("PRAGMA busy_timeout=0")
    try:
        _once_free(connection.exec_driver_sql, "BEGIN IMMEDIATE")
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")


def _once_free(execute: Callable[[str], object], statement: str) -> None:
    """Ask again and again, after short pauses, for what needs the write lock."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            execute(statement)
        except (OperationalError, sqlite3.OperationalError) as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(random.uniform(*LOCK_PAUSES_SECONDS))
        else:
            return


def _make_immediate(engine: Engine, path: Path) -> None:
    """Begin every transaction that may write with the write lock, and keep a write-ahead log.

    SQLite ignores ``SELECT .. FOR UPDATE``: two transactions that read before they write would
    both believe their reading.
    """
    opened: dict[str, tuple[int, int]] = {}

    def connected(connection: sqlite3.Connection, record: object) -> None:
        _leave_transactions(connection, record)
        # Of several that are the first, SQLite refuses some without a wait.
        _once_free(connection.execute, "PRAGMA journal_mode=WAL")
        # A commit is on the disk before the files that it makes superfluous are removed.
        connection.execute("PRAGMA synchronous=FULL")
        _require_same(path, opened)

    def begun(connection: sqlalchemy.Connection) -> None:
        _require_same(path, opened)
        if connection.get_execution_options().get(READS):
            _begin_reading(connection)
        else:
            _begin_writing(connection)

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def _require_same(path: Path, opened: dict[str, tuple[int, int]]) -> None:
    """Refuse to write into a file that has no name any more: nobody would read it.

    Args:
        path: The SQLite file.
        opened: Device and inode of the file that was opened first, kept here.
    """
    try:
        found = os.stat(path)  # noqa: PTH116  # called for every transaction
    except FileNotFoundError:
        raise removed(path) from None
    except OSError:
        return
    if not opened and found.st_nlink > 1:
        raise StoreError(
            f"{path} must have one name, got {found.st_nlink} (hard links): each name has a log "
            "of its own, and rows would be lost; copy the file instead, and remove the link"
        )
    identity = (found.st_dev, found.st_ino)
    if opened.setdefault("file", identity) != identity:
        raise removed(path)


def removed(path: Path) -> StoreError:
    """The error for a database file that is no longer the one that was opened."""
    return StoreError(
        f"{path} must stay in its place while it is used, but the file was removed or replaced; "
        "put it back with its -wal file, or begin anew with another --storage"
    )


def reading_engine(location: Location, *, immutable: bool = False) -> Engine:
    """Connections that can only read; an SQLite file must exist.

    Args:
        location: The database.
        immutable: Whether to read a file beside which nothing can be written, as reading next to
            a writer needs; a writer's newest rows may then be missing.

    Raises:
        WrongStoreError: No such file.
        UsageError: The driver of the database is not installed.
    """
    path = location.path
    if path is None:
        return writing_engine(location).execution_options(**{READS: True})
    require_file(location)
    options = {"immutable": "1"} if immutable else {}
    engine = _engine(_sqlite_url(path, mode="ro", **options), **engine_settings(location))
    event.listen(engine, "connect", _leave_transactions)
    event.listen(engine, "begin", _begin_reading)
    return engine


def require_file(location: Location) -> None:
    """Make sure that an SQLite file is there.

    Raises:
        WrongStoreError: It is not.
    """
    path = location.path
    if path is not None and path.is_dir():
        raise WrongStoreError(
            f"{path} must be a database, got a folder; name a file with --storage, "
            f"for example {path / 'fastrcaps.db'}"
        )
    if path is not None and not path.is_file():
        came = "no file" if path.exists() else "no such file"
        raise WrongStoreError(
            f"{path} must be a database with a study, got {came}; start one with "
            "`fastrcaps-search run`, or name another with --storage"
        )


def _leave_transactions(connection: sqlite3.Connection, record: object) -> None:
    """Let the driver begin no transaction of its own."""
    connection.isolation_level = None


def _sqlite_url(path: Path, **options: str) -> URL:
    # Of its bytes, which need not be of any encoding.
    database = f"file:{quote(os.fsencode(path))}"
    return URL.create("sqlite", database=database, query={**options, "uri": "true"})


def _engine(url: URL, **settings: Any) -> Engine:  # noqa: ANN401  # create_engine's own
    try:
        return sqlalchemy.create_engine(url, **settings)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"PostgreSQL needs the driver {error.name}, which is not installed; "
            "pip install 'fastrcaps-search[postgresql]'"
        ) from None
    except (ArgumentError, TypeError, ValueError):
        # The trace would hold the URL.
        raise UsageError("storage must be a URL whose options the database driver knows") from None
