"""Databases: their URLs, their connections, and their errors in one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from fastrcaps_search.errors import DiskError, ReadOnlyStoreError, StoreError, WrongStoreError
from fastrcaps_search.store.place import Location

BUSY_SECONDS = 60.0


def writing_engine(location: Location) -> Engine:
    """Connections whose every transaction takes the write lock at its start.

    The file and its tables must exist already, or be created under the admission lock.
    """
    engine = sqlalchemy.create_engine(location.url, connect_args={"timeout": BUSY_SECONDS})
    make_immediate(engine)
    return engine


def make_immediate(engine: Engine) -> None:
    """Begin every transaction with the write lock, and keep a write-ahead log.

    SQLite ignores ``SELECT .. FOR UPDATE``: two transactions that read before they write would
    both believe their reading.
    """

    def connected(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
        cursor.execute("PRAGMA journal_mode=WAL")
        # A commit is on the disk before the files that it makes superfluous are removed.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    def begun(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def reading_engine(location: Location, *, immutable: bool = False) -> Engine:
    """Connections that can only read; the file must exist.

    Args:
        location: The database.
        immutable: Whether to read a file beside which nothing can be written, as reading next to
            a writer needs; a writer's newest rows may then be missing.

    Raises:
        WrongStoreError: No such file.
    """
    if location.path.is_dir():
        raise WrongStoreError(
            f"{location.path} must be a database, got a folder; name a file with --storage, "
            f"for example {location.path / 'fastrcaps.db'}"
        )
    if not location.path.is_file():
        raise WrongStoreError(
            f"{location.path} must be a database with a study, got no such file; start one with "
            "`fastrcaps-search run`, or name another with --storage"
        )
    quoted = str(location.path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    url = sqlalchemy.URL.create(
        "sqlite",
        database=f"file:{quoted}",
        query={"mode": "ro", "uri": "true", **({"immutable": "1"} if immutable else {})},
    )
    return sqlalchemy.create_engine(url, connect_args={"timeout": BUSY_SECONDS})


@contextmanager
def store_errors(location: Location) -> Iterator[None]:
    """Turn what SQLAlchemy raises into one line that names the database."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _translated(error, location) from error


def _translated(error: SQLAlchemyError, location: Location) -> DiskError | StoreError:
    cause = str(error.orig) if isinstance(error, DBAPIError) and error.orig else str(error)
    cause = cause.splitlines()[0]
    path = location.path
    if "disk is full" in cause:
        return DiskError(
            f"{path}: the disk must have room for the database, got: {cause}; "
            "free some space and run the same line again, nothing is lost"
        )
    if "readonly" in cause or "read-only" in cause or "unable to open" in cause:
        return ReadOnlyStoreError(
            f"{path} must be writable, and so must its folder, got: {cause}; "
            "mend that, or name another database with --storage"
        )
    if "not a database" in cause or "malformed" in cause:
        return WrongStoreError(
            f"{path} must be an SQLite database, got: {cause}; name another with --storage"
        )
    if "locked" in cause:
        return StoreError(
            f"{path} must be free for writing within {BUSY_SECONDS:g} s, got: {cause}; "
            "stop the program that holds it"
        )
    return StoreError(f"{path}: the database refused a request: {cause}")
