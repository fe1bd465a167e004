"""What a ``run`` or a ``worker`` was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DefinitionError, StoreError, UsageError, WrongStoreError
from fastrcaps_search.search.crews import Wanted
from fastrcaps_search.search.supervise import MAX_FAILURES
from fastrcaps_search.store.place import LEASE_SECONDS, PATIENCE_SECONDS, Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """What workers were asked for.

    Attributes:
        location: The database.
        data_folder: Folder with image data, if one was named.
        wanted: Devices and workers.
        lease_seconds: Silence after which a worker counts as lost.
        store_patience: Seconds for which an outage of the database is borne.
        max_failures: Trials that may fail in a row before the workers are stopped.
    """

    location: Location
    data_folder: Path | None = None
    wanted: Wanted = field(default_factory=Wanted)
    lease_seconds: float = LEASE_SECONDS
    store_patience: float = PATIENCE_SECONDS
    max_failures: int = MAX_FAILURES


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(WorkRequest):
    """What a run was asked for.

    Attributes:
        definition: The study.
        trials: Total of trials; ``None`` for the stored budget or the length of a fixed list.
        seed: Seed; ``None`` for the stored one, or 0.
        repeats: Runs that each trial on or near the front is to have; 0 to plan none.
    """

    definition: StudyDefinition
    trials: int | None
    seed: int | None = None
    repeats: int = 0


def asked_study(study: str, location: Location) -> StudyDefinition:
    """The definition of a study: a shipped one, that of a file, or one stored under that name.

    Raises:
        DefinitionError: The file breaks a rule.
        UsageError: There is none of these.
    """
    try:
        return load_study(study)
    except DefinitionError:
        raise
    except UsageError as error:
        try:
            stored = _stored(location, study)
        except StoreError as unread:
            raise UsageError(f"{error}; whether it is stored is unknown: {unread}") from unread
        if stored is not None:
            return stored.definition
        raise UsageError(f"{error}, and it is not stored in {location.shown}") from error


def budget(request: RunRequest) -> int:
    """Trials that the study is to have: as asked, else as listed, else as stored.

    Raises:
        UsageError: None of these is known.
    """
    if request.trials is not None:
        return request.trials
    if request.definition.configurations:
        return len(request.definition.configurations)
    stored = _stored(request.location, request.definition.name)
    if stored is not None:
        return stored.budget
    raise UsageError("--trials must be given to begin a search, for example --trials 12")


def _stored(location: Location, name: str) -> StudyRecord | None:
    """The study of that name, if it is there."""
    path = location.path
    if path is not None and not path.is_file():
        return None
    try:
        store = Store.reading(location)
    except WrongStoreError:
        if path is not None:
            raise
        return None
    try:
        return store.find_study(name)
    finally:
        store.close()
