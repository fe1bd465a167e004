"""Frozen records of what the store holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.box import Box
from fastrcaps_search.metrics import EpochMetrics, RunSetting

DIVERGED = "diverged"
"""Kind of the failure of a training that left the finite numbers."""


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
        repeats: Runs that each trial on or near the front is to have; 0 for none planned.
        box: In which the hypervolume is measured, from the first complete trial on.
    """

    study_id: int
    name: str
    uid: str
    definition: StudyDefinition
    seed: int
    budget: int
    created_at: float
    repeats: int = 0
    box: Box | None = None


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
    """

    run: int
    token: int
    worker: str
    metrics: EpochMetrics
    setting: RunSetting
    sharing: int
    stored_at: float


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
        removed: Whether its network was removed, as its trial was well behind the front.
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
    removed: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it is not to be trained any more."""
        return self.accuracy is not None or self.failure is not None


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the runs of a trial scatter in one of its values.

    Attributes:
        deviation: Standard deviation of the runs (with n - 1); ``None`` for one run.
        margin: From the value to the farther end of its 95 % interval: of the mean (Student's t),
            or of the estimate.
        interval: That of an estimate, which need not lie evenly about it.
    """

    deviation: float | None
    margin: float
    interval: tuple[float, float] | None = None

    def ends(self, mean: float, most: float = math.inf) -> tuple[float, float]:
        """Ends of the 95 % interval of a value between 0 and ``most``, given the value."""
        if self.interval is not None:
            return self.interval
        return max(mean - self.margin, 0.0), min(mean + self.margin, most)

    def reach(self, mean: float, most: float = math.inf) -> float:
        """From the value to the farther of these ends."""
        return max(abs(end - mean) for end in self.ends(mean, most))


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


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A stored trial.

    Attributes:
        number: From 0.
        state: State.
        parameters: Assignment.
        configuration_key: Equal for trainings that are the same.
        values: Means over its runs, when complete; the accuracy is an estimate once enough trials
            were picked for more runs (:mod:`fastrcaps_search.analysis.estimates`).
        test_accuracy: Mean over its runs that met the test set, for trials on the front.
        failure: Why it failed.
        token: Current fencing token.
        created_at: Seconds since 1970, on the database's clock.
        finished_at: The same.
        runs: Its runs, by index.
        epochs: Its epochs, by run and epoch; empty where they were not asked for.
        accuracy_spread: Of the accuracies of its runs, when complete with two or more.
        seconds_spread: Of their training seconds.
        infeasible: Why it is on no front though complete; ``None`` where it may be on one.
        set_aside: Who has taken it off the front by hand.
        measured: Means over its runs where the values are estimates.
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
    infeasible: str | None = None
    set_aside: SetAside | None = None
    measured: Values | None = None

    @property
    def is_feasible(self) -> bool:
        """Whether it is complete and may be on the front."""
        return self.feasible_values is not None

    @property
    def feasible_values(self) -> Values | None:
        """The values that fronts, ranges and choices go by; ``None`` where it has none."""
        is_complete = self.state is TrialState.COMPLETE
        return self.values if is_complete and self.infeasible is None else None

    @property
    def means(self) -> Values | None:
        """Means over its runs, when complete."""
        return self.values if self.measured is None else self.measured

    @property
    def feasible_means(self) -> Values | None:
        """Means over its runs; ``None`` where it may not be on the front."""
        return self.means if self.is_feasible else None

    @property
    def results(self) -> tuple[RunRecord, ...]:
        """The runs that gave its values."""
        return tuple(run for run in self.runs if run.accuracy is not None)

    @property
    def best_run(self) -> RunRecord | None:
        """The run that ``export`` hands out: of highest accuracy, the first of equal ones.

        One whose network is kept, where there is any.
        """
        kept = [run for run in self.results if not run.removed] or self.results
        return max(kept, key=lambda run: (run.accuracy or 0.0, -run.run), default=None)

    @property
    def untested(self) -> tuple[RunRecord, ...]:
        """The runs whose networks are there and have not met the test set."""
        return tuple(r for r in self.results if r.test_accuracy is None and not r.removed)

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
