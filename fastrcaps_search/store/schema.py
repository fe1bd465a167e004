"""Our tables, which stand beside Optuna's own in one database: made, checked, and their clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, get_args, get_type_hints

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
    select,
)
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from fastrcaps_search.errors import StoreError, WrongStoreError
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store.holders import ClaimRecord, JobRecord, LeaseRecord, WorkerRecord
from fastrcaps_search.store.records import (
    EpochRecord,
    Failure,
    RunKey,
    RunRecord,
    SetAside,
    StudyRecord,
)

VERSION = 9
"""Version of the tables, and of what their values mean: the networks of versions 1 to 5 were
others, up to version 6 trials were claimed, not runs, up to version 7 studies had a key for early
stopping, and up to version 8 seconds were those of whatever device had trained, workers left no
sign of life and nothing was known of jobs."""
CREATING = 0x66617374  # "fast"
"""Number of the server's lock for those who make the tables."""

metadata = MetaData()

versions = Table("fastrcaps_schema", metadata, Column("version", Integer, primary_key=True))

TRIAL = ("study_id", "number")
RUN = (*TRIAL, "run")


def _key(*names: str) -> list[Column[int]]:
    return [Column(name, Integer, primary_key=True, autoincrement=False) for name in names]


def _columns(
    record: type, *, but: Collection[str] = (), prefix: str = "", nullable: bool = False
) -> list[Column[Any]]:
    """A column for each number and text of a record, without what says which run it is.

    Args:
        record: A data class; what may be ``None`` there may be so in the table.
        but: Other fields that are left out.
        prefix: Put before the names.
        nullable: Whether all of the record may be missing.
    """
    kinds = {int: BigInteger, float: Float, str: Text}
    columns: list[Column[Any]] = []
    for name, hint in get_type_hints(record).items():
        kind, *absent = get_args(hint) if isinstance(hint, UnionType) else [hint]
        if kind in kinds and name not in (*RUN, *but):
            may_be_missing = nullable or bool(absent)
            columns.append(Column(f"{prefix}{name}", kinds[kind], nullable=may_be_missing))
    return columns


studies = Table(
    "fastrcaps_studies",
    metadata,
    Column("study_id", Integer, primary_key=True),
    *_columns(StudyRecord),
    # Both as JSON.
    Column("definition", Text, nullable=False),
    Column("box", Text),
    Unique("name"),
)

