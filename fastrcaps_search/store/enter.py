"""Creating a study, or joining the stored one, under a lock."""

from __future__ import annotations

import errno
import json
import operator
import uuid

import sqlalchemy
from sqlalchemy import Connection, insert, select

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DiskError, StoreError, StudyMismatchError, WrongStoreError
from fastrcaps_search.store import migrations, schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.differences import difference
from fastrcaps_search.store.engine import reading_engine, writing_engine
from fastrcaps_search.store.lock import AdmissionLock
from fastrcaps_search.store.mirror import Mirror
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.refusals import store_errors
from fastrcaps_search.store.store import Store

OPTUNA_TABLES = {"studies", "study_directions", "version_info"}
FIRST_WAIT_SECONDS = 300.0
"""Longest wait for others that enter: each makes the tables, or sees that they are there."""
FIRST_IDLE_SECONDS = 60.0


def enter_study(
    location: Location,
    definition: StudyDefinition,
    *,
    seed: int | None,
    budget: int,
    repeats: int = 0,
) -> StudyRecord:
    """Create the study, or join the stored one of that name and raise its budget.

    Args:
        location: Database; an SQLite file is created when missing, and tables always.
        definition: What is asked now.
        seed: Seed asked now; ``None`` takes the stored one, or 0.
        budget: Trials asked now; the largest number ever asked is stored.
        repeats: Runs asked now for each trial on or near the front; the largest number is stored.

    Raises:
        StudyMismatchError: The stored study has another definition or seed.
        StoreError: The database is not ours to write.
    """
    _make_folder(location)
    engine = writing_engine(location, create=True)
    store = Store(location, engine)
    # Of the whole database: its tables are made here.
    lock = AdmissionLock(
        location,
        engine,
        "",
        wait_seconds=FIRST_WAIT_SECONDS,
        idle_seconds=FIRST_IDLE_SECONDS,
    )
    try:
        with lock.held():
            study = _create_and_enter(store, definition, seed=seed, budget=budget)
            study = _raised(store, study, budget=budget, repeats=repeats)
        _tell_optuna(store, study)
    finally:
        engine.dispose()
    return study


def _tell_optuna(store: Store, study: StudyRecord) -> None:
    """Tell Optuna what the last workers of the study could not, killed in that moment."""
    mirror = Mirror(store.location)
    try:
        with AdmissionLock(store.location, store.engine, study.name).held() as require_lock:
            mirror.repair(study, store.trials(study), require_lock=require_lock)
    finally:
        mirror.close()


def _make_folder(location: Location) -> None:
    if location.path is None:
        return
    folder = location.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        kind = DiskError if error.errno == errno.ENOSPC else StoreError
        raise kind(
            f"{folder} must be a folder that can be written, got: {error.strerror}; "
            "mend it, or name another database with --storage"
        ) from error


def _create_and_enter(
    store: Store, definition: StudyDefinition, *, seed: int | None, budget: int
) -> StudyRecord:
    location = store.location
    if location.path is None or location.path.exists():
        _check_ours(location)
    mirror = Mirror(location, create=True)
    try:
        with store_errors(location):
            migrations.create(store.engine)
            migrations.check(store.engine, shown=location.shown)
        return _enter(store, mirror, definition, seed=seed, budget=budget)
    finally:
        mirror.close()


def _check_ours(location: Location) -> None:
    """Refuse, before anything is written, a database that another program uses."""
    engine = reading_engine(location)
    try:
        with store_errors(location):
            tables = set(sqlalchemy.inspect(engine).get_table_names())
    finally:
        engine.dispose()
    if tables and schema.versions.name not in tables and not tables >= OPTUNA_TABLES:
        raise WrongStoreError(
            f"{location.shown} must be a database of fastrcaps-search or Optuna, "
            f"got one with the tables {', '.join(sorted(tables)[:5])}; choose another --storage"
        )


def _enter(
    store: Store, mirror: Mirror, definition: StudyDefinition, *, seed: int | None, budget: int
) -> StudyRecord:
    stored = store.find_study(definition.name)
    if stored is None:
        mirror.create_study(definition.name)
        values = {
            "name": definition.name,
            "uid": uuid.uuid4().hex,
            "definition": json.dumps(definition.to_dict()),
            "seed": seed or 0,
            "budget": budget,
            "created_at": now(),
        }
        store.do(lambda connection: connection.execute(insert(schema.studies).values(**values)))
        return store.study(definition.name)
    changed = difference(stored, definition, seed=seed)
    # While nothing was trained, there is nothing that a change could contradict.
    if changed and _redefine(store, stored, definition, seed=seed, budget=budget):
        return store.study(definition.name)
    if changed:
        raise StudyMismatchError(
            f'study "{definition.name}" in {store.location.shown} must be resumed as it was '
            f"begun; {changed}; give the file another name, or choose another --storage"
        )
    return stored


def _raised(store: Store, study: StudyRecord, *, budget: int, repeats: int) -> StudyRecord:
    """The study with its budget and its planned repeats raised to what is asked."""
    table = schema.studies
    for column, asked in ((table.c.budget, budget), (table.c.repeats, repeats)):
        if asked > getattr(study, column.name):
            raised = table.update().where(table.c.study_id == study.study_id, column < asked)
            store.do(operator.methodcaller("execute", raised.values({column: asked})))
    return store.study(study.name)


def _redefine(
    store: Store,
    stored: StudyRecord,
    definition: StudyDefinition,
    *,
    seed: int | None,
    budget: int,
) -> bool:
    """Store another definition unless the study has begun; whether that was done."""
    table = schema.studies
    values = {
        "definition": json.dumps(definition.to_dict()),
        # Workers that have read the old one are told so when they claim.
        "uid": uuid.uuid4().hex,
        "seed": stored.seed if seed is None else seed,
        "budget": budget,
        "repeats": 0,
    }
    trials, crews = schema.trials, schema.crews

    def redefine(connection: Connection) -> bool:
        # First the row that a worker locks, too, when it claims.
        connection.execute(
            table.update().where(table.c.study_id == stored.study_id).values(**values)
        )
        begun = select(trials.c.number).where(trials.c.study_id == stored.study_id).limit(1)
        if connection.scalar(begun) is not None:
            connection.rollback()
            return False
        # Measured on another network, maybe.
        connection.execute(crews.delete().where(crews.c.study_id == stored.study_id))
        return True

    return store.do(redefine)
