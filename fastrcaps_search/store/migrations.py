"""Our tables: making them, and refusing those of another version."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import Connection, func, select

from fastrcaps_search.errors import StoreError, WrongStoreError
from fastrcaps_search.store.schema import metadata, versions

VERSION = 8
"""Version of the tables, and of what their values mean: the networks of versions 1 to 5 were
others, up to version 6 trials were claimed, not runs, and definitions up to version 7 had a key
for early stopping."""
CREATING = 0x66617374  # "fast"
"""Number of the server's lock for those who make the tables."""


def create(connection: Connection) -> None:
    """Create the tables unless there are some."""
    if connection.dialect.name == "postgresql":
        # An SQLite file is locked already, by the transaction.
        connection.execute(select(func.pg_advisory_xact_lock(CREATING)))
    # Here a first migration would bring tables of version 8 up to date.
    if _version(connection) is None:
        metadata.create_all(connection)
        connection.execute(versions.insert().values(version=VERSION))


def _version(connection: Connection) -> int | None:
    """Version of the tables; ``None`` where there are none, or were not all made."""
    if not sqlalchemy.inspect(connection).has_table(versions.name):
        return None
    found: int | None = connection.scalar(select(versions.c.version))
    return found


def check(connection: Connection, *, shown: str) -> None:
    """Make sure that the tables are there, and of this version.

    Raises:
        StoreError: It has no tables of ours, or tables of another version.
    """
    found = _version(connection)
    if found is None:
        raise WrongStoreError(
            f"{shown} must hold studies of fastrcaps-search, got a database without its "
            "tables; name another with --storage"
        )
    if found != VERSION:
        raise StoreError(
            f"{shown} must have tables of version {VERSION}, which alone this release reads, "
            f"got version {found}; start a new database with --storage"
        )
