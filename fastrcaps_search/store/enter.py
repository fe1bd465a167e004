"""Creating a study, or joining the stored one, under the study's admission lock."""

from __future__ import annotations

import errno
import fcntl
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy
from sqlalchemy import insert

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DiskError, StoreError, StudyMismatchError, WrongStoreError
from fastrcaps_search.store import schema
from fastrcaps_search.store.differences import difference
from fastrcaps_search.store.engine import reading_engine, store_errors, writing_engine
from fastrcaps_search.store.mirror import Mirror
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store

OPTUNA_TABLE = "studies"


@contextmanager
def admission_lock(location: Location) -> Iterator[None]:
    """Hold the door: the kernel opens it again when a holder dies."""
    try:
        location.path.parent.mkdir(parents=True, exist_ok=True)
        file = location.lock_path.open("a")
    except OSError as error:
        kind = DiskError if error.errno == errno.ENOSPC else StoreError
        raise kind(
            f"{location.path.parent} must be a folder that can be written, got: {error.strerror}; "
            "mend it, or name another database with --storage"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def enter_study(
    location: Location, definition: StudyDefinition, *, seed: int | None, budget: int
) -> StudyRecord:
    """Create the study, or join the stored one of that name and raise its budget.

    Args:
        location: Database; created with its tables when missing.
        definition: What is asked now.
        seed: Seed asked now; ``None`` takes the stored one, or 0.
        budget: Trials asked now; the largest number ever asked is stored.

    Raises:
        StudyMismatchError: The stored study has another definition or seed.
        StoreError: The database is not ours to write.
    """
    with admission_lock(location):
        if location.path.exists():
            _check_ours(location)
        mirror = Mirror(location, create=True)
        try:
            engine = writing_engine(location)
            with store_errors(location):
                schema.create(engine)
                schema.check(engine, shown=str(location.path))
            store = Store(location, engine)
            try:
                return _enter(store, mirror, definition, seed=seed, budget=budget)
            finally:
                store.close()
        finally:
            mirror.close()


def _check_ours(location: Location) -> None:
    """Refuse, before anything is written, a database that another program uses."""
    with store_errors(location):
        engine = reading_engine(location)
        tables = set(sqlalchemy.inspect(engine).get_table_names())
        engine.dispose()
    if tables and not tables & {OPTUNA_TABLE, schema.versions.name}:
        raise WrongStoreError(
            f"{location.path} must be a database of fastrcaps-search or Optuna, "
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
            "created_at": time.time(),
        }
        with store.transaction() as connection:
            connection.execute(insert(schema.studies).values(**values))
        return store.study(definition.name)
    changed = difference(stored, definition, seed=seed)
    if changed and not store.trials(stored):
        # Nothing was trained yet: there is nothing that the change could contradict.
        _redefine(store, stored, definition, seed=seed, budget=budget)
        return store.study(definition.name)
    if changed:
        raise StudyMismatchError(
            f'study "{definition.name}" in {store.location.path} must be resumed as it was '
            f"begun; {changed}; give the file another name, or choose another --storage"
        )
    if budget > stored.budget:
        table = schema.studies
        with store.transaction() as connection:
            connection.execute(
                table.update()
                .where(table.c.study_id == stored.study_id, table.c.budget < budget)
                .values(budget=budget)
            )
    return store.study(definition.name)


def _redefine(
    store: Store,
    stored: StudyRecord,
    definition: StudyDefinition,
    *,
    seed: int | None,
    budget: int,
) -> None:
    table = schema.studies
    values = {
        "definition": json.dumps(definition.to_dict()),
        "seed": stored.seed if seed is None else seed,
        "budget": budget,
    }
    with store.transaction() as connection:
        connection.execute(
            table.update().where(table.c.study_id == stored.study_id).values(**values)
        )
        # Measured on another network, maybe.
        crews = schema.crews
        connection.execute(crews.delete().where(crews.c.study_id == stored.study_id))
