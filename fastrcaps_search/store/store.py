"""Reading what is stored."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import Connection, Engine, Row, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    DefinitionError,
    ReadOnlyStoreError,
    StoreError,
    StudyNotFoundError,
)
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.engine import reading_engine, writing_engine
from fastrcaps_search.store.patience import Patience
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import (
    EpochRecord,
    Failure,
    LeaseRecord,
    RunRecord,
    StudyRecord,
    TrialRecord,
    TrialState,
    Values,
)
from fastrcaps_search.store.refusals import store_errors

Result = TypeVar("Result")
SETTING_FIELDS = tuple(RunSetting.__dataclass_fields__)
METRIC_FIELDS = tuple(EpochMetrics.__dataclass_fields__)


class Store:
    """One database with our tables.

    Args:
        location: Where it is.
        engine: Connections to it.
        version: Version of its tables.
        patience: How long its outages are borne.
    """

    def __init__(
        self,
        location: Location,
        engine: Engine,
        *,
        version: int = schema.VERSION,
        patience: Patience | None = None,
    ) -> None:
        self.location = location
        self.engine = engine
        self.version = version
        self.patience = patience or Patience()

    @classmethod
    def reading(cls, location: Location) -> Store:
        """Open an existing database only to read it.

        Raises:
            StoreError: No such file, or not a database of ours.
        """
        try:
            return cls._checked(location, reading_engine(location), Patience())
        except ReadOnlyStoreError:
            if location.path is None:
                raise
            engine = reading_engine(location, immutable=True)
            return cls._checked(location, engine, Patience())

    @classmethod
    def writing(cls, location: Location, *, patience: Patience | None = None) -> Store:
        """Open an existing database to read and write it.

        Args:
            location: Where it is.
            patience: How long its outages are borne, from now on.

        Raises:
            StoreError: Not a database of ours.
        """
        patience = patience or Patience()
        store = patience(lambda: cls._checked(location, writing_engine(location), patience))
        if store.version < schema.VERSION:
            store.close()
            raise StoreError(
                f"{location.shown} must have tables of version {schema.VERSION} to be worked on, "
                f"got version {store.version}; `fastrcaps-search run` brings it up to date"
            )
        return store

    @classmethod
    def _checked(cls, location: Location, engine: Engine, patience: Patience) -> Store:
        try:
            with store_errors(location):
                version = schema.check(engine, shown=location.shown)
        except BaseException:
            engine.dispose()
            raise
        return cls(location, engine, version=version, patience=patience)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def do(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work in one transaction; again while the database is out, within the patience.

        Args:
            work: Must do no harm when it is done twice.

        Raises:
            StoreError: The database refused.
            DiskError: There is no room for it.
        """
        return self.patience(lambda: self.try_once(work))

    def try_once(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work in one transaction, without patience."""
        with store_errors(self.location), self.engine.begin() as connection:
            return work(connection)

    def study_names(self) -> list[str]:
        """Names of the stored studies, sorted."""
        query = select(schema.studies.c.name).order_by("name")
        return self.do(lambda connection: list(connection.scalars(query)))

    def study(self, name: str) -> StudyRecord:
        """The stored study of that name.

        Raises:
            StudyNotFoundError: There is none; the message names those that are there.
        """
        found = self.find_study(name)
        if found is None:
            names = ", ".join(self.study_names()) or "none"
            raise StudyNotFoundError(
                f'study "{name}" must be in {self.location.shown}; it holds: {names}'
            )
        return found

    def find_study(self, name: str) -> StudyRecord | None:
        """The stored study of that name, or ``None``."""
        query = select(schema.studies).where(schema.studies.c.name == name)
        row = self.do(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _study(row, self.location)

    def leases(self, study: StudyRecord) -> list[LeaseRecord]:
        """Current leases, by trial number."""
        return self.do(
            lambda connection: read_leases(connection, study.study_id, version=self.version)
        )

    def trials(
        self, study: StudyRecord, *, epochs: bool = False, number: int | None = None
    ) -> list[TrialRecord]:
        """All trials by number, with their runs.

        Args:
            study: The study.
            epochs: Whether to read the epochs too.
            number: Only this trial.
        """
        return self.do(
            lambda connection: read_trials(
                connection, study.study_id, epochs=epochs, number=number
            )
        )


def read_leases(
    connection: Connection, study_id: int | None = None, *, version: int = schema.VERSION
) -> list[LeaseRecord]:
    """Current leases by trial number, of one study or of all."""
    table = schema.leases
    age = {"silent_seconds": table.c.renewed_at, "suspected_seconds": table.c.suspected_at}
    stored = {
        column.name: column
        for column in schema.columns(table, version)
        if column.name in LeaseRecord.__dataclass_fields__
    }
    ages = {name: now() - since for name, since in age.items()} if version >= 3 else {}
    query = select(*(column.label(name) for name, column in {**stored, **ages}.items()))
    if study_id is not None:
        query = query.where(table.c.study_id == study_id)
    rows = connection.execute(query.order_by(table.c.number))
    return [LeaseRecord(**row._mapping) for row in rows]


def read_trials(
    connection: Connection, study_id: int, *, epochs: bool = False, number: int | None = None
) -> list[TrialRecord]:
    """All trials of a study (or one), by number, in one transaction."""

    def rows(table: sqlalchemy.Table, *order: str) -> sqlalchemy.CursorResult[Any]:
        # What came to the tables later is not part of a record.
        query = select(*schema.columns(table, 1)).where(table.c.study_id == study_id)
        if number is not None:
            query = query.where(table.c.number == number)
        return connection.execute(query.order_by(*(table.c[name] for name in order)))

    runs: dict[int, list[RunRecord]] = defaultdict(list)
    for row in rows(schema.runs, "number", "run"):
        runs[row.number].append(_run(row))
    stored: dict[int, list[EpochRecord]] = defaultdict(list)
    if epochs:
        for row in rows(schema.epochs, "number", "run", "epoch"):
            stored[row.number].append(_epoch(row))
    return [
        _trial(row, tuple(runs[row.number]), tuple(stored[row.number]))
        for row in rows(schema.trials, "number")
    ]


def _study(row: Row[Any], location: Location) -> StudyRecord:
    try:
        definition = StudyDefinition.from_dict(json.loads(row.definition))
    except (ValueError, DefinitionError) as error:
        raise StoreError(
            f'{location.shown}: the stored definition of "{row.name}" cannot be read: {error}'
        ) from error
    return StudyRecord(
        study_id=row.study_id,
        name=row.name,
        uid=row.uid,
        definition=definition,
        seed=row.seed,
        budget=row.budget,
        created_at=row.created_at,
    )


def _setting(row: Row[Any]) -> RunSetting:
    return RunSetting(**{name: getattr(row, name) for name in SETTING_FIELDS})


def _run(row: Row[Any]) -> RunRecord:
    return RunRecord(
        run=row.run,
        seed=row.seed,
        setting=_setting(row),
        bit_equal=bool(row.bit_equal),
        accuracy=row.accuracy,
        training_seconds=row.training_seconds,
        best_epoch=row.best_epoch,
        test_accuracy=row.test_accuracy,
        parameters=row.parameters,
    )


def _epoch(row: Row[Any]) -> EpochRecord:
    return EpochRecord(
        run=row.run,
        token=row.token,
        worker=row.worker,
        metrics=EpochMetrics(**{name: getattr(row, name) for name in METRIC_FIELDS}),
        setting=_setting(row),
        sharing=row.sharing,
    )


def _trial(
    row: Row[Any], runs: tuple[RunRecord, ...], epochs: tuple[EpochRecord, ...]
) -> TrialRecord:
    values = None
    if row.accuracy is not None:
        values = Values(row.accuracy, row.training_seconds, row.parameters)
    failure = None
    if row.failure_kind is not None:
        failure = Failure(
            row.failure_kind, row.failure_message, row.failure_trace, row.log_path or ""
        )
    tested = [run.test_accuracy for run in runs if run.test_accuracy is not None]
    return TrialRecord(
        number=row.number,
        state=TrialState(row.state),
        parameters=TrialParameters.from_dict(json.loads(row.assignment)),
        configuration_key=row.configuration_key,
        values=values,
        test_accuracy=sum(tested) / len(tested) if tested and len(tested) == len(runs) else None,
        failure=failure,
        token=row.token,
        created_at=row.created_at,
        finished_at=row.finished_at,
        runs=runs,
        epochs=epochs,
    )
