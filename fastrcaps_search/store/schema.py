"""Our tables, which stand beside Optuna's own in one database."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import Column, Connection, Engine, Float, Integer, MetaData, String, Table, Text
from sqlalchemy import UniqueConstraint as Unique

from fastrcaps_search.errors import StoreError, WrongStoreError

VERSION = 2
"""Version of the tables below; a change of them needs a migration in :func:`create`.

1: the first. 2: adds ``fastrcaps_crews``.
"""

metadata = MetaData()

versions = Table("fastrcaps_schema", metadata, Column("version", Integer, primary_key=True))

studies = Table(
    "fastrcaps_studies",
    metadata,
    Column("study_id", Integer, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("uid", String(32), nullable=False),
    Column("definition", Text, nullable=False),
    Column("seed", Integer, nullable=False),
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
    Column("failure_kind", String(128)),
    Column("failure_message", Text),
    Column("failure_trace", Text),
    Column("log_path", Text),
    Column("created_at", Float, nullable=False),
    Column("finished_at", Float),
    Unique("study_id", "configuration_key"),
)

leases = Table(
    "fastrcaps_leases",
    metadata,
    *_trial_key(),
    Column("token", Integer, nullable=False),
    Column("worker", String(128), nullable=False),
    Column("host", String(256), nullable=False),
    Column("boot_id", String(64), nullable=False),
    Column("pid_namespace", String(64), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_start", Integer, nullable=False),
    Column("device", String(64), nullable=False),
    Column("claimed_at", Float, nullable=False),
)


def _setting() -> list[Column[object]]:
    return [
        Column("device", String(64), nullable=False),
        Column("device_name", String(256), nullable=False),
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
    Column("seed", Integer, nullable=False),
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
    Column("worker", String(128), nullable=False),
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
)


crews = Table(
    "fastrcaps_crews",
    metadata,
    Column("study_id", Integer, primary_key=True, autoincrement=False),
    Column("device_name", String(256), primary_key=True),
    Column("cores", Integer, primary_key=True, autoincrement=False),
    Column("workers", Integer, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("measured", Text, nullable=False),
    Column("chosen_at", Float, nullable=False),
)


def create(engine: Engine) -> None:
    """Create what is missing and bring older tables up to date, in one transaction.

    The admission lock must be held. Tables of a newer version stay as they are.
    """
    with engine.begin() as connection:
        found = _version(connection)
        if found is not None and found >= VERSION:
            return
        # Every version so far has only added tables.
        metadata.create_all(connection)
        connection.execute(versions.delete())
        connection.execute(versions.insert().values(version=VERSION))


def _version(connection: Connection) -> int | None:
    """Version of the tables; ``None`` where there are none, or were not all made."""
    if not sqlalchemy.inspect(connection).has_table(versions.name):
        return None
    found: int | None = connection.scalar(sqlalchemy.select(versions.c.version))
    return found


def check(engine: Engine, *, shown: str) -> None:
    """Refuse a database whose tables this release does not know; older ones can be read.

    Raises:
        StoreError: It has no tables of ours, or tables of a newer version.
    """
    if not sqlalchemy.inspect(engine).has_table(versions.name):
        raise WrongStoreError(
            f"{shown} must hold studies of fastrcaps-search, got a database without its tables; "
            "name another with --storage"
        )
    with engine.connect() as connection:
        found = _version(connection)
    if found is None or found > VERSION:
        raise StoreError(
            f"{shown} must have tables of version {VERSION} or older, got version {found}; "
            "use the release of fastrcaps-search that wrote it"
        )
