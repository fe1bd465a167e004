"""Reading what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Row, select

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    DefinitionError,
    ReadOnlyStoreError,
    StoreError,
    StudyNotFoundError,
)
from fastrcaps_search.front.box import Box
from fastrcaps_search.store import migrations, schema
from fastrcaps_search.store.engine import reading_engine, writing_engine
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.patience import Patience
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.reading import read_claims, read_leases, read_trials
from fastrcaps_search.store.records import StudyRecord, TrialRecord
from fastrcaps_search.store.refusals import store_errors

Result = TypeVar("Result")


class Store:
    """One database with our tables.

    Args:
        location: Where it is.
        engine: Connections to it.
        patience: How long its outages are borne.
    """

    def __init__(
        self,
        location: Location,
        engine: Engine,
        *,
        patience: Patience | None = None,
    ) -> None:
        self.location = location
        self.engine = engine
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
        return patience(lambda: cls._checked(location, writing_engine(location), patience))

    @classmethod
    def _checked(cls, location: Location, engine: Engine, patience: Patience) -> Store:
        try:
            with store_errors(location):
                migrations.check(engine, shown=location.shown)
        except BaseException:
            engine.dispose()
            raise
        return cls(location, engine, patience=patience)

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
        return self.do(lambda connection: read_leases(connection, study.study_id))

    def claims(self, study: StudyRecord) -> list[ClaimRecord]:
        """All claims that were ever granted, by trial number and token."""
        return self.do(lambda connection: read_claims(connection, study.study_id))

    def trials(
        self, study: StudyRecord, *, epochs: bool = False, number: int | None = None
    ) -> list[TrialRecord]:
        """All trials by number, with their runs; values as ``analysis/estimates.py`` says.

        Args:
            study: The study.
            epochs: Whether to read the epochs too.
            number: Only this trial, whose values then are the means of its runs.
        """
        found = self.do(
            lambda connection: read_trials(connection, study, epochs=epochs, number=number)
        )
        return found if number is not None else estimated(found, study=study)

    def hits(self, study: StudyRecord, numbers: Collection[int]) -> dict[tuple[int, int], bytes]:
        """Which evaluation images each run has right, by trial and run; see ``RunResult``.

        Args:
            study: The study.
            numbers: Only runs of these trials; those of unknown hits are left out.
        """
        table = schema.runs
        query = select(table.c.number, table.c.run, table.c.hits).where(
            table.c.study_id == study.study_id,
            table.c.number.in_(numbers),
            table.c.hits.is_not(None),
        )
        rows = self.do(lambda connection: connection.execute(query).all())
        return {(row.number, row.run): row.hits for row in rows}


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
        repeats=row.repeats,
        box=None if row.box is None else Box.from_dict(json.loads(row.box)),
    )
