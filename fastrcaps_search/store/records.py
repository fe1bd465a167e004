"""Frozen records of what the store holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics, RunSetting


class TrialState(StrEnum):
    """State of a trial; all but ``RUNNING`` are final."""

    RUNNING = "running"
    COMPLETE = "complete"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Values:
    """The three values of a trial, in the order of the objectives."""

    accuracy: float
    training_seconds: float
    parameters: float

    def as_tuple(self) -> tuple[float, float, float]:
        """The values in the order of the objectives."""
        return (self.accuracy, self.training_seconds, self.parameters)


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
        repeats: Runs that each trial on or near the front is to have; 0 for none planned.
    """

    study_id: int
    name: str
    uid: str
    definition: StudyDefinition
    seed: int
    budget: int
    created_at: float
    repeats: int = 0


class _OnHost:
    """What names its host."""

    __slots__ = ()
    host: str

    @property
    def host_name(self) -> str:
        """The host's name alone; its machine id is nobody's business."""
        name, separator, _ = self.host.rpartition("/")
        return name if separator else self.host


@dataclass(frozen=True, slots=True)
class ClaimRecord(_OnHost):
    """That a worker was given a trial: for the first time, to go on with it, or to test it.

    The last claim of a failed trial is that of the worker that failed. A complete trial on the
    front has been claimed once more after its end, to read its test accuracy.

    Attributes:
        number: The trial.
        token: Fencing token; grows with each claim of the trial.
        worker: Name of the worker.
        host: Name and id of its machine.
        device: Device that it trains on.
        claimed_at: Seconds since 1970, on the database's clock.
    """

    number: int
    token: int
    worker: str
    host: str
    device: str
    claimed_at: float


@dataclass(frozen=True, slots=True)
class LeaseRecord(_OnHost):
    """Which process trains a trial now.

    Attributes:
        number: The trial.
        token: Fencing token of the claim.
        worker: Name of the worker.
        host: Name and id of its machine.
        boot_id: Of its machine.
        pid_namespace: Of its container.
        pid: Process id.
        process_start: Start of the process in the kernel's ticks.
        device: Device that it trains on.
        claimed_at: Seconds since 1970, on the database's clock.
        lease_seconds: Silence after which it runs out; ``None`` for one that does not, as those
            of earlier releases.
        silent_seconds: Since it was last renewed.
        suspected_seconds: Since another worker first found it silent; ``None`` where none has.
    """

    number: int
    token: int
    worker: str
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: int
    device: str
    claimed_at: float
    lease_seconds: float | None = None
    silent_seconds: float | None = None
    suspected_seconds: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the worker has not been heard for so long that it is suspected to be lost."""
        # After the clock was set back all are silent, until they renew.
        return self._silence >= 2 / 3 or self._silence < 0

    @property
    def has_run_out(self) -> bool:
        """Whether the worker has not been heard for the whole length of its lease."""
        return self._silence >= 1

    @property
    def is_lost(self) -> bool:
        """Whether the trial may be taken over: silent, suspected, and silent ever since.

        The last third of the lease begins when another worker finds it silent. After an outage of
        the database all are silent, and this is the time in which the living renew.
        """
        if self.lease_seconds is None or self.suspected_seconds is None:
            return False
        return self.is_silent and self.suspected_seconds >= self.lease_seconds / 3

    @property
    def _silence(self) -> float:
        """Silence as a share of the lease."""
        if not self.lease_seconds or self.silent_seconds is None:
            return 0.0
        return self.silent_seconds / self.lease_seconds


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
        stored_at: Seconds since 1970, on the database's clock; ``None`` for those of earlier
            releases.
    """

    run: int
    token: int
    worker: str
    metrics: EpochMetrics
    setting: RunSetting
    sharing: int
    stored_at: float | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A stored run.

    Attributes:
        run: Index within its trial, from 0.
        seed: Seed.
        setting: Device, versions, threads that it was begun with.
        bit_equal: ``False`` once it was continued under another setting.
        accuracy: Best accuracy, when done.
        training_seconds: Seconds up to the best epoch, when done.
        best_epoch: That epoch, when done.
        test_accuracy: Of the best epoch's weights on the test set, for trials on the front.
        parameters: Learned parameters, when done.
        failure: Why a planned repeat ended without a result.
    """

    run: int
    seed: int
    setting: RunSetting
    bit_equal: bool
    accuracy: float | None
    training_seconds: float | None
    best_epoch: int | None
    test_accuracy: float | None
    parameters: int | None = None
    failure: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is not to be trained any more."""
        return self.accuracy is not None or self.failure is not None


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the runs of a trial scatter in one of its values.

    Attributes:
        deviation: Standard deviation of the runs (with n - 1).
        margin: The 95 % interval of their mean reaches so far to each side (Student's t).
    """

    deviation: float
    margin: float


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A stored trial.

    Attributes:
        number: From 0.
        state: State.
        parameters: Assignment.
        configuration_key: Equal for trainings that are the same.
        values: Means over its runs, when complete.
        test_accuracy: Mean over its runs with a result, for trials on the front.
        failure: Why it failed.
        token: Current fencing token.
        created_at: Seconds since 1970, on the database's clock.
        finished_at: The same.
        runs: Its runs, by index.
        epochs: Its epochs, by run and epoch; empty where they were not asked for.
        accuracy_spread: Of the accuracies of its runs, when complete with two or more.
        seconds_spread: Of their training seconds.
    """

    number: int
    state: TrialState
    parameters: TrialParameters
    configuration_key: str
    values: Values | None
    test_accuracy: float | None
    failure: Failure | None
    token: int
    created_at: float
    finished_at: float | None
    runs: tuple[RunRecord, ...] = ()
    epochs: tuple[EpochRecord, ...] = ()
    accuracy_spread: Spread | None = None
    seconds_spread: Spread | None = None

    @property
    def results(self) -> tuple[RunRecord, ...]:
        """The runs that its values are means of."""
        return tuple(run for run in self.runs if run.accuracy is not None)

    @property
    def ended_runs(self) -> tuple[RunRecord, ...]:
        """The runs that are not to be trained any more, repeats that failed included."""
        return tuple(run for run in self.runs if run.has_ended)

    @property
    def is_finished(self) -> bool:
        """Whether the trial counts towards the budget."""
        return self.state is not TrialState.RUNNING

    @property
    def device(self) -> str | None:
        """Device names of its runs; several are joined with ``+``."""
        names = dict.fromkeys(run.setting.device_name for run in self.runs)
        return "+".join(names) or None
