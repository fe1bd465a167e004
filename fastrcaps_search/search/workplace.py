"""What a worker brings to the runs that it claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastrcaps_search.errors import DeviceError
from fastrcaps_search.search.events import Tell
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training import device as devices
from fastrcaps_search.training.splits import Splits


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a worker brings to every trial.

    Attributes:
        study: The study.
        splits: Images on the worker's device.
        threads: Called with the threads that a run was begun with, ``None`` for a new one, before
            it is opened; gives how many it may have.
        tell: Called with an event and its facts.
        should_stop: Whether the worker was asked to stop.
        was_suspended: Whether the worker was suspended since this was asked last.
    """

    study: StudyRecord
    splits: Splits
    threads: Callable[[int | None], int]
    tell: Tell
    should_stop: Callable[[], bool]
    was_suspended: Callable[[], bool]


def must_stop(place: Workplace, lease: RunLease) -> bool:
    """Whether the worker was asked to stop.

    Raises:
        LeaseLostError: Another worker has taken the run over.
    """
    lease.require_held()
    return place.should_stop()


def stored_trial(study: StudyRecord, lease: RunLease) -> TrialRecord:
    """The trial of a claimed run as it is stored now, with its epochs."""
    (found,) = lease.store.trials(study, epochs=True, number=lease.claim.key.number)
    return found


@contextmanager
def device_faults() -> Iterator[None]:
    """Raise :class:`DeviceError` where the device or its memory gives out."""
    try:
        yield
    except Exception as error:
        if not devices.is_device_fault(error):
            raise
        raise DeviceError(
            f"the device and its memory must last for the training, got: {first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    """What an error says first, or its kind."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
