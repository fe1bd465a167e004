"""What workers tell: the events by name, and how they reach whoever listens."""

from __future__ import annotations

import queue
from collections.abc import Callable
from enum import StrEnum, auto
from typing import Any

from fastrcaps_search.store.records import RunKey, StudyRecord


class WorkerEvent(StrEnum):
    """What a worker says of itself; each event comes with facts of its own."""

    WAITING = auto()
    """For runs that others hold: ``held``."""
    NO_CORES = auto()
    """Waits for ``cores`` that others use: ``held``."""
    BEGINS = auto()
    """A run: ``trial``, ``run`` where it has several, ``policy``, ``epochs``."""
    RESUMED = auto()
    """A run goes on from a checkpoint ``where``: at an ``epoch``, or in it."""
    RESTARTED = auto()
    """A run that was begun before begins again: ``reason``."""
    PROGRESS = auto()
    """Within an ``epoch``: ``images_per_second``."""
    EPOCH = auto()
    """An ``epoch`` has ended with this ``accuracy``, and so many ``images_per_second``."""
    UNSAVED = auto()
    """The checkpoint of an ``epoch`` could not be written: ``reason``."""
    COMPLETE = auto()
    """A run has a result: ``trial``, ``run``."""
    FAILED = auto()
    """A run has none: ``reason``, and whether it ``diverged``."""
    FAULT = auto()
    """The device gave out: ``attempt`` of ``attempts``, ``reason``."""
    LOST = auto()
    """A run was taken over by another worker."""
    TESTING = auto()
    """A network meets the test set."""
    UNTESTED = auto()
    """It cannot: ``reason``."""
    STORE_OUT = auto()
    """The database does not answer: ``reason``."""
    STORE_BACK = auto()
    """It answers again."""
    IDLE = auto()
    """Ends, with nothing to claim for so many ``seconds``."""
    DONE = auto()
    """Nothing is left to do."""
    ERROR = auto()
    """The worker cannot work: ``message``, ``exit_code``."""
    DIED = auto()
    """Said by the supervisor: it ended for this ``reason`` and is started again."""


Tell = Callable[..., None]
"""Called with an event and its facts."""
Events = queue.Queue[tuple[str, dict[str, Any] | None]]
"""Pairs of a worker's name and what it said, or ``None`` when it says no more."""


def named(study: StudyRecord, key: RunKey) -> dict[str, int]:
    """What names a run in what is told of it; a trial's only run needs no number."""
    if key.run == 0 and study.definition.runs_per_trial == 1:
        return {"trial": key.number}
    return {"trial": key.number, "run": key.run}
