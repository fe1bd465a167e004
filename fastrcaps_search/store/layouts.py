"""The worker layout of a study on a device: how many train on it at once, with how many threads.

The first choice is kept, so that all seconds of the study on that device compare.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from fastrcaps_search.store import schema
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store


@dataclass(frozen=True, slots=True, order=True)
class WorkerLayout:
    """Workers that share one device.

    Attributes:
        workers: How many.
        threads: Threads of each.
    """

    workers: int
    threads: int

    @property
    def words(self) -> str:
        """``2 workers with 1 thread``."""
        return (
            f"{self.workers} worker{'s' if self.workers > 1 else ''} with "
            f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        )


def stored_layouts(store: Store, study: StudyRecord, *, cores: int) -> dict[str, WorkerLayout]:
    """Layouts of the study on machines of so many cores, by the name of the device."""
    return store.read(lambda connection: _read(connection, study, cores))


def keep_layout(
    store: Store, study: StudyRecord, chosen: WorkerLayout, *, device_name: str, cores: int
) -> WorkerLayout:
    """Store the study's layout on a device, unless it has one there; the one that stands."""
    values = {
        "study_id": study.study_id,
        "device_name": device_name,
        "cores": cores,
        "workers": chosen.workers,
        "threads": chosen.threads,
        "chosen_at": schema.now(),
    }

    def keep(connection: Connection) -> WorkerLayout:
        # Two runs that begin at once both choose; the first one's choice stands.
        schema.insert_unless_there(connection, schema.layouts, values)
        return _read(connection, study, cores)[device_name]

    return store.write(keep)


def _read(connection: Connection, study: StudyRecord, cores: int) -> dict[str, WorkerLayout]:
    table = schema.layouts
    rows = connection.execute(
        select(table).where(table.c.study_id == study.study_id, table.c.cores == cores)
    )
    return {row.device_name: WorkerLayout(row.workers, row.threads) for row in rows}
