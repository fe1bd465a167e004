"""Our tables, which stand beside Optuna's own in one database."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import Column, Engine, Float, Integer, MetaData, String, Table, Text
from sqlalchemy import UniqueConstraint as Unique

from fastrcaps_search.errors import StoreError, WrongStoreError

VERSION = 1
"""Version of the tables below; a change of them needs a named migration."""

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


def create(engine: Engine) -> None:
    """Create what is missing; the admission lock must be held."""
    with engine.begin() as connection:
        metadata.create_all(connection)
        if connection.scalar(sqlalchemy.select(versions.c.version)) is None:
            connection.execute(versions.insert().values(version=VERSION))


def check(engine: Engine, *, shown: str) -> None:
    """Refuse a database whose tables are not of this version.

    Raises:
        StoreError: It has no tables of ours, or tables of another version.
    """
    if not sqlalchemy.inspect(engine).has_table(versions.name):
        raise WrongStoreError(
            f"{shown} must hold studies of fastrcaps-search, got a database without its tables; "
            "name another with --storage"
        )
    with engine.connect() as connection:
        found = connection.scalar(sqlalchemy.select(versions.c.version))
    if found != VERSION:
        raise StoreError(
            f"{shown} must have tables of version {VERSION}, got version {found}; "
            "use the release of fastrcaps-search that wrote it"
        )
