"""What is left to do, against lists written out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastrcaps_search.analysis.front import near_front_numbers, probabilities
from fastrcaps_search.analysis.remaining_work import (
    RemainingWork,
    due_repeats,
    remaining_work,
    untested_front,
)
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.records import (
    DIVERGED,
    Failure,
    RunKey,
    RunRecord,
    StudyRecord,
    TrialState,
)
from fastrcaps_search.store.trials import TrialRecord

NO_LUCK = Failure("E", "no luck", "", "")
Result = tuple[float, float] | Failure | None
"""Accuracy and seconds of a run, why it failed, or ``None`` for one under way."""


def study_of(*, budget: int, planned: int = 1, repeats: int = 0, **keys: Any) -> StudyRecord:  # noqa: ANN401  # any of a definition
    definition = StudyDefinition.from_dict({"name": "s", "runs_per_trial": planned, **keys})
    return StudyRecord(1, "s", "uid", definition, 0, budget, 0.0, front_runs=repeats)


def run_of(index: int, result: Result) -> RunRecord:
    record = RunRecord(index, index, None, True, None, None, None, None, parameters=10)
    if result is None:
        return record
    if isinstance(result, Failure):
        return replace(record, failure=result, finished_at=1.0)
    accuracy, seconds = result
    return replace(record, accuracy=accuracy, training_seconds=seconds, finished_at=1.0)


def trial(study: StudyRecord, number: int, *results: Result) -> TrialRecord:
    """A trial whose first runs have these results."""
    return TrialRecord.of(
        study.definition,
        number=number,
        parameters=next(iter(study.definition.assignments())),
        configuration_key=str(number),
        created_at=0.0,
        runs=tuple(run_of(index, result) for index, result in enumerate(results)),
    )


def left(study: StudyRecord, *trials: TrialRecord, possible: int | None = None) -> RemainingWork:
    return remaining_work(study, trials, possible=possible)


def keys(*pairs: tuple[int, int]) -> tuple[RunKey, ...]:
    return tuple(RunKey(number, run) for number, run in pairs)


class TestSearch:
    def test_an_empty_study_has_its_budget_of_trials_left(self) -> None:
        work = left(study_of(budget=3, planned=5))
        assert (work.target, work.finished, work.trials) == (3, 0, 3)
        assert (work.runs, work.repeats, work.tests) == ((), (), ())
        assert work.planned_runs == work.at_once == 15
        assert work.is_searching
        assert not work.is_done

    def test_planned_runs_that_have_not_ended_are_left_held_or_not(self) -> None:
        study = study_of(budget=4, planned=3)
        trials = [
            trial(study, 0, (0.9, 1.0), None),
            trial(study, 1, (0.9, 1.0), NO_LUCK, None),
            trial(study, 2, (0.9, 1.0), (0.9, 1.0), (0.9, 1.0)),
            trial(study, 3),
        ]
        states = ["running", "failed", "complete", "running"]
        assert [each.state.value for each in trials] == states
        work = left(study, *trials)
        # Nothing of trial 1 is trained any more.
        assert work.runs == keys((0, 1), (0, 2), (3, 0), (3, 1), (3, 2))
        assert (work.finished, work.trials, work.planned_runs, work.at_once) == (2, 0, 5, 5)

    def test_the_space_may_hold_fewer_than_the_budget(self) -> None:
        study = study_of(budget=9)
        begun = [trial(study, number, (0.9, 1.0)) for number in range(2)]
        assert left(study, *begun).trials == 7
        work = left(study, *begun, possible=3)
        assert (work.target, work.trials, work.exhausted) == (3, 1, True)
        assert not left(study, *begun, possible=9).exhausted
        # A budget that was met and then lowered is no debt.
        assert left(study_of(budget=1), *begun).trials == 0


class TestRepeats:
    def test_all_first_repeats_come_before_the_second_ones_the_front_first(self) -> None:
        study = study_of(budget=4, repeats=3)
        trials = [
            # 0 and 1 scatter about the same values: which is in front is open.
            trial(study, 0, (0.890, 5.1), (0.910, 5.0)),
            trial(study, 1, (0.905, 5.0)),
            trial(study, 2, (0.2, 50.0)),
            trial(study, 3, (0.3, 0.1)),
        ]
        assert set(near_front_numbers(trials)) == {0, 1, 3}
        work = left(study, *trials)
        # On the front are 1 and 3; of 0 only the third run is missing.
        assert work.repeats == keys((1, 1), (3, 1), (1, 2), (3, 2), (0, 2))
        assert (work.at_once, work.tests, work.is_searching) == (5, (), False)
        assert not work.is_done

    def test_near_ones_follow_once_the_spread_is_known(self) -> None:
        study = study_of(budget=3)
        near, far = trial(study, 1, (0.899, 5.05)), trial(study, 2, (0.2, 50.0))
        alone = trial(study, 0, (0.9, 5.0))
        assert due_repeats([alone, near, far], 2) == [RunKey(0, 1)]
        wide = trial(study, 0, (0.89, 4.5), (0.91, 5.5))
        assert probabilities([wide, near, far])[1] > 0.1
        assert due_repeats([wide, near, far], 2) == [RunKey(1, 1)]
        # A first repeat beside the front comes before a second one on it.
        second = [RunKey(0, 2), RunKey(1, 2)]
        assert due_repeats([wide, near, far], 3) == [RunKey(1, 1), *second]
        narrow = trial(study, 0, (0.9, 5.0), (0.9, 5.0))
        assert due_repeats([narrow, near, far], 2) == []
        assert due_repeats([alone, near, far], 0) == []

    def test_a_repeat_that_failed_is_not_tried_again_and_one_under_way_is_left(self) -> None:
        study = study_of(budget=1, repeats=3)
        assert left(study, trial(study, 0, (0.9, 5.0), NO_LUCK, None)).repeats == keys((0, 2))
        assert left(study, trial(study, 0, (0.9, 5.0), NO_LUCK, (0.9, 5.0))).repeats == ()

    def test_trials_that_failed_or_guess_are_not_repeated(self) -> None:
        study = study_of(budget=3, repeats=2)
        diverged = Failure(DIVERGED, "diverged at epoch 1", "", "")
        trials = [
            trial(study, 0, diverged),
            trial(study, 1, (0.01, 1.0)),
            trial(study, 2, (0.9, 5.0)),
        ]
        assert left(study, *trials).repeats == keys((2, 1))


class TestTests:
    def test_the_fronts_runs_are_tested_once_no_repeat_is_due(self) -> None:
        study = study_of(budget=2, repeats=2)
        front = trial(study, 0, (0.9, 5.0), (0.9, 5.0))
        behind = trial(study, 1, (0.8, 6.0))
        assert left(study, replace(front, runs=front.runs[:1]), behind).tests == ()
        work = left(study, front, behind)
        assert (work.repeats, work.tests, work.at_once) == ((), keys((0, 0), (0, 1)), 2)
        assert not work.is_done

    def test_a_run_that_has_met_it_or_lost_its_network_is_not_tested(self) -> None:
        study = study_of(budget=1)
        one = trial(study, 0, *[(0.9, 5.0)] * 3)
        met, gone, kept = one.runs
        runs = (replace(met, test_accuracy=0.8), replace(gone, removed=True), kept)
        assert left(study, replace(one, runs=runs)).tests == keys((0, 2))
        assert left(study, replace(one, runs=runs[:2])).is_done

    def test_a_study_that_evaluates_on_the_test_set_has_nothing_to_read(self) -> None:
        study = study_of(budget=1, evaluate_on="test")
        assert untested_front(study, [trial(study, 0, (0.9, 5.0))]) == []
        assert left(study, trial(study, 0, (0.9, 5.0))).is_done


@pytest.mark.parametrize(
    ("field", "value", "searching"),
    [
        ("trials", 1, True),
        ("runs", keys((0, 0)), True),
        ("repeats", keys((0, 1)), False),
        ("tests", keys((0, 0)), False),
    ],
)
def test_whatever_is_left_it_is_not_done(field: str, value: Any, searching: bool) -> None:  # noqa: ANN401
    nothing = RemainingWork(1, 1, (), 0, (), (), exhausted=False, runs_per_trial=1)
    assert nothing.is_done
    assert nothing.at_once == 0
    some = replace(nothing, **{field: value})
    assert not some.is_done
    assert some.is_searching is searching
    assert some.at_once == 1


def test_the_states_follow_from_the_runs() -> None:
    study = study_of(budget=1, planned=2)
    state = {
        (): TrialState.RUNNING,
        ((0.9, 1.0),): TrialState.RUNNING,
        ((0.9, 1.0), (0.8, 1.0)): TrialState.COMPLETE,
        ((0.9, 1.0), (0.8, 1.0), None): TrialState.COMPLETE,
        ((0.9, 1.0), (0.8, 1.0), NO_LUCK): TrialState.COMPLETE,
        (NO_LUCK, None): TrialState.FAILED,
        ((0.9, 1.0), (0.8, 1.0), Failure(DIVERGED, "", "", "")): TrialState.FAILED,
    }
    assert {runs: trial(study, 0, *runs).state for runs in state} == state
