"""What a ``run`` or a ``worker`` was asked for, refused where it cannot be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fastrcaps_search.definition.keys import LARGEST_RUNS, LARGEST_SEED
from fastrcaps_search.definition.load import StudyLike, load_study
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    DefinitionError,
    StoreError,
    StudyNotFoundError,
    UsageError,
    WrongStoreError,
)
from fastrcaps_search.search.engines import ENGINES, Engine
from fastrcaps_search.search.launch import LOCAL
from fastrcaps_search.search.launchers import LauncherOptions, chosen_engine
from fastrcaps_search.search.layouts import DeviceOptions
from fastrcaps_search.store.location import LEASE_LIMITS, PATIENCE_LIMITS, Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import granted_cores

MAX_FAILURES = 3
"""Trials that fail in a row, unless asked otherwise, before the run gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What workers were asked for.

    Attributes:
        location: The database.
        lease_seconds: Silence after which a worker counts as lost.
        store_patience: Seconds for which an outage of the database is borne.
        data_folder: Folder with image data, if one was named.
        devices: Devices and workers.
        max_failures: Trials that may fail in a row before the workers are stopped.
        launcher: Name of what starts the workers.
        idle_limit: Seconds without anything to claim after which a worker ends, if there are any.

    Raises:
        UsageError: One of them cannot be.
    """

    location: Location
    lease_seconds: float
    store_patience: float
    data_folder: Path | None = None
    devices: DeviceOptions = field(default_factory=DeviceOptions)
    max_failures: int = MAX_FAILURES
    launcher: str = LOCAL.name
    idle_limit: float | None = None

    def __post_init__(self) -> None:
        if self.engine is None:
            self.devices.require_threads(granted_cores())
        _require_seconds("lease_seconds", self.lease_seconds, LEASE_LIMITS)
        _require_seconds("store_patience", self.store_patience, PATIENCE_LIMITS)
        require_whole("max_failures", self.max_failures, low=1)

    @property
    def engine(self) -> Engine | None:
        """What places the workers; ``None`` where they are started here.

        Raises:
            UsageError: There is no launcher of that name, or it is not to be used here.
        """
        if self.launcher in ENGINES:
            raise UsageError(
                f"worker must start its workers itself, got the launcher {self.launcher}; place "
                f"workers with `run --launcher {self.launcher}`"
            )
        return chosen_engine(self.launcher, {}, detach=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(WorkerOptions):
    """What a run was asked for.

    Attributes:
        definition: The study.
        trials: Total of trials; ``None`` for the stored budget or the length of a fixed list.
        seed: Seed; ``None`` for the stored one, or 0.
        front_runs: Runs that each trial on or near the front is to have; ``None`` to plan none.
        jobs: Workers that an engine is to place; 0 to give all back.
        launcher_options: What the engine is told.
        detach: Whether to return once the engine has them.
        reference_device: Name of the device in whose seconds the study is to count; ``None`` for
            that of before, or the first that is calibrated.
    """

    definition: StudyDefinition
    trials: int | None
    seed: int | None = None
    front_runs: int | None = None
    jobs: int = 1
    launcher_options: LauncherOptions = field(default_factory=dict)
    detach: bool = False
    reference_device: str | None = None

    def __post_init__(self) -> None:
        WorkerOptions.__post_init__(self)
        if self.trials is not None:
            require_whole("trials", self.trials, low=1)
        if self.seed is not None:
            require_whole("seed", self.seed, low=0, high=LARGEST_SEED)
        if self.front_runs is not None:
            require_whole("runs_on_front", self.front_runs, low=2, high=LARGEST_RUNS)
        require_whole("workers", self.jobs, low=0)
        device = self.reference_device
        if device is not None and not (
            isinstance(device, str) and device and device.isprintable()
        ):
            raise UsageError(
                "reference_device must be the name of a device, as `fastrcaps-search doctor` "
                f"shows it, got {device!r}"
            )

    @property
    def engine(self) -> Engine | None:
        """What places the workers; ``None`` where they are started here.

        Raises:
            UsageError: There is no launcher of that name, or it does not know an option.
        """
        return chosen_engine(self.launcher, self.launcher_options, detach=self.detach)


def require_whole(name: str, value: int, *, low: int, high: int | None = None) -> None:
    """Refuse what is no whole number in the range.

    Raises:
        UsageError: It is not.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not (is_whole and value >= low and (high is None or value <= high)):
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise UsageError(f"{name} must be a whole number {allowed}, got {value!r}")


def _require_seconds(name: str, value: float, limits: tuple[float, float]) -> None:
    low, high = limits
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and low <= value <= high):
        raise UsageError(f"{name} must be seconds from {low:.0f} to {high:.0f}, got {value!r}")


def asked_study(study: StudyLike, location: Location) -> StudyDefinition:
    """The definition of a study: a shipped one, that of a file, or one stored under that name.

    Raises:
        DefinitionError: The file breaks a rule.
        UsageError: There is none of these.
    """
    if isinstance(study, StudyDefinition):
        return study
    try:
        return load_study(study)
    except DefinitionError:
        raise
    except UsageError as error:
        try:
            stored = stored_study(location, str(study))
        except StoreError as unread:
            raise UsageError(f"{unread}; nor is it known without: {error}") from unread
        if stored is not None:
            return stored.definition
        raise UsageError(f"{error}, and it is not stored in {location.shown}") from error


def stored_study(location: Location, name: str) -> StudyRecord | None:
    """The study of that name, if it is there."""
    path = location.path
    if path is not None and not path.is_file():
        return None
    try:
        with Store.reading(location) as store:
            return store.study(name)
    except StudyNotFoundError:
        return None
    except WrongStoreError:
        if path is not None:
            raise
        return None
