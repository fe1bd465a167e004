"""Our tables, which stand beside Optuna's own in one database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateColumn

from fastrcaps_search.errors import StoreError, WrongStoreError

VERSION = 4
"""Version of the tables below; a change of them needs a step in ``MIGRATIONS``."""

metadata = MetaData()

versions = Table("fastrcaps_schema", metadata, Column("version", Integer, primary_key=True))

studies = Table(
    "fastrcaps_studies",
    metadata,
    Column("study_id", Integer, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("uid", String(32), nullable=False),
    Column("definition", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("budget", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
)


def _trial_key() -> list[Column[int]]:
    return [
        Column("study_id", Integer, primary_key=True, autoincrement=False),
        Column("number", Integer, primary_key=True, autoincrement=False),
    ]


trials = Table(
    "fastrcaps_trials",
    metadata,
    *_trial_key(),
    Column("assignment", Text, nullable=False),
    Column("configuration_key", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("token", Integer, nullable=False),
    Column("accuracy", Float),
    Column("training_seconds", Float),
    Column("parameters", Float),
    Column("failure_kind", Text),
    Column("failure_message", Text),
    Column("failure_trace", Text),
    Column("log_path", Text),
    Column("created_at", Float, nullable=False),
    Column("finished_at", Float),
    # Since its last stored epoch: workers that died, and devices that gave out.
    Column("deaths", Integer, nullable=False, server_default="0"),
    Column("device_faults", Integer, nullable=False, server_default="0"),
    Unique("study_id", "configuration_key"),
)

leases = Table(
    "fastrcaps_leases",
    metadata,
    *_trial_key(),
    Column("token", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("boot_id", String(64), nullable=False),
    Column("pid_namespace", String(64), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_start", BigInteger, nullable=False),
    Column("device", Text, nullable=False),
    Column("claimed_at", Float, nullable=False),
    # Empty in leases of releases whose leases did not run out.
    Column("renewed_at", Float),
    Column("lease_seconds", Float),
    Column("suspected_at", Float),
    Column("nonce", String(32)),
)

# One row for every claim that was granted; never changed, never removed.
claims = Table(
    "fastrcaps_claims",
    metadata,
    *_trial_key(),
    Column("token", Integer, primary_key=True, autoincrement=False),
    Column("worker", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("claimed_at", Float, nullable=False),
)


def _setting() -> list[Column[object]]:
    return [
        Column("device", Text, nullable=False),
        Column("device_name", Text, nullable=False),
        Column("torch_version", String(64), nullable=False),
        Column("precision", String(16), nullable=False),
        Column("threads", Integer, nullable=False),
        Column("kernel", String(64), nullable=False),
    ]


runs = Table(
    "fastrcaps_runs",
    metadata,
    *_trial_key(),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("seed", BigInteger, nullable=False),
    *_setting(),
    Column("bit_equal", Integer, nullable=False),
    Column("accuracy", Float),
    Column("training_seconds", Float),
    Column("best_epoch", Integer),
    Column("parameters", Integer),
    Column("test_accuracy", Float),
)

epochs = Table(
    "fastrcaps_epochs",
    metadata,
    *_trial_key(),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("token", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("batch_size", Integer, nullable=False),
    Column("lr_start", Float, nullable=False),
    Column("lr_end", Float, nullable=False),
    Column("loss", Float, nullable=False),
    Column("classification_loss", Float, nullable=False),
    Column("reconstruction_loss", Float, nullable=False),
    Column("training_accuracy", Float, nullable=False),
    Column("accuracy", Float, nullable=False),
    Column("training_seconds", Float, nullable=False),
    Column("evaluation_seconds", Float, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("samples", Integer, nullable=False),
    *_setting(),
    Column("sharing", Integer, nullable=False),
    # Empty in epochs of earlier releases.
    Column("stored_at", Float),
)


crews = Table(
    "fastrcaps_crews",
    metadata,
    Column("study_id", Integer, primary_key=True, autoincrement=False),
    Column("device_name", Text, primary_key=True),
    Column("cores", Integer, primary_key=True, autoincrement=False),
    Column("workers", Integer, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("measured", Text, nullable=False),
    Column("chosen_at", Float, nullable=False),
)


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
    kept = _insert(connection, claims).from_select(names, held)
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


def insert_unless_there(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Insert a row unless its key is taken."""
    connection.execute(_insert(connection, table).values(**values).on_conflict_do_nothing())


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    on_server = connection.dialect.name == "postgresql"
    return postgresql.insert(table) if on_server else sqlite.insert(table)


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
