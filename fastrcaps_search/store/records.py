"""Frozen records of what the store holds.

A run is what a worker claims; a trial follows from its runs (``store.trials``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fastrcaps_search.definition.objective import COMMON, costs_of
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.metrics import EpochMetrics, RunSetting

DIVERGED = "diverged"
"""Kind of the failure of a training that left the finite numbers."""
MEASURED = ("accuracy", "training_seconds")
"""Values that differ from run to run; the parameters are the same in all."""
GIVEN_UP = "given up"
"""Kind of the failure of a run whose trial failed by another of its runs."""


class Purpose(StrEnum):
    """What a run is claimed for: to be trained, or to read the test set by its best weights."""

    TRAIN = "train"
    TEST = "test"


class TrialState(StrEnum):
    """State of a trial; all but ``RUNNING`` are final."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


class SecondsBasis(StrEnum):
    """Where seconds of the study's reference device come from."""

    MEASURED = "measured"
    PARTLY = "partly computed"
    COMPUTED = "computed"

    @classmethod
    def of(cls, parts: Iterable[SecondsBasis]) -> SecondsBasis:
        """That of a mean."""
        found = set(parts)
        return found.pop() if len(found) == 1 else cls.PARTLY if found else cls.MEASURED


class Values(dict[str, float]):
    """Values of a trial by name of the objective, in the order of the study's objectives."""

    __slots__ = ()

    @property
    def accuracy(self) -> float:
        """The accuracy, a fraction."""
        return self["accuracy"]

    @property
    def training_seconds(self) -> float:
        """Seconds of training."""
        return self["training_seconds"]

    @property
    def parameters(self) -> float:
        """Number of learned parameters."""
        return self["parameters"]

    @property
    def costs(self) -> tuple[float, ...]:
        """The values in the order of the objectives, less is better."""
        return costs_of(self)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trial failed.

    Attributes:
        kind: Name of the error's class.
        message: One line.
        trace: The whole trace.
        log_path: The trial's log.
    """

    kind: str
    message: str
    trace: str
    log_path: str

    @property
    def is_divergence(self) -> bool:
        """Whether the loss or a value was not finite: the fault of the configuration."""
        return self.kind == DIVERGED


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A stored study.

    Attributes:
        study_id: Key of our tables.
        name: Name.
        uid: Random mark that ties checkpoints to this study.
        definition: The frozen definition.
        seed: Seed of the first run of each trial and of the proposals.
        budget: The largest number of trials asked for.
        created_at: Seconds since 1970, on the database's clock.
        front_runs: Runs that each trial on or near the front is to have; 0 for none planned.
        box: In which the hypervolume is measured, from the first complete trial on.
        reference_device: Name of the device in whose seconds the study counts; ``None`` until one
            is named or the first is calibrated.
        asked: Flags of its last ``run``, as :mod:`fastrcaps_search.search.again` has them.
    """

    study_id: int
    name: str
    uid: str
    definition: StudyDefinition
    seed: int
    budget: int
    created_at: float
    front_runs: int = 0
    box: Box | None = None
    reference_device: str | None = None
    asked: str | None = None

    def seed_of(self, run: int) -> int:
        """Seed of that run of every trial: all have the same order of images and shifts in it."""
        return self.seed + run


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """A stored epoch: its figures, and where and under which claim they came to be.

    Attributes:
        run: Index of the run within its trial, from 0.
        token: Fencing token of the claim that stored it; grows with each take-over.
        worker: Name of the worker that stored it.
        metrics: The figures.
        setting: Device, versions, threads.
        sharing: Workers that used the same device, at its start or at its end, whichever were
            more; those of other studies in the same database included.
        stored_at: Seconds since 1970, on the database's clock.
        computed_seconds: What its training would have taken on the study's reference device;
            ``None`` where it was measured there.
    """

    run: int
    token: int
    worker: str
    metrics: EpochMetrics
    setting: RunSetting
    sharing: int
    stored_at: float
    computed_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Training seconds of the reference device, measured or computed."""
        measured = self.metrics.training_seconds
        return measured if self.computed_seconds is None else self.computed_seconds


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """Which run of which trial.

    Attributes:
        number: The trial.
        run: Index of the run within it, from 0.
    """

    number: int
    run: int

    def __str__(self) -> str:
        return f"trial {self.number} run {self.run}"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A stored run.

    Attributes:
        run: Index within its trial, from 0.
        seed: Seed.
        setting: Device, versions, threads that it was begun with; ``None`` while its worker has
            not begun it.
        bit_equal: ``False`` once it was continued under another setting.
        accuracy: Best accuracy, when done.
        training_seconds: Seconds of the reference device up to the best epoch, when done.
        best_epoch: That epoch, when done.
        test_accuracy: Of the best epoch's weights on the test set, for trials on the front.
        parameters: Learned parameters, when done.
        others: Values in the study's objectives beyond the common three, when done.
        failure: Why it ended without a result.
        removed: Whether its network is gone: its trial was well behind the front, or the disk
            refused it.
        token: Current fencing token: one higher with each claim.
        created_at: Seconds since 1970 of its first claim, on the database's clock.
        finished_at: The same of its end.
        log_path: Its log, where it was begun or went on.
        files: Folder or URL of the study's checkpoints there.
        measured_seconds: Seconds that training up to the best epoch took where it was, when done.
        computed_epochs: How many of these epochs have computed seconds, when done.
    """

    run: int
    seed: int
    setting: RunSetting | None
    bit_equal: bool
    accuracy: float | None
    training_seconds: float | None
    best_epoch: int | None
    test_accuracy: float | None
    parameters: int | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    failure: Failure | None = None
    removed: bool = False
    token: int = 1
    created_at: float = 0.0
    finished_at: float | None = None
    log_path: str | None = None
    files: str | None = None
    measured_seconds: float | None = None
    computed_epochs: int | None = None

    @property
    def seconds_basis(self) -> SecondsBasis:
        """Where its training seconds come from, when done."""
        if not self.computed_epochs:
            return SecondsBasis.MEASURED
        is_all = self.computed_epochs == self.best_epoch
        return SecondsBasis.COMPUTED if is_all else SecondsBasis.PARTLY

    def value(self, objective: str) -> float:
        """Its value in an objective of that name, when done; NaN where none was stored."""
        found = getattr(self, objective) if objective in COMMON else self.others.get(objective)
        return math.nan if found is None else float(found)

    @property
    def has_ended(self) -> bool:
        """Whether it is not to be trained any more."""
        return self.accuracy is not None or self.failure is not None


@dataclass(frozen=True, slots=True)
class SetAside:
    """That somebody has taken a trial off the front.

    Attributes:
        by: Name of the user.
        host: Name of the machine.
        why: One line.
        at: Seconds since 1970, on the database's clock.
    """

    by: str
    host: str
    why: str
    at: float
