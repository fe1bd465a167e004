"""Frozen records of what the store holds.

A run is what a worker claims. The state and the values of a trial follow from its runs when it is
read (:meth:`TrialRecord.of`); they are stored nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from statistics import fmean

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.box import Box
from fastrcaps_search.front.spread import spread
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store.feasibility import infeasible_reason

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
        training_seconds: Seconds up to the best epoch, when done.
        best_epoch: That epoch, when done.
        test_accuracy: Of the best epoch's weights on the test set, for trials on the front.
        parameters: Learned parameters, when done.
        failure: Why it ended without a result.
        removed: Whether its network was removed, as its trial was well behind the front.
        token: Current fencing token: one higher with each claim.
        created_at: Seconds since 1970 of its first claim, on the database's clock.
        finished_at: The same of its end.
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
    failure: Failure | None = None
    removed: bool = False
    token: int = 1
    created_at: float = 0.0
    finished_at: float | None = None

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
        state: State: failed once one of its planned runs has failed or any of its runs diverged,
            complete once all planned ones have a result.
        parameters: Assignment.
        configuration_key: Equal for trainings that are the same.
        values: Means over its runs, when complete; the accuracy is an estimate once enough trials
            were picked for more runs (:mod:`fastrcaps_search.analysis.estimates`).
        test_accuracy: Mean over its runs that met the test set, for trials on the front.
        failure: Why it failed.
        created_at: Seconds since 1970, on the database's clock.
        finished_at: The same of the end of its planned runs, or of its failure.
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
    created_at: float
    finished_at: float | None
    runs: tuple[RunRecord, ...] = ()
    epochs: tuple[EpochRecord, ...] = ()
    accuracy_spread: Spread | None = None
    seconds_spread: Spread | None = None
    infeasible: str | None = None
    set_aside: SetAside | None = None
    measured: Values | None = None

    @classmethod
    def of(
        cls,
        definition: StudyDefinition,
        *,
        number: int,
        parameters: TrialParameters,
        configuration_key: str,
        created_at: float,
        runs: tuple[RunRecord, ...],
        epochs: tuple[EpochRecord, ...] = (),
        set_aside: SetAside | None = None,
    ) -> TrialRecord:
        """The trial that these runs make."""
        planned = definition.runs_per_trial
        failure = next((run.failure for run in runs if _fails_trial(run, planned)), None)
        first = [run for run in runs if run.run < planned and run.accuracy is not None]
        state, values, ends = TrialState.RUNNING, None, [run.finished_at or 0.0 for run in first]
        if failure is not None:
            state = TrialState.FAILED
            ends = [run.finished_at or 0.0 for run in runs if _fails_trial(run, planned)]
        elif len(first) == planned:
            state, values = TrialState.COMPLETE, _means(runs)
        infeasible = None
        if values is not None:
            infeasible = infeasible_reason(definition, values.accuracy)
            if set_aside is not None:
                infeasible = f"set aside by {set_aside.by}: {set_aside.why}"
        return cls(
            number=number,
            state=state,
            parameters=parameters,
            configuration_key=configuration_key,
            values=values,
            test_accuracy=_test_accuracy(runs),
            failure=failure,
            created_at=created_at,
            finished_at=max(ends) if state is not TrialState.RUNNING else None,
            runs=runs,
            epochs=epochs,
            accuracy_spread=None if values is None else _spread(runs, "accuracy"),
            seconds_spread=None if values is None else _spread(runs, "training_seconds"),
            infeasible=infeasible,
            set_aside=set_aside,
        )

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
    def begun_runs(self) -> tuple[RunRecord, ...]:
        """The runs of which it is known where they train."""
        return tuple(run for run in self.runs if run.setting is not None)

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
        names = dict.fromkeys(run.setting.device_name for run in self.runs if run.setting)
        return "+".join(names) or None


def _fails_trial(run: RunRecord, planned: int) -> bool:
    """Whether a trial fails by this run: a planned one without a result, or any that diverged."""
    if run.failure is None or run.failure.kind == GIVEN_UP:
        return False
    return run.run < planned or run.failure.is_divergence


def _measured(runs: Sequence[RunRecord], name: str) -> list[float]:
    return [getattr(run, name) or 0.0 for run in runs if run.accuracy is not None]


def _means(runs: Sequence[RunRecord]) -> Values:
    return Values(*(fmean(_measured(runs, field.name)) for field in fields(Values)))


def _spread(runs: Sequence[RunRecord], name: str) -> Spread | None:
    """Of one value over the runs that have it; ``None`` for fewer than two."""
    values = _measured(runs, name)
    # Of NaN or infinity, which a server's table can hold, there is none.
    over = spread(values) if all(map(math.isfinite, values)) else None
    return None if over is None else Spread(over.deviation, over.margin)


def _test_accuracy(runs: Sequence[RunRecord]) -> float | None:
    """Mean over the runs with a network, when all have met the test set."""
    # A run without its network cannot meet the test set any more.
    met = [
        run.test_accuracy
        for run in runs
        if run.accuracy is not None and not (run.removed and run.test_accuracy is None)
    ]
    known = [accuracy for accuracy in met if accuracy is not None]
    return fmean(known) if known and len(known) == len(met) else None
