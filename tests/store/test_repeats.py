"""Planned repeats: whose turn it is, what is stored, and what a failed one leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import pytest
from scipy import stats  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.analysis.front import near_front_numbers
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.store.ending import MOST_DEATHS
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import (
    DIVERGED,
    GIVEN_UP,
    Failure,
    Purpose,
    RunKey,
    StudyRecord,
    TrialState,
)
from fastrcaps_search.store.store import Store
from tests.store.workers import (
    FAILURE,
    METRICS,
    SETTING,
    Clock,
    claimed,
    complete,
    run_of,
    trial_of,
)
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

Plan = Callable[[int], StudyRecord]

BEHIND = (0.5, 9.0)
ACCURATE = (0.9, 5.0)
QUICK = (0.8, 2.0)
MIDDLE = (0.85, 3.0)


@pytest.fixture
def queue(make_queue: QueueMaker, store: Store) -> TrialQueue:
    """The queue of a study of four complete trials, three of them on the front."""
    queue = make_queue()
    for accuracy, seconds in (BEHIND, ACCURATE, QUICK, MIDDLE):
        complete(store, claimed(queue), values_of(accuracy, seconds, 10))
    return queue


@pytest.fixture
def plan(location: Location, definition: StudyDefinition) -> Plan:
    """Plans repeats."""
    return lambda runs: enter_study(location, definition, seed=None, budget=4, front_runs=runs)


def repeat(queue: TrialQueue, store: Store, result: tuple[float, float]) -> RunKey:
    """Do the next repeat."""
    claim = claimed(queue)
    key = claim.key
    assert key.run > 0
    assert run_of(store, claim.claimant.study, key.number, key.run).seed == key.run
    lease = RunLease(store, claim)
    lease.begin(SETTING, fresh=True)
    lease.store_epoch(replace(METRICS, accuracy=result[0]), setting=SETTING)
    lease.finish(RunResult(*result, 10, 1))
    return key


class TestTurns:
    def test_the_front_is_repeated_until_each_has_as_many_runs_and_then_tested(
        self, plan: Plan, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        assert plan(3).front_runs == 3
        # Equal runs: nothing behind the front comes near it.
        values = {1: ACCURATE, 2: QUICK, 3: MIDDLE}
        order = [repeat(queue, store, values[expected]) for expected in (1, 2, 3, 1, 2, 3)]
        # Those with the fewest runs first.
        assert order == [RunKey(number, run) for run in (1, 2) for number in (1, 2, 3)]
        claimed(queue, Purpose.TEST)
        assert [len(trial.results) for trial in store.trials(study)] == [1, 3, 3, 3]

    def test_workers_repeat_different_runs_and_wait_for_the_last(
        self, queue: TrialQueue, plan: Plan, make_queue: QueueMaker, store: Store
    ) -> None:
        plan(3)
        queues = [make_queue(f"w{n}") for n in range(7)]
        # Two workers repeat one trial at once: all first repeats are held before a second one.
        keys = [claimed(queue).key for queue in queues[:6]]
        assert keys == [RunKey(number, run) for run in (1, 2) for number in (1, 2, 3)]
        assert queues[6].claim_next() is Idle.WAIT
        assert not queues[6].is_over()

    def test_new_trials_come_before_repeats_and_the_plan_only_grows(
        self, plan: Plan, queue: TrialQueue, location: Location, definition: StudyDefinition
    ) -> None:
        assert plan(4).front_runs == 4
        assert plan(2).front_runs == 4
        enter_study(location, definition, seed=None, budget=5)
        assert claimed(queue).key == RunKey(4, 0)


class TestValues:
    def test_they_are_means_with_spread_and_interval(
        self, plan: Plan, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        finished = trial_of(store, study, 1).finished_at
        plan(3)
        repeat(queue, store, (0.91, 6.0))
        repeat(queue, store, QUICK)
        repeat(queue, store, MIDDLE)
        repeat(queue, store, (0.95, 4.0))
        found = trial_of(store, study, 1)
        accuracies, seconds = [0.9, 0.91, 0.95], [5.0, 6.0, 4.0]
        assert found.values is not None
        assert found.values == pytest.approx(
            {"accuracy": fmean(accuracies), "training_seconds": 5.0, "parameters": 10}
        )
        for values, spread in (
            (accuracies, found.accuracy_spread),
            (seconds, found.seconds_spread),
        ):
            assert spread is not None
            assert spread.deviation == pytest.approx(stdev(values))
            low, high = stats.t.interval(0.95, 2, fmean(values), stdev(values) / 3**0.5)
            assert (spread.low, spread.high) == pytest.approx((low, high))
        assert found.state is TrialState.COMPLETE
        # That of the planned runs alone.
        assert found.finished_at == finished

    def test_all_goes_by_the_means(
        self, plan: Plan, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        plan(2)
        assert repeat(queue, store, (0.1, 50.0)) == RunKey(1, 1)
        assert near_front_numbers(store.trials(study))[0] == 3
        assert trial_of(store, study, 1).values == values_of(0.5, 27.5, 10)

    def test_a_run_under_way_does_not_count(
        self, plan: Plan, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        plan(2)
        under_way = RunLease(store, claimed(queue))
        under_way.begin(SETTING, fresh=True)
        under_way.store_epoch(METRICS, setting=SETTING)
        found = trial_of(store, study, 1)
        assert (found.values, found.state) == (values_of(*ACCURATE, 10), TrialState.COMPLETE)
        assert (len(found.runs), len(found.results)) == (2, 1)

    def test_who_lost_the_run_cannot_write_to_it(
        self,
        plan: Plan,
        queue: TrialQueue,
        make_queue: QueueMaker,
        store: Store,
        study: StudyRecord,
        clock: Clock,
    ) -> None:
        plan(2)
        late = RunLease(store, claimed(queue))
        late.begin(SETTING, fresh=True)
        clock.kill()
        again = claimed(make_queue("w1"))
        assert (again.key, again.token) == (RunKey(1, 1), late.claim.token + 1)
        before = trial_of(store, study, 1)
        with pytest.raises(LeaseLostError):
            late.finish(RunResult(1.0, 1.0, 10, 1))
        with pytest.raises(LeaseLostError):
            late.fail(FAILURE, ends_trial=True)
        assert trial_of(store, study, 1) == before


class TestFailures:
    @pytest.fixture
    def lease(self, plan: Plan, queue: TrialQueue, store: Store) -> RunLease:
        """The lease of the second run of trial 1."""
        plan(3)
        claim = claimed(queue)
        assert claim.key == RunKey(1, 1)
        return RunLease(store, claim)

    def test_one_that_diverges_fails_the_trial_and_gives_up_its_other_repeats(
        self, lease: RunLease, store: Store, study: StudyRecord, make_queue: QueueMaker
    ) -> None:
        queue = make_queue("w1")
        others = [RunLease(store, claimed(queue)) for _ in range(3)]
        sibling = others[2]
        assert sibling.claim.key == RunKey(1, 2)
        failure = Failure(DIVERGED, "diverged at epoch 2", "trace", "log")
        lease.fail(failure, ends_trial=True)
        found = trial_of(store, study, 1)
        assert (found.state, found.failure, found.values) == (TrialState.FAILED, failure, None)
        assert found.finished_at == found.runs[1].finished_at
        kinds = [run.failure and run.failure.kind for run in found.runs]
        assert kinds == [None, DIVERGED, GIVEN_UP]
        # Its first run stays as it was.
        assert found.runs[0].accuracy == ACCURATE[0]
        with pytest.raises(LeaseLostError):
            sibling.finish(RunResult(1.0, 1.0, 10, 1))
        # The other trials go on.
        assert [held.number for held in store.leases(study)] == [2, 3]
        assert others[0].renew()

    def test_after_any_other_the_trial_keeps_its_values_and_the_run_is_not_tried_again(
        self, lease: RunLease, store: Store, study: StudyRecord, make_queue: QueueMaker
    ) -> None:
        failure = Failure("device", "out of memory", "trace", "log")
        lease.begin(SETTING, fresh=True)
        lease.fail(failure, ends_trial=False)
        found = trial_of(store, study, 1)
        assert (found.state, found.values) == (TrialState.COMPLETE, values_of(*ACCURATE, 10))
        assert (found.failure, found.runs[1].failure) == (None, failure)
        queue = make_queue("w1")
        keys = [claimed(queue).key for _ in range(5)]
        assert keys == [RunKey(2, 1), RunKey(3, 1), *(RunKey(number, 2) for number in (1, 2, 3))]

    def test_one_that_kills_its_workers_is_given_up_alone(
        self,
        lease: RunLease,
        store: Store,
        study: StudyRecord,
        make_queue: QueueMaker,
        sql: Sql,
    ) -> None:
        lease.begin(SETTING, fresh=True)
        queue = make_queue("w1")
        others = [RunLease(store, claimed(queue)) for _ in range(5)]
        assert others[2].claim.key == RunKey(1, 2)
        die = "update fastrcaps_leases set process_start = 1 where number = 1 and run = 1"
        for _ in range(MOST_DEATHS - 1):
            sql(die)
            assert claimed(queue).key == RunKey(1, 1)
        sql(die)
        assert queue.claim_next() is Idle.WAIT
        assert all(other.renew() for other in others)
        found = trial_of(store, study, 1)
        assert (found.state, found.values) == (TrialState.COMPLETE, values_of(*ACCURATE, 10))
        assert found.runs[1].failure is not None
        assert found.runs[1].failure.message.startswith("10 workers in a row died")
