"""What a run that watches jobs stores of them, for anybody to see, and sees of their study."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from fastrcaps_search.store import schema
from fastrcaps_search.store.holders import JobRecord
from fastrcaps_search.store.reading import JOB_COLUMNS, read_jobs
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store


def store_jobs(store: Store, study: StudyRecord, engine: str, jobs: Sequence[JobRecord]) -> None:
    """Store the jobs of an engine that wait or run, in place of those stored before.

    Raises:
        StoreError: The database cannot be used.
    """
    table = schema.jobs
    seen = [
        {name: schema.storable(getattr(job, name)) for name in JOB_COLUMNS}
        | {"study_id": study.study_id, "seen_at": schema.now()}
        for job in jobs
    ]

    def replace(connection: Connection) -> None:
        mine = (table.c.study_id == study.study_id) & (table.c.engine == engine)
        connection.execute(table.delete().where(mine))
        for row in seen:
            connection.execute(table.insert().values(row))

    store.write(replace)


def jobs_of(store: Store, study: StudyRecord, engine: str) -> list[JobRecord]:
    """The jobs of an engine as they were last stored.

    Raises:
        StoreError: The database cannot be used.
    """
    found = store.read(lambda connection: read_jobs(connection, study.study_id))
    return [job for job in found if job.engine == engine]


def stored_epochs(store: Store, study: StudyRecord) -> int:
    """How many epochs of a study are stored.

    Raises:
        StoreError: The database cannot be used.
    """
    table = schema.epochs
    query = select(func.count()).where(table.c.study_id == study.study_id)
    return store.read(lambda connection: connection.execute(query).scalar_one())
