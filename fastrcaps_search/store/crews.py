"""The crew of a study on a device: how many workers train on it at once, with how many threads.

The first choice is kept, so that all seconds of the study on that device compare.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store


@dataclass(frozen=True, slots=True, order=True)
class Crew:
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
class KeptCrew:
    """A crew with what was measured when it was chosen.

    Attributes:
        crew: The crew.
        step_seconds: Seconds of a step by batch size, with all its workers at work where crews
            were compared, else alone.
        images_per_second: Of all workers together, by crew, for every crew that was compared.
    """

    crew: Crew
    step_seconds: Mapping[int, float] = field(default_factory=dict)
    images_per_second: Mapping[Crew, float] = field(default_factory=dict)


def kept_crews(store: Store, study: StudyRecord, *, cores: int) -> dict[str, KeptCrew]:
    """Crews of the study on machines of so many cores, by the name of the device."""
    return store.read(lambda connection: _read(connection, study, cores))


def keep_crew(
    store: Store, study: StudyRecord, kept: KeptCrew, *, device_name: str, cores: int
) -> KeptCrew:
    """Store the study's crew on a device, unless it has one there; the one that stands."""
    values = {
        "study_id": study.study_id,
        "device_name": device_name,
        "cores": cores,
        "workers": kept.crew.workers,
        "threads": kept.crew.threads,
        "measured": json.dumps(_to_json(kept)),
        "chosen_at": now(),
    }

    def keep(connection: Connection) -> KeptCrew:
        # Two runs that begin at once both choose; the first one's choice stands.
        schema.insert_unless_there(connection, schema.crews, values)
        return _read(connection, study, cores)[device_name]

    return store.write(keep)


def _read(connection: Connection, study: StudyRecord, cores: int) -> dict[str, KeptCrew]:
    table = schema.crews
    rows = connection.execute(
        select(table).where(table.c.study_id == study.study_id, table.c.cores == cores)
    )
    return {
        row.device_name: _from_json(Crew(row.workers, row.threads), json.loads(row.measured))
        for row in rows
    }


def _to_json(kept: KeptCrew) -> dict[str, list[list[float]]]:
    return {
        "step_seconds": [[size, seconds] for size, seconds in kept.step_seconds.items()],
        "images_per_second": [
            [crew.workers, crew.threads, rate] for crew, rate in kept.images_per_second.items()
        ],
    }


def _from_json(crew: Crew, measured: Mapping[str, list[list[float]]]) -> KeptCrew:
    return KeptCrew(
        crew,
        {int(size): seconds for size, seconds in measured["step_seconds"]},
        {
            Crew(int(workers), int(threads)): rate
            for workers, threads, rate in measured["images_per_second"]
        },
    )
