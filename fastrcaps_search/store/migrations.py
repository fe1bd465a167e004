"""Versions of our tables: making them, bringing them up to date, reading older ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import Column, ColumnElement, Connection, Engine, Table
from sqlalchemy.schema import CreateColumn

from fastrcaps_search.errors import StoreError, WrongStoreError
from fastrcaps_search.store.schema import (
    claims,
    crews,
    epochs,
    insert_into,
    leases,
    metadata,
    runs,
    studies,
    trials,
    versions,
)
from fastrcaps_search.store.spreads import fill_spreads

VERSION = 5
"""Version of the tables; a change of them needs a step in ``MIGRATIONS``."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A step from the version of the tables before.

    Attributes:
        version: Version that it leads to.
        name: What it adds.
        tables: New tables.
        columns: New columns of tables that were there.
        fill: Stores in what is new what follows from what was there.
    """

    version: int
    name: str
    tables: tuple[Table, ...] = ()
    columns: tuple[Column[Any], ...] = ()
    fill: Callable[[Connection], None] | None = None

    def apply(self, connection: Connection) -> None:
        """Add what is not there yet."""
        metadata.create_all(connection, tables=self.tables)
        for column in self.columns:
            present = sqlalchemy.inspect(connection).get_columns(column.table.name)
            if column.name not in {known["name"] for known in present}:
                added = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {added}")
        if self.fill is not None:
            self.fill(connection)


def keep_claims(connection: Connection, *those: ColumnElement[bool]) -> None:
    """Store what leases say of their claims, for when the leases are gone."""
    names = claims.c.keys()
    # SQLite needs a condition between a SELECT and ON CONFLICT.
    held = sqlalchemy.select(*(leases.c[name] for name in names))
    held = held.where(sqlalchemy.true(), *those)
    kept = insert_into(connection, claims).from_select(names, held)
    connection.execute(kept.on_conflict_do_nothing())


MIGRATIONS = (
    Migration(2, "crews", tables=(crews,)),
    Migration(
        3,
        "leases that run out",
        columns=(
            trials.c.deaths,
            trials.c.device_faults,
            leases.c.renewed_at,
            leases.c.lease_seconds,
            leases.c.suspected_at,
            leases.c.nonce,
        ),
    ),
    Migration(4, "a timeline", tables=(claims,), columns=(epochs.c.stored_at,), fill=keep_claims),
    Migration(
        5,
        "planned repeats",
        columns=(
            studies.c.repeats,
            runs.c.failure,
            runs.c.removed,
            trials.c.accuracy_spread,
            trials.c.accuracy_margin,
            trials.c.training_seconds_spread,
            trials.c.training_seconds_margin,
        ),
        fill=fill_spreads,
    ),
)
NEW_COLUMNS = {column: step.version for step in MIGRATIONS for column in step.columns} | {
    column: step.version for step in MIGRATIONS for table in step.tables for column in table.c
}
"""Versions in which columns came, alone or with their tables."""


def create(engine: Engine) -> None:
    """Create what is missing and bring older tables up to date, in one transaction.

    The admission lock must be held. Tables of a newer version stay as they are.
    """
    with engine.begin() as connection:
        found = _version(connection)
        if found is not None and found >= VERSION:
            return
        if found is None:
            metadata.create_all(connection)
        for migration in MIGRATIONS:
            if found is not None and migration.version > found:
                migration.apply(connection)
        connection.execute(versions.delete())
        connection.execute(versions.insert().values(version=VERSION))


def _version(connection: Connection) -> int | None:
    """Version of the tables; ``None`` where there are none, or were not all made."""
    if not sqlalchemy.inspect(connection).has_table(versions.name):
        return None
    found: int | None = connection.scalar(sqlalchemy.select(versions.c.version))
    return found


def columns(table: Table, version: int) -> list[Column[Any]]:
    """Columns that a table has in a version, to read a database that is not brought up to date."""
    return [column for column in table.c if NEW_COLUMNS.get(column, 1) <= version]


def check(engine: Engine, *, shown: str) -> int:
    """Version of the tables; older ones can be read.

    Raises:
        StoreError: It has no tables of ours, or tables of a newer version.
    """
    with engine.connect() as connection:
        if not sqlalchemy.inspect(connection).has_table(versions.name):
            raise WrongStoreError(
                f"{shown} must hold studies of fastrcaps-search, got a database without its "
                "tables; name another with --storage"
            )
        found = _version(connection)
    if found is None or found > VERSION:
        raise StoreError(
            f"{shown} must have tables of version {VERSION} or older, got version {found}; "
            "use the release of fastrcaps-search that wrote it"
        )
    return found
