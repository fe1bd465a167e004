"""A trial as its runs make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.spread import Spread, spread
from fastrcaps_search.store.records import (
    GIVEN_UP,
    EpochRecord,
    Failure,
    RunRecord,
    SecondsBasis,
    SetAside,
    TrialState,
    Values,
)

GUESSING = "not better than guessing"


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
        objectives: Names of what the study's trials are compared by.
    """

    number: int
    state: TrialState
    parameters: TrialParameters
    configuration_key: str
    values: Values | None
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
    objectives: tuple[str, ...] = COMMON

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
        failing = [run for run in runs if _fails_trial(run, planned)]
        done = [run for run in runs if run.run < planned and run.accuracy is not None]
        state, ending = TrialState.RUNNING, list[RunRecord]()
        values, infeasible, accuracy_spread, seconds_spread = None, None, None, None
        if failing:
            state, ending = TrialState.FAILED, failing
        elif len(done) == planned:
            state, ending = TrialState.COMPLETE, done
            values = _means(runs, definition.objectives)
            infeasible = infeasible_reason(definition, values.accuracy, set_aside)
            accuracy_spread = spread(_measured(runs, "accuracy"), most=1.0)
            seconds_spread = spread(_measured(runs, "training_seconds"))
        return cls(
            number=number,
            state=state,
            parameters=parameters,
            configuration_key=configuration_key,
            values=values,
            failure=failing[0].failure if failing else None,
            created_at=created_at,
            finished_at=max((run.finished_at or 0.0 for run in ending), default=None),
            runs=runs,
            epochs=epochs,
            accuracy_spread=accuracy_spread,
            seconds_spread=seconds_spread,
            infeasible=infeasible,
            set_aside=set_aside,
            objectives=definition.objectives,
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
    def seconds_basis(self) -> SecondsBasis:
        """Where the training seconds of its values come from."""
        return SecondsBasis.of(run.seconds_basis for run in self.results)

    @property
    def measured_seconds(self) -> float | None:
        """Mean over its runs of the seconds that they took where they trained, when complete."""
        found = [run.measured_seconds for run in self.results if run.measured_seconds is not None]
        return fmean(found) if found and self.values is not None else None

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
    def test_accuracy(self) -> float | None:
        """Mean over its runs with a network, once all have met the test set."""
        # A run without its network cannot meet the test set any more.
        met = [run.test_accuracy for run in self.results if run.test_accuracy is not None]
        return fmean(met) if met and not self.untested else None

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
    return [run.value(name) for run in runs if run.accuracy is not None]


def _means(runs: Sequence[RunRecord], objectives: Sequence[str]) -> Values:
    return Values({name: fmean(_measured(runs, name)) for name in objectives})


def infeasible_reason(
    definition: StudyDefinition, accuracy: float, set_aside: SetAside | None = None
) -> str | None:
    """Why a complete trial of that mean accuracy is on no front; ``None`` for a feasible one."""
    if set_aside is not None:
        return f"set aside by {set_aside.by}: {set_aside.why}"
    # Said so that a NaN counts as guessing.
    if not accuracy >= definition.least_feasible_accuracy:
        return GUESSING
    least = definition.min_accuracy
    if least is not None and accuracy < least:
        return f"accuracy below the study's min_accuracy {100 * least:.6g} %"
    return None
