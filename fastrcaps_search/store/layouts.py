"""The worker layout of a study on a device: how many train on it at once, with how many threads.

The first choice is kept, so that all seconds of the study on that device compare.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class StoredLayout:
    """A study's layout on a device, with what was measured when it was chosen.

    Attributes:
        layout: The layout.
        step_seconds: Seconds of a step by batch size.
    """

    layout: WorkerLayout
    step_seconds: Mapping[int, float] = field(default_factory=dict)


def stored_layouts(store: Store, study: StudyRecord, *, cores: int) -> dict[str, StoredLayout]:
    """Layouts of the study on machines of so many cores, by the name of the device."""
    return store.read(lambda connection: _read(connection, study, cores))


def keep_layout(
    store: Store, study: StudyRecord, chosen: StoredLayout, *, device_name: str, cores: int
) -> StoredLayout:
    """Store the study's layout on a device, unless it has one there; the one that stands."""
    values = {
        "study_id": study.study_id,
        "device_name": device_name,
        "cores": cores,
        "workers": chosen.layout.workers,
        "threads": chosen.layout.threads,
        "step_seconds": json.dumps(dict(chosen.step_seconds)),
        "chosen_at": schema.now(),
    }

    def keep(connection: Connection) -> StoredLayout:
        # Two runs that begin at once both choose; the first one's choice stands.
        schema.insert_unless_there(connection, schema.layouts, values)
        return _read(connection, study, cores)[device_name]

    return store.write(keep)


def _read(connection: Connection, study: StudyRecord, cores: int) -> dict[str, StoredLayout]:
    table = schema.layouts
    rows = connection.execute(
        select(table).where(table.c.study_id == study.study_id, table.c.cores == cores)
    )
    return {
        row.device_name: StoredLayout(
            WorkerLayout(row.workers, row.threads),
            {int(size): seconds for size, seconds in json.loads(row.step_seconds).items()},
        )
        for row in rows
    }
