"""One database: transactions that read or write, and what is read of a study."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, Engine, select

from fastrcaps_search.definition.load import StudyLike, stored_name
from fastrcaps_search.errors import DiskError, ReadOnlyStoreError
from fastrcaps_search.store import schema
from fastrcaps_search.store.db_errors import note_used, store_errors
from fastrcaps_search.store.engine import (
    reading_engine,
    require_file,
    snapshot_options,
    writing_engine,
)
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.reading import (
    Mark,
    Signs,
    Snapshot,
    read_claims,
    read_doubtful,
    read_leases,
    read_mark,
    read_signs,
    read_snapshot,
    read_study,
    read_trials,
    study_names,
)
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.trials import TrialRecord

Result = TypeVar("Result")


class Store(AbstractContextManager["Store"]):
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
        patience: RetryPolicy | None = None,
    ) -> None:
        self.location = location
        self.engine = engine
        self.patience = patience or RetryPolicy()

    @classmethod
    def reading(cls, location: Location) -> Store:
        """Open an existing database only to read it.

        Raises:
            StoreError: No such file, or not a database of ours.
        """
        try:
            return cls._checked(location, reading_engine(location), RetryPolicy())
        except (ReadOnlyStoreError, DiskError):
            # Beside the file nothing can be written.
            if location.path is None:
                raise
            engine = reading_engine(location, immutable=True)
            return cls._checked(location, engine, RetryPolicy())

    @classmethod
    def writing(cls, location: Location, *, patience: RetryPolicy | None = None) -> Store:
        """Open an existing database to read and write it.

        Args:
            location: Where it is.
            patience: How long its outages are borne, from now on.

        Raises:
            StoreError: Not a database of ours.
        """
        patience = patience or RetryPolicy()
        return patience(lambda: cls._checked(location, writing_engine(location), patience))

    @classmethod
    def _checked(cls, location: Location, engine: Engine, patience: RetryPolicy) -> Store:
        store = cls(location, engine, patience=patience)
        try:
            store._read_once(partial(schema.check, shown=location.shown))
        except BaseException:
            engine.dispose()
            raise
        # A server that can be read need not be writable.
        if location.path is not None:
            note_used(location)
        return store

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work in one transaction; again while the database is out, within the patience.

        Args:
            work: Must do no harm when it is done twice.

        Raises:
            StoreError: The database refused.
            DiskError: There is no room for it.
        """
        return self.patience(lambda: self.write_once(work))

    def write_once(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work in one transaction, without patience."""
        with store_errors(self.location), self.engine.begin() as connection:
            result = work(connection)
        note_used(self.location)
        return result

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work, which only reads, on one state of the database.

        It holds up nobody who writes.
        """
        return self.patience(lambda: self._read_once(work))

    def _read_once(self, work: Callable[[Connection], Result]) -> Result:
        options = snapshot_options(self.location)
        with (
            store_errors(self.location),
            self.engine.connect() as connection,
            connection.execution_options(**options).begin(),
        ):
            return work(connection)

    def study_names(self) -> list[str]:
        """Names of the stored studies, sorted."""
        return self.read(study_names)

    def study(self, name: str) -> StudyRecord:
        """The stored study of that name.

        Raises:
            StudyNotFoundError: There is none; the message names those that are there.
        """
        return self.read(lambda connection: read_study(connection, name, self.location))

    def leases(self, study: StudyRecord) -> list[LeaseRecord]:
        """Current leases, by trial and run."""
        return self.read(lambda connection: read_leases(connection, study.study_id))

    def claims(self, study: StudyRecord) -> list[ClaimRecord]:
        """All claims that were ever granted, by trial, run and token."""
        return self.read(lambda connection: read_claims(connection, study.study_id))

    def trials(
        self, study: StudyRecord, *, epochs: bool = False, number: int | None = None
    ) -> list[TrialRecord]:
        """All trials by number, with their runs; values are the means of these.

        Args:
            study: The study.
            epochs: Whether to read the epochs too.
            number: Only this trial.
        """
        return self.read(
            lambda connection: read_trials(connection, study, epochs=epochs, number=number)
        )

    def snapshot(self, name: str, *, epochs: bool = False) -> Snapshot:
        """A study, its trials and its leases, all of one moment.

        Raises:
            StudyNotFoundError: There is no such study.
        """
        return self.read(
            lambda connection: read_snapshot(connection, name, self.location, epochs=epochs)
        )

    def status(self, name: str) -> tuple[Snapshot, Signs]:
        """The same without epochs, and the signs of life of that moment.

        Raises:
            StudyNotFoundError: There is no such study.
        """

        def read(connection: Connection) -> tuple[Snapshot, Signs]:
            seen = read_snapshot(connection, name, self.location, epochs=False)
            return seen, read_signs(connection, seen.study.study_id)

        return self.read(read)

    def glance(self, study: StudyRecord) -> tuple[Mark, list[LeaseRecord]]:
        """The mark of a study and its doubtful leases, for a fraction of a snapshot's cost."""
        return self.read(
            lambda connection: (
                read_mark(connection, study.study_id),
                read_doubtful(connection, study.study_id),
            )
        )

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
        rows = self.read(lambda connection: connection.execute(query).all())
        return {(row.number, row.run): row.hits for row in rows}


@contextmanager
def opened_study(
    location: Location, study: StudyLike, *, writing: bool = False
) -> Iterator[tuple[Store, StudyRecord]]:
    """A database, and the study there that a name or the path of a study file stands for.

    Raises:
        StoreError: The database cannot be used, or holds no such study.
    """
    require_file(location)
    with Store.writing(location) if writing else Store.reading(location) as store:
        yield store, store.study(stored_name(study))
