"""The runs that a trial has from the start: claimed by several workers, ended together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection

from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.search.queue import Idle
from fastrcaps_search.store import ending
from fastrcaps_search.store import lease as lease_module
from fastrcaps_search.store.ending import MOST_DEATHS
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import (
    GIVEN_UP,
    Failure,
    RunKey,
    StudyRecord,
    TrialState,
)
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.store.workers import (
    FAILURE,
    METRICS,
    SETTING,
    Clock,
    claimed,
    renewing,
    result_of,
    run_of,
    trial_of,
    until,
)
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

PLANNED = 5
BUDGET = 2


@pytest.fixture
def five(location: Location, study: StudyRecord) -> StudyRecord:
    """The same study of five runs for each trial, and a budget of two."""
    keys = {**study.definition.to_dict(), "name": "five", "runs_per_trial": PLANNED}
    definition = type(study.definition).from_dict(keys)
    return enter_study(location, definition, seed=7, budget=BUDGET)


@pytest.fixture
def begin(make_queue: QueueMaker, store: Store, five: StudyRecord) -> Callable[[int], RunLease]:
    """Claims the next run as a worker of that number."""
    return lambda worker: RunLease(store, claimed(make_queue(f"w{worker}", of=five)))


@pytest.fixture
def leases(begin: Callable[[int], RunLease]) -> list[RunLease]:
    """Five workers, each with a run of trial 0."""
    return [begin(worker) for worker in range(PLANNED)]


def kinds(trial: TrialRecord) -> list[str | None]:
    """Why each run failed."""
    return [None if run.failure is None else run.failure.kind for run in trial.runs]


def writes(lease: RunLease) -> list[Callable[[], object]]:
    """All that a worker may want to write."""
    return [
        lambda: lease.begin(SETTING, fresh=True),
        lambda: lease.store_epoch(METRICS, setting=SETTING),
        lambda: lease.forget_epochs_after(0),
        lambda: lease.finish(result_of()),
        lambda: lease.fail(FAILURE, ends_trial=True),
        lease.note_device_fault,
    ]


def is_lost(lease: RunLease) -> bool:
    try:
        lease.require_held()
    except LeaseLostError:
        return True
    return False


class TestAtOnce:
    def test_five_workers_claim_five_runs_before_a_second_trial_is_begun(
        self,
        leases: list[RunLease],
        make_queue: QueueMaker,
        store: Store,
        five: StudyRecord,
    ) -> None:
        claims = [lease.claim for lease in leases]
        assert [claim.key for claim in claims] == [RunKey(0, run) for run in range(PLANNED)]
        assert [claim.token for claim in claims] == [1] * PLANNED
        (trial,) = store.trials(five)
        assert [run.seed for run in trial.runs] == [7, 8, 9, 10, 11]
        held = {lease.key: lease.worker for lease in store.leases(five)}
        assert held == {RunKey(0, run): f"w{run}" for run in range(PLANNED)}
        queue = make_queue("w5", of=five)
        rest = [claimed(queue).key for _ in range(PLANNED)]
        assert rest == [RunKey(1, run) for run in range(PLANNED)]
        assert queue.claim_next() is Idle.WAIT
        assert not queue.is_over()

    def test_a_run_that_was_left_comes_before_runs_of_the_next_trial(
        self, leases: list[RunLease], begin: Callable[[int], RunLease]
    ) -> None:
        assert begin(5).claim.key == RunKey(1, 0)
        leases[3].release()
        again = begin(6).claim
        assert (again.key, again.token) == (RunKey(0, 3), 2)
        assert begin(7).claim.key == RunKey(1, 1)


class TestValues:
    def test_state_values_spread_and_end_follow_from_the_runs(
        self, leases: list[RunLease], store: Store, five: StudyRecord
    ) -> None:
        accuracies, seconds = [0.9, 0.8, 0.85, 0.95, 0.7], [5.0, 4.0, 3.0, 6.0, 7.0]
        ends = []
        # In an order of their own.
        for run in (2, 0, 4, 1, 3):
            trial = trial_of(store, five)
            assert (trial.state, trial.values) == (TrialState.RUNNING, None)
            assert (trial.finished_at, trial.accuracy_spread) == (None, None)
            assert store.study("five").box is None
            leases[run].finish(RunResult(accuracies[run], seconds[run], 10, 1))
            ends.append(run_of(store, five, run=run).finished_at)
        trial = trial_of(store, five)
        assert trial.state is TrialState.COMPLETE
        assert trial.values is not None
        assert tuple(trial.values.values()) == pytest.approx((fmean(accuracies), 5.0, 10))
        assert trial.accuracy_spread is not None
        assert trial.accuracy_spread.deviation == pytest.approx(stdev(accuracies))
        assert trial.seconds_spread is not None
        assert trial.seconds_spread.deviation == pytest.approx(stdev(seconds))
        assert trial.finished_at == ends[-1]
        # The mean of the epochs' seconds of all five runs.
        box = store.study("five").box
        assert box is not None
        assert box.edges["training_seconds"][1] == pytest.approx(5.0 / 20)


class TestFailures:
    def test_a_run_that_fails_ends_the_trial_and_gives_up_the_others(
        self, leases: list[RunLease], store: Store, five: StudyRecord
    ) -> None:
        leases[1].finish(result_of())
        failure = Failure("E", "no luck", "a trace", "a log")
        leases[3].fail(failure, ends_trial=True)
        trial = trial_of(store, five)
        assert (trial.state, trial.failure, trial.values) == (TrialState.FAILED, failure, None)
        assert trial.finished_at == trial.runs[3].finished_at
        assert kinds(trial) == [GIVEN_UP, None, GIVEN_UP, "E", GIVEN_UP]
        given_up = trial.runs[0].failure
        assert given_up is not None
        assert given_up.message == "given up, as run 3 failed"
        assert trial.runs[1].accuracy == result_of().accuracy
        assert store.leases(five) == []
        for run in (0, 2, 4):
            for write in writes(leases[run]):
                with pytest.raises(LeaseLostError, match="or it was given up with its trial"):
                    write()
            assert not leases[run].renew()
        assert store.trials(five, epochs=True) == [trial]

    def test_the_workers_of_the_others_hear_of_it_from_their_renewals(
        self, make_queue: QueueMaker, store: Store, five: StudyRecord
    ) -> None:
        failing, other = (
            RunLease(store, claimed(make_queue(worker, of=five, lease_seconds=0.6)))
            for worker in ("w0", "w1")
        )
        with renewing(other):
            other.require_held()
            failing.fail(FAILURE, ends_trial=True)
            until(lambda: is_lost(other))

    def test_the_next_worker_begins_the_next_trial(
        self, leases: list[RunLease], begin: Callable[[int], RunLease]
    ) -> None:
        leases[0].fail(FAILURE, ends_trial=True)
        assert begin(5).claim.key == RunKey(1, 0)

    def test_a_run_is_not_begun_once_another_has_failed(
        self,
        make_queue: QueueMaker,
        begin: Callable[[int], RunLease],
        store: Store,
        five: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        first = begin(0)
        seen = store.snapshot("five")
        first.fail(FAILURE, ends_trial=True)
        queue = make_queue("w1", of=five)
        answers = iter([seen])
        look = store.snapshot
        monkeypatch.setattr(store, "snapshot", lambda name: next(answers, None) or look(name))
        # What it had read says that run 1 of trial 0 is next.
        assert claimed(queue).key == RunKey(1, 0)
        assert [len(trial.runs) for trial in store.trials(five)] == [1, 1]

    def test_of_two_that_fail_at_once_one_is_the_reason_and_the_other_is_given_up(
        self,
        leases: list[RunLease],
        location: Location,
        store: Store,
        five: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        both = threading.Barrier(2)
        give_up = ending.give_up_siblings

        def meet(connection: Connection, study_id: int, key: RunKey) -> None:
            # Each would hold its own run by now, and want the other's.
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)
            give_up(connection, study_id, key)

        monkeypatch.setattr(lease_module, "give_up_siblings", meet)

        def fail(lease: RunLease) -> bool:
            with closing(Store.writing(location)) as own:
                try:
                    RunLease(own, lease.claim).fail(FAILURE, ends_trial=True)
                except LeaseLostError:
                    return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(fail, leases[:2])) == [False, True]
        assert sorted(str(kind) for kind in kinds(trial_of(store, five))) == sorted(
            [FAILURE.kind, *[GIVEN_UP] * 4]
        )

    def test_a_run_that_is_over_gives_up_no_other(
        self, leases: list[RunLease], store: Store, five: StudyRecord
    ) -> None:
        leases[0].finish(result_of())
        # As when the files of the run cannot be tidied up after its end is stored.
        with pytest.raises(LeaseLostError):
            leases[0].fail(FAILURE, ends_trial=True)
        assert kinds(trial_of(store, five)) == [None] * PLANNED
        assert leases[1].renew()


class TestDeaths:
    def test_they_are_counted_for_each_run_and_the_last_one_fails_the_trial(
        self,
        make_queue: QueueMaker,
        store: Store,
        five: StudyRecord,
        sql: Sql,
    ) -> None:
        queue = make_queue(of=five)
        other = RunLease(store, claimed(queue))
        for _ in range(MOST_DEATHS - 1):
            assert claimed(queue).key == RunKey(0, 1)
            sql("update fastrcaps_leases set process_start = process_start + 1 where run = 1")
        deaths = sql("select run, deaths from fastrcaps_runs order by run")
        # The last death is not counted before somebody looks.
        assert deaths == [(0, 0), (1, MOST_DEATHS - 2)]
        assert claimed(queue).key == RunKey(0, 1)
        assert trial_of(store, five).state is TrialState.RUNNING
        sql("update fastrcaps_leases set process_start = process_start + 1 where run = 1")
        assert claimed(queue).key == RunKey(1, 0)
        trial = trial_of(store, five)
        assert trial.state is TrialState.FAILED
        assert kinds(trial) == [GIVEN_UP, "workers died"]
        assert trial.failure is not None
        assert trial.failure.message.startswith("10 workers in a row died in an epoch of this run")
        with pytest.raises(LeaseLostError):
            other.finish(result_of())

    def test_workers_of_two_runs_that_die_are_not_added_up(
        self, make_queue: QueueMaker, store: Store, five: StudyRecord, clock: Clock
    ) -> None:
        queue = make_queue(of=five)
        for _ in range(MOST_DEATHS - 1):
            assert [claimed(queue).key.run for _ in range(2)] == [0, 1]
            clock.kill()
        assert claimed(queue).key == RunKey(0, 0)
        assert trial_of(store, five).state is TrialState.RUNNING


@pytest.mark.parametrize("fresh", [True, False])
def test_a_network_of_a_run_that_is_trained_again_is_there(
    begin: Callable[[int], RunLease], store: Store, five: StudyRecord, sql: Sql, fresh: bool
) -> None:
    lease = begin(0)
    lease.begin(SETTING, fresh=True)
    sql("update fastrcaps_runs set removed = 1")
    lease.begin(SETTING, fresh=fresh)
    assert not run_of(store, five).removed


def test_values_of_one_planned_run_are_its_own(
    make_queue: QueueMaker, store: Store, study: StudyRecord
) -> None:
    RunLease(store, claimed(make_queue())).finish(RunResult(0.75, 3.0, 11, 2))
    trial = trial_of(store, study)
    assert (trial.values, trial.accuracy_spread) == (values_of(0.75, 3.0, 11), None)