trials = Table(
    "fastrcaps_trials",
    metadata,
    *_key(*TRIAL),
    Column("assignment", Text, nullable=False),
    Column("configuration_key", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
    *_columns(SetAside, prefix="set_aside_", nullable=True),
    Unique("study_id", "configuration_key"),
)

leases = Table(
    "fastrcaps_leases",
    metadata,
    *_key(*RUN),
    *_columns(LeaseRecord, but=("silent_seconds", "suspected_seconds")),
    Column("suspected_at", Float),
    Column("nonce", String(32), nullable=False),
)

# One row for every claim that was granted; never changed, never removed.
claims = Table(
    "fastrcaps_claims",
    metadata,
    *_key(*RUN, "token"),
    *_columns(ClaimRecord, but=("token",)),
)

# One row for each process that works on a study, or has ended without a word.
workers = Table(
    "fastrcaps_workers",
    metadata,
    *_key("study_id"),
    Column("nonce", String(32), primary_key=True),
    Column("number", Integer),
    Column("run", Integer),
    *_columns(WorkerRecord, but=("nonce", "silent_seconds")),
)

runs = Table(
    "fastrcaps_runs",
    metadata,
    *_key(*RUN),
    *_columns(RunRecord),
    # Unknown until its worker begins it.
    *_columns(RunSetting, nullable=True),
    Column("bit_equal", Integer, nullable=False, default=1),
    # Values in further objectives, as JSON.
    Column("others", Text),
    # Which evaluation images the best epoch's weights have right, a bit each: read on its own.
    Column("hits", LargeBinary),
    # Why it ended without a result.
    *_columns(Failure, but=("log_path",), prefix="failure_", nullable=True),
    # Of the claim that ended it.
    Column("ended_token", Integer),
    # Since its last stored epoch: workers that died, and devices that gave out.
    Column("deaths", Integer, nullable=False, default=0),
    Column("device_faults", Integer, nullable=False, default=0),
    # Whether its network is gone: its trial was well behind the front, or the disk refused it.
    Column("removed", Integer, nullable=False, default=0),
)

epochs = Table(
    "fastrcaps_epochs",
    metadata,
    *_key(*RUN, "epoch"),
    *_columns(EpochRecord),
    *_columns(EpochMetrics, but=("epoch",)),
    *_columns(RunSetting),
)

layouts = Table(
    "fastrcaps_layouts",
    metadata,
    *_key("study_id", "cores"),
    Column("device_name", Text, primary_key=True),
    Column("workers", Integer, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("chosen_at", Float, nullable=False),
)

# Never changed: seconds that were computed rest on them.
calibrations = Table(
    "fastrcaps_calibrations",
    metadata,
    *_key("study_id", "number"),
    *_columns(RunSetting),
    Column("sharing", Integer, nullable=False),
    # By network and batch size, as JSON.
    Column("step_seconds", Text, nullable=False),
    Column("measured_at", Float, nullable=False),
)

# Workers that an engine was given and that wait or run, as the last look of a run saw them.
jobs = Table(
    "fastrcaps_jobs",
    metadata,
    *_key("study_id"),
    Column("engine", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    *_columns(JobRecord, but=("engine", "id", "seen_seconds_ago")),
    Column("seen_at", Float, nullable=False),
)


def insert_unless_there(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless its key is taken; whether that was done."""
    unless_there = _insert(connection, table).values(**values).on_conflict_do_nothing()
    # Not by the number of rows, which is unknown for an INSERT on a server.
    stored = unless_there.returning(next(iter(table.primary_key)))
    return connection.execute(stored).first() is not None


def insert_or_update(
    connection: Connection, table: Table, values: Mapping[str, Any], changed: Mapping[str, Any]
) -> None:
    """Insert a row of ``values`` and ``changed``; where its key is taken, change that row."""
    insert = _insert(connection, table).values(**values, **changed)
    key = list(table.primary_key)
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=dict(changed)))


def _insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that may say what is to be done on a conflict."""
    on_server = connection.dialect.name == "postgresql"
    return postgresql.insert(table) if on_server else sqlite.insert(table)


def run_row(table: Table, study_id: int, key: RunKey) -> ColumnElement[bool]:
    """Where a table speaks of one run."""
    return (
        (table.c.study_id == study_id) & (table.c.number == key.number) & (table.c.run == key.run)
    )


def failure_columns(failure: Failure) -> dict[str, str]:
    """Columns of a failure, of characters that every database takes."""
    texts = {
        "failure_kind": failure.kind,
        "failure_message": failure.message,
        "failure_trace": failure.trace,
        "log_path": failure.log_path,
    }
    return {name: storable(text) for name, text in texts.items()}


def storable(text: str) -> str:
    """The text without NUL, and with escaped halves of characters: no database takes them."""
    return text.replace("\0", "").encode(errors="backslashreplace").decode()


class now(FunctionElement[float]):  # noqa: N801  # an SQL function
    """Seconds since 1970 when the statement runs, by the clock that all workers share."""

    type = Float()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite(element: now, compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401
    # Julian days of milliseconds; 2440587.5 is the beginning of 1970.
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql(element: now, compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401
    # Not now(), which stands still within a transaction that may have waited for a lock.
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


def create(connection: Connection) -> None:
    """Create the tables unless there are some."""
    if connection.dialect.name == "postgresql":
        # An SQLite file is locked already, by the transaction.
        connection.execute(select(func.pg_advisory_xact_lock(CREATING)))
    # Here a first migration would bring older tables up to date.
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
        tables = sorted(sqlalchemy.inspect(connection).get_table_names())
        came = f"one with the tables {', '.join(tables[:5])}" if tables else "an empty database"
        raise WrongStoreError(
            f"{shown} must hold studies of fastrcaps-search, got {came}; begin one with `run`, or "
            "name another database with --storage"
        )
    if found != VERSION:
        raise StoreError(
            f"{shown} must have tables of version {VERSION}, which alone this release reads, "
            f"got version {found}; start a new database with --storage"
        )
