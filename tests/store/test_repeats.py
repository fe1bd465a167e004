"""Planned repeats: whose turn it is, what is stored, and what a failed one leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import pytest
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.duties import Duty
from fastrcaps_search.store.repeats import ClaimedRepeat, next_run, repeats_left
from scipy import stats  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.analysis.remaining_work import due_repeats
from fastrcaps_search.analysis.uncertainty import near_front_numbers, probabilities
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.reaping import MOST_DEATHS
from fastrcaps_search.store.records import (
    Failure,
    RunRecord,
    StudyRecord,
    TrialRecord,
    TrialState,
    Values,
)
from fastrcaps_search.store.store import Store
from tests.store.workers import METRICS, SETTING, Clock, claimed, complete, trial_of

if TYPE_CHECKING:
    from tests.store.conftest import DoorMaker, OptunaOpener, Sql

Plan = Callable[[int], StudyRecord]

BEHIND = (0.5, 9.0)
ACCURATE = (0.9, 5.0)
QUICK = (0.8, 2.0)
MIDDLE = (0.85, 3.0)


def train_all(make_door: DoorMaker, store: Store) -> Door:
    """Four complete trials, three of them on the front; nothing more is trained."""
    door = make_door()
    for accuracy, seconds in (BEHIND, ACCURATE, QUICK, MIDDLE):
        complete(store, claimed(door), Values(accuracy, seconds, 10))
    return door


@pytest.fixture
def door(make_door: DoorMaker, store: Store) -> Door:
    """The door to the study of these four trials."""
    return train_all(make_door, store)


@pytest.fixture
def plan(location: Location, definition: StudyDefinition) -> Plan:
    """Plans repeats."""
    return lambda repeats: enter_study(location, definition, seed=None, budget=4, repeats=repeats)


def repeat(door: Door, store: Store, result: tuple[float, float]) -> tuple[int, int]:
    """Do the next repeat; number of its trial and index of its run."""
    admitted = door.next()
    assert admitted.duty is Duty.REPEAT
    assert admitted.claim is not None
    claim = ClaimedRepeat(store, admitted.claim)
    trial = store.trials(store.study("tiny"))[admitted.claim.number]
    run = next_run(trial)
    claim.begin_run(run, seed=run, setting=SETTING, fresh=True)
    claim.store_epoch(run, replace(METRICS, accuracy=result[0]), setting=SETTING)
    claim.finish_repeat(run, RunResult(*result, 10, 1))
    claim.release()
    return admitted.claim.number, run


class TestTurns:
    def test_the_front_is_repeated_until_each_has_as_many_runs_and_then_tested(
        self, plan: Plan, door: Door, store: Store, study: StudyRecord
    ) -> None:
        assert plan(3).repeats == 3
        # Equal runs: nothing behind the front comes near it.
        values = {1: ACCURATE, 2: QUICK, 3: MIDDLE}
        order = []
        for expected in (1, 2, 3, 1, 2, 3):
            order.append(repeat(door, store, values[expected]))
        # Those with the fewest runs first.
        assert order == [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)]
        admitted = door.next()
        assert admitted.duty is Duty.TEST
        assert [len(trial.results) for trial in store.trials(study)] == [1, 3, 3, 3]

    def test_two_workers_repeat_different_trials_and_wait_for_the_last(
        self, door: Door, plan: Plan, make_door: DoorMaker, store: Store
    ) -> None:
        plan(2)
        doors = [make_door(f"w{n}") for n in range(4)]
        admitted = [door.next() for door in doors]
        assert [each.duty for each in admitted] == [Duty.REPEAT] * 3 + [Duty.WAIT]
        assert {each.claim.number for each in admitted if each.claim} == {1, 2, 3}
        assert doors[3].over() is None

    def test_new_trials_come_before_repeats_and_the_plan_only_grows(
        self, plan: Plan, door: Door, store: Store, location: Location, definition: StudyDefinition
    ) -> None:
        assert plan(4).repeats == 4
        assert plan(2).repeats == 4
        enter_study(location, definition, seed=None, budget=5)
        assert claimed(door).number == 4

    def test_near_ones_follow_once_the_spread_is_known(self) -> None:
        on, near, far = (
            trial(0, [(0.9, 5.0)]),
            trial(1, [(0.899, 5.05)]),
            trial(2, [(0.2, 50.0)]),
        )
        assert [t.number for t in due_repeats([on, near, far], 2)] == [0]
        assert repeats_left([on, near, far], 3) == 2
        wide = trial(0, [(0.89, 4.5), (0.91, 5.5)])
        assert probabilities([wide, near, far])[1] > 0.1
        assert [t.number for t in due_repeats([wide, near, far], 2)] == [1]
        # Of those with as many runs the front comes first.
        quick = trial(7, [(0.3, 0.1)])
        assert [t.number for t in due_repeats([wide, near, far, quick], 2)] == [7, 1]
        narrow = trial(0, [(0.9, 5.0), (0.9, 5.0)])
        assert due_repeats([narrow, near, far], 2) == []
        assert near_front_numbers([wide, near, far]) == [0, 1]
        assert due_repeats([on, near, far], 0) == []

    def test_failed_runs_count_and_the_next_index_is_the_first_that_has_not_ended(self) -> None:
        found = trial(0, [(0.9, 5.0), None, (0.9, 5.0)])
        assert next_run(found) == 1
        failed = replace(found.runs[1], failure="out of memory")
        found = replace(found, runs=(found.runs[0], failed, found.runs[2]))
        assert next_run(found) == 3
        assert due_repeats([found], 3) == []


def trial(number: int, runs: list[tuple[float, float] | None]) -> TrialRecord:
    """A complete trial with these runs; ``None`` is one under way."""
    records = tuple(
        RunRecord(
            run=index,
            seed=index,
            setting=SETTING,
            bit_equal=True,
            accuracy=None if run is None else run[0],
            training_seconds=None if run is None else run[1],
            best_epoch=None,
            test_accuracy=None,
        )
        for index, run in enumerate(runs)
    )
    done = [run for run in runs if run is not None]
    values = Values(fmean(a for a, _ in done), fmean(s for _, s in done), 10)
    return TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        parameters=next(iter(StudyDefinition.from_dict({"name": "s"}).assignments())),
        configuration_key=str(number),
        values=values,
        test_accuracy=None,
        failure=None,
        token=1,
        created_at=0.0,
        finished_at=1.0,
        runs=records,
    )


class TestValues:
    def test_they_are_means_with_spread_and_interval(
        self, plan: Plan, door: Door, store: Store, study: StudyRecord
    ) -> None:
        plan(3)
        repeat(door, store, (0.91, 6.0))
        repeat(door, store, QUICK)
        repeat(door, store, MIDDLE)
        repeat(door, store, (0.95, 4.0))
        found = trial_of(store, study, 1)
        accuracies, seconds = [0.9, 0.91, 0.95], [5.0, 6.0, 4.0]
        assert found.values is not None
        assert asdict(found.values) == pytest.approx(
            {"accuracy": fmean(accuracies), "training_seconds": 5.0, "parameters": 10}
        )
        for values, spread in (
            (accuracies, found.accuracy_spread),
            (seconds, found.seconds_spread),
        ):
            assert spread is not None
            assert spread.deviation == pytest.approx(stdev(values))
            low, high = stats.t.interval(0.95, 2, fmean(values), stdev(values) / 3**0.5)
            assert spread.margin == pytest.approx((high - low) / 2)
        assert found.state is TrialState.COMPLETE

    def test_optuna_keeps_its_first_values_and_all_else_goes_by_the_means(
        self, plan: Plan, door: Door, store: Store, study: StudyRecord, open_optuna: OptunaOpener
    ) -> None:
        plan(2)
        assert repeat(door, store, (0.1, 50.0)) == (1, 1)
        storage = open_optuna()
        theirs = storage.get_all_trials(storage.get_study_id_from_name("tiny"))
        assert theirs[1].values == [0.9, 5.0, 10]
        assert near_front_numbers(store.trials(study))[0] == 3
        assert trial_of(store, study, 1).values == Values(0.5, 27.5, 10)

    def test_a_run_under_way_does_not_count(
        self, plan: Plan, door: Door, store: Store, study: StudyRecord
    ) -> None:
        plan(2)
        admitted = door.next()
        assert admitted.claim is not None
        under_way = ClaimedRepeat(store, admitted.claim)
        under_way.begin_run(1, seed=1, setting=SETTING, fresh=True)
        under_way.store_epoch(1, METRICS, setting=SETTING)
        under_way.store_test_accuracy(0, 0.7)
        found = trial_of(store, study, 1)
        assert (found.values, found.test_accuracy) == (Values(*ACCURATE, 10), 0.7)
        assert (len(found.runs), len(found.results)) == (2, 1)

    def test_who_lost_the_trial_cannot_write_to_it(
        self,
        plan: Plan,
        door: Door,
        make_door: DoorMaker,
        store: Store,
        study: StudyRecord,
        clock: Clock,
    ) -> None:
        plan(2)
        admitted = door.next()
        assert admitted.claim is not None
        late = ClaimedRepeat(store, admitted.claim)
        late.begin_run(1, seed=1, setting=SETTING, fresh=True)
        clock.kill()
        again = make_door("w1").next()
        assert again.duty is Duty.REPEAT
        assert again.claim is not None
        assert (again.claim.number, again.claim.token) == (1, late.claim.token + 1)
        before = trial_of(store, study, 1)
        failure = Failure("E", "no", "", "")
        with pytest.raises(LeaseLostError):
            late.finish_repeat(1, RunResult(1.0, 1.0, 10, 1))
        with pytest.raises(LeaseLostError):
            late.fail_repeat(1, seed=1, setting=SETTING, failure=failure, ends_trial=True)
        assert trial_of(store, study, 1) == before


class TestFailures:
    @pytest.fixture
    def claim(self, plan: Plan, door: Door, store: Store) -> ClaimedRepeat:
        """A claim to repeat trial 1."""
        plan(2)
        admitted = door.next()
        assert admitted.claim is not None
        return ClaimedRepeat(store, admitted.claim)

    def test_one_that_diverges_fails_the_trial(
        self, claim: ClaimedRepeat, store: Store, study: StudyRecord, make_door: DoorMaker
    ) -> None:
        failure = Failure("diverged", "diverged at epoch 2", "trace", "log")
        claim.fail_repeat(1, seed=1, setting=SETTING, failure=failure, ends_trial=True)
        claim.release()
        found = trial_of(store, study, 1)
        assert (found.state, found.failure, found.values) == (TrialState.FAILED, failure, None)
        assert [run.failure for run in found.runs] == [None, "diverged at epoch 2"]
        # Its first run stays as it was.
        assert found.runs[0].accuracy == ACCURATE[0]
        admitted = make_door("w1").next()
        assert admitted.claim is not None
        assert (admitted.duty, admitted.claim.number) == (Duty.REPEAT, 2)

    def test_after_any_other_the_trial_keeps_its_values_and_the_run_is_not_tried_again(
        self, claim: ClaimedRepeat, store: Store, study: StudyRecord, make_door: DoorMaker
    ) -> None:
        failure = Failure("device", "out of memory", "trace", "log")
        claim.begin_run(1, seed=1, setting=SETTING, fresh=True)
        claim.fail_repeat(1, seed=1, setting=SETTING, failure=failure, ends_trial=False)
        claim.release()
        found = trial_of(store, study, 1)
        assert (found.state, found.values) == (TrialState.COMPLETE, Values(*ACCURATE, 10))
        assert (found.failure, found.runs[1].failure) == (None, "out of memory")
        admitted = make_door("w1").next()
        assert admitted.claim is not None
        assert admitted.claim.number == 2

    def test_one_that_kills_its_workers_is_given_up(
        self,
        claim: ClaimedRepeat,
        store: Store,
        study: StudyRecord,
        make_door: DoorMaker,
        clock: Clock,
    ) -> None:
        claim.begin_run(1, seed=1, setting=SETTING, fresh=True)
        door = make_door("w1")
        for _ in range(MOST_DEATHS - 1):
            clock.kill()
            admitted = door.next()
            assert admitted.claim is not None
            assert (admitted.duty, admitted.claim.number) == (Duty.REPEAT, 1)
        clock.kill()
        admitted = door.next()
        assert admitted.claim is not None
        assert admitted.claim.number == 2
        found = trial_of(store, study, 1)
        assert (found.state, found.values) == (TrialState.COMPLETE, Values(*ACCURATE, 10))
        assert "10 workers in a row died" in str(found.runs[1].failure)


def test_spreads_are_stored_with_the_first_values_of_several_runs(
    make_door: DoorMaker, store: Store, study: StudyRecord, sql: Sql
) -> None:
    claim = ClaimedTrial(store, claimed(make_door()))
    for run, accuracy in enumerate((0.5, 0.7)):
        claim.begin_run(run, seed=run, setting=SETTING, fresh=True)
        claim.finish_run(run, RunResult(accuracy, 3.0, 10, 1))
    claim.complete(Values(0.6, 3.0, 10))
    found = trial_of(store, study)
    assert found.accuracy_spread is not None
    assert found.accuracy_spread.deviation == pytest.approx(0.2 / 2**0.5)
    assert found.seconds_spread is not None
    assert found.seconds_spread.deviation == 0
