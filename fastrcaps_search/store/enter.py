"""Creating a study, or joining the stored one, in one transaction."""

from __future__ import annotations

import json
import uuid
from typing import Any

from sqlalchemy import Connection, inspect, select

from fastrcaps_search.definition.checks import shown
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.disk import FULL
from fastrcaps_search.errors import DiskError, StoreError, StudyMismatchError, WrongStoreError
from fastrcaps_search.store import schema
from fastrcaps_search.store.engine import reading_engine, writing_engine
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.reading import read_study
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

OPTUNA_TABLES = {"studies", "study_directions", "version_info"}


def enter_study(
    location: Location,
    definition: StudyDefinition,
    *,
    seed: int | None,
    budget: int,
    front_runs: int = 0,
    reference_device: str | None = None,
    flags: str | None = None,
) -> StudyRecord:
    """Create the study, or join the stored one of that name and raise its budget.

    Args:
        location: Database; an SQLite file is created when missing, and tables always.
        definition: What is asked now.
        seed: Seed asked now; ``None`` takes the stored one, or 0.
        budget: Trials asked now; the largest number ever asked is stored.
        front_runs: Runs asked now for each trial on or near the front; the largest is stored.
        reference_device: Name of the device in whose seconds the study is to count.
        flags: Those of the run that enters it, to be told to who wants to go on; no secrets.

    Raises:
        StudyMismatchError: The stored study has another definition or seed, or has begun to count
            in seconds of another device.
        StoreError: The database is not ours to write.
    """
    _make_file(location)
    check_ours(location)
    asked = {"budget": budget, "front_runs": front_runs}

    def enter(connection: Connection) -> StudyRecord:
        schema.create(connection)
        schema.check(connection, shown=location.shown)
        values = {**_defined(definition), "name": definition.name, "seed": seed or 0, **asked}
        table = schema.studies
        schema.insert_unless_there(connection, table, {**values, "created_at": schema.now()})
        stored = _stored(connection, definition.name, location)
        changed = difference(stored, definition, seed=seed)
        # While nothing was trained, there is nothing that a change could contradict.
        if changed and not _redefine(connection, stored, definition, seed=seed, budget=budget):
            raise StudyMismatchError(
                f'study "{definition.name}" in {location.shown} must be resumed as it was begun; '
                f"{changed}; give the file another name, or choose another --storage"
            )
        if reference_device is not None:
            _refer(connection, stored, reference_device)
        for name, number in asked.items():
            lower = (table.c.study_id == stored.study_id) & (table.c[name] < number)
            connection.execute(table.update().where(lower).values({name: number}))
        if flags is not None:
            own = table.update().where(table.c.study_id == stored.study_id)
            connection.execute(own.values(asked=schema.storable(flags)))
        return _stored(connection, definition.name, location)

    with Store(location, writing_engine(location)) as store:
        return store.write(enter)


def _make_file(location: Location) -> None:
    """Make an SQLite file and its folder where they are missing: the system says what is wrong."""
    if location.path is None:
        return
    folder = location.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not location.path.exists():
            location.path.touch()
    except OSError as error:
        kind = DiskError if error.errno in FULL else StoreError
        raise kind(
            f"{folder} must be a folder that can be written, got: {error.strerror}; "
            "fix it, or name another database with --storage"
        ) from error


def check_ours(location: Location) -> None:
    """Refuse, before anything is written, a database that another program uses.

    Raises:
        WrongStoreError: It is one.
    """
    with Store(location, reading_engine(location)) as store:
        tables = set(store.read(lambda connection: inspect(connection).get_table_names()))
    if tables and schema.versions.name not in tables and not tables >= OPTUNA_TABLES:
        raise WrongStoreError(
            f"{location.shown} must be a database of fastrcaps-search or Optuna, "
            f"got one with the tables {', '.join(sorted(tables)[:5])}; choose another --storage"
        )


def _defined(definition: StudyDefinition) -> dict[str, str]:
    # Workers that have read an earlier definition are told so when they claim.
    return {"uid": uuid.uuid4().hex, "definition": json.dumps(definition.to_dict())}


def _stored(connection: Connection, name: str, location: Location) -> StudyRecord:
    # Locked against those who claim, and who enter at the same time.
    table = schema.studies
    connection.execute(select(table.c.uid).where(table.c.name == name).with_for_update())
    return read_study(connection, name, location)


def _redefine(
    connection: Connection,
    stored: StudyRecord,
    definition: StudyDefinition,
    *,
    seed: int | None,
    budget: int,
) -> bool:
    """Store another definition unless the study has begun; whether that was done."""
    table = schema.studies
    if _has_begun(connection, stored):
        return False
    seed = stored.seed if seed is None else seed
    changed = table.update().where(table.c.study_id == stored.study_id)
    values = {**_defined(definition), "seed": seed, "budget": budget, "front_runs": 0}
    connection.execute(changed.values(**values, reference_device=None))
    # Measured on another network, maybe.
    for measured in (schema.layouts, schema.calibrations):
        connection.execute(measured.delete().where(measured.c.study_id == stored.study_id))
    return True


def _has_begun(connection: Connection, stored: StudyRecord) -> bool:
    trials = schema.trials
    begun = select(trials.c.number).where(trials.c.study_id == stored.study_id).limit(1)
    return connection.scalar(begun) is not None


def _refer(connection: Connection, stored: StudyRecord, device: str) -> None:
    """Let the study count in seconds of a device, unless it has begun to with another."""
    table = schema.studies
    one = table.c.study_id == stored.study_id
    before = connection.scalar(select(table.c.reference_device).where(one))
    if before != device and _has_begun(connection, stored):
        raise StudyMismatchError(
            f'study "{stored.name}" must keep its reference device, {before}, as its first trial '
            f"has begun, got {device}; leave --reference-device out, or choose another --storage"
        )
    connection.execute(table.update().where(one).values(reference_device=device))


def difference(stored: StudyRecord, asked: StudyDefinition, *, seed: int | None) -> str:
    """``key: stored X, asked Y`` for every key that differs; empty when none does."""
    before, now_asked = _flat(stored.definition.to_dict()), _flat(asked.to_dict())
    if seed is not None:
        before["seed"], now_asked["seed"] = stored.seed, seed
    return "; ".join(
        f"{key}: stored {_text(before.get(key))}, asked {_text(now_asked.get(key))}"
        for key in {**before, **now_asked}
        if before.get(key) != now_asked.get(key)
    )


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in values.items() if key != "space"}
    for key, value in (values["space"] or {}).items():
        flat[f"space.{key}"] = value
    return flat


def _text(value: object) -> str:
    return "nothing" if value is None else shown(value)
