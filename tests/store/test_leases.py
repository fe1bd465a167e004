"""Leases that run out. Their ages are written into the database, not waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.records import Purpose, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from tests.store.workers import (
    FAILURE,
    METRICS,
    SETTING,
    VALUES,
    Clock,
    claimed,
    complete,
    renewing,
    result_of,
    trial_of,
    until,
)

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

LEASE_SECONDS = 300.0
"""Suspected after 200 seconds of silence, lost 100 seconds after that."""


@pytest.fixture
def first(make_queue: QueueMaker) -> Claim:
    """Trial 0, held by another worker, as by a worker that is heard of no more."""
    return claimed(make_queue("w0", lease_seconds=LEASE_SECONDS))


@pytest.fixture
def queue(make_queue: QueueMaker) -> TrialQueue:
    """The queue of a worker that looks for something to do."""
    return make_queue("w1", lease_seconds=LEASE_SECONDS)


Lost = Callable[[], None]


@pytest.fixture
def lose(first: Claim, queue: TrialQueue, clock: Clock) -> Lost:
    """Lets the lease of trial 0 run out, up to its take-over."""

    def run_out() -> None:
        clock.silence(210)
        assert claimed(queue).key.number == 1
        clock.pass_by(110)

    return run_out


def lease_of(store: Store, study: StudyRecord, number: int = 0) -> LeaseRecord:
    (found,) = (lease for lease in store.leases(study) if lease.number == number)
    return found


class TestRunningOut:
    def test_a_silent_lease_is_suspected_held_and_taken_over_after_the_last_third(
        self, first: Claim, queue: TrialQueue, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        clock.silence(190)
        assert claimed(queue).key.number == 1
        assert lease_of(store, study).suspected_seconds is None
        clock.silence(20)
        assert claimed(queue).key.number == 2
        suspected = lease_of(store, study).suspected_seconds
        assert suspected is not None
        assert 0 <= suspected < 60
        clock.pass_by(90)
        assert claimed(queue).key.number == 3
        assert queue.claim_next() is Idle.WAIT
        clock.pass_by(20)
        again = claimed(queue)
        assert (again.key.number, again.token) == (0, 2)
        assert again.parameters == first.parameters
        assert (again.claimant.worker, lease_of(store, study).worker) == ("w1", "w1")

    def test_however_long_the_silence_it_is_held_until_it_was_suspected_for_a_third(
        self, first: Claim, queue: TrialQueue, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        clock.silence(100_000)
        assert claimed(queue).key.number == 1
        clock.silence(100_000)
        assert claimed(queue).key.number == 2
        assert lease_of(store, study).has_run_out

    def test_whoever_trains_begins_the_last_third_of_one_that_is_silent(
        self, first: Claim, make_queue: QueueMaker, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        trains = RunLease(store, claimed(make_queue("w1", lease_seconds=0.3)))
        with renewing(trains):
            clock.silence(190)
            assert lease_of(store, study).suspected_seconds is None
            clock.silence(20)
            # Nobody looks for something to claim meanwhile.
            until(lambda: lease_of(store, study).suspected_seconds is not None)
            assert 0 <= (lease_of(store, study).suspected_seconds or 0) < 60
            clock.pass_by(90)
            assert 0 < lease_of(store, study).free_in_seconds <= 10
        complete(store, trains.claim)
        clock.pass_by(20)
        again = claimed(make_queue("w1"))
        assert (again.key.number, again.token) == (0, 2)

    @pytest.mark.parametrize("comes_back", [False, True])
    def test_a_new_trial_waits_for_the_run_of_a_lease_that_has_run_out(
        self,
        make_queue: QueueMaker,
        clock: Clock,
        store: Store,
        study: StudyRecord,
        comes_back: bool,
    ) -> None:
        silent, queue = claimed(make_queue("w0", lease_seconds=30.0)), make_queue("w1")
        clock.silence(29)
        second = claimed(queue)
        assert second.key.number == 1
        complete(store, second)
        # As after a night in which nobody looked.
        clock.silence(3600)
        for _ in range(3):
            assert queue.claim_next() is Idle.WAIT
        assert len(store.trials(study)) == 2
        if comes_back:
            assert RunLease(store, silent).renew()
        else:
            clock.pass_by(11)
        found = claimed(queue)
        assert (found.key.number, found.token) == ((2, 1) if comes_back else (0, 2))

    def test_a_renewal_ends_the_suspicion(
        self, first: Claim, queue: TrialQueue, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        clock.silence(210)
        assert claimed(queue).key.number == 1
        assert RunLease(store, first).renew()
        lease = lease_of(store, study)
        assert lease.suspected_seconds is None
        assert lease.silent_seconds is not None
        assert 0 <= lease.silent_seconds < 60
        # From the beginning: first suspected again, then the last third.
        clock.pass_by(210)
        assert claimed(queue).key.number == 2
        clock.pass_by(90)
        assert claimed(queue).key.number == 3
        clock.pass_by(20)
        assert claimed(queue).key.number == 0

    def test_after_an_outage_all_are_silent_and_the_living_keep_their_trials(
        self, first: Claim, queue: TrialQueue, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        lost = claimed(queue)
        clock.silence(1000)
        assert claimed(queue).key.number == 2
        assert RunLease(store, first).renew()
        clock.pass_by(110)
        again = claimed(queue)
        assert (again.key, again.token) == (lost.key, 2)
        complete(store, first)
        assert trial_of(store, study).state is TrialState.COMPLETE

    def test_a_lease_from_the_future_runs_out_too_once_the_clock_was_set_back(
        self,
        first: Claim,
        queue: TrialQueue,
        clock: Clock,
        sql: Sql,
        store: Store,
        study: StudyRecord,
    ) -> None:
        clock.silence(210)
        assert claimed(queue).key.number == 1
        clock.pass_by(-100_000)
        assert claimed(queue).key.number == 2
        # Suspected anew, on the clock as it is now.
        suspected = lease_of(store, study).suspected_seconds
        assert suspected is not None
        assert 0 <= suspected < 60
        clock.pass_by(90)
        assert claimed(queue).key.number == 3
        clock.pass_by(20)
        assert claimed(queue).key.number == 0

    def test_a_dead_worker_of_another_host_is_only_silent(
        self, first: Claim, queue: TrialQueue, clock: Clock, sql: Sql
    ) -> None:
        sql("update fastrcaps_leases set host = 'elsewhere', pid = 4194303")
        assert claimed(queue).key.number == 1
        clock.silence(210)
        assert claimed(queue).key.number == 2
        clock.pass_by(110)
        assert claimed(queue).key.number == 0

    def test_a_dead_worker_of_this_host_is_known_at_once(
        self, first: Claim, queue: TrialQueue, clock: Clock
    ) -> None:
        clock.kill()
        again = claimed(queue)
        assert (again.key.number, again.token) == (0, 2)

    def test_a_running_trial_without_a_lease_is_taken_over(
        self, first: Claim, queue: TrialQueue, sql: Sql
    ) -> None:
        sql("delete from fastrcaps_leases")
        again = claimed(queue)
        assert (again.key.number, again.token) == (0, 2)
        assert again.parameters == first.parameters

    def test_the_lease_of_one_who_reads_test_accuracies_runs_out_too(
        self,
        make_queue: QueueMaker,
        queue: TrialQueue,
        clock: Clock,
        store: Store,
        study: StudyRecord,
    ) -> None:
        for _ in range(4):
            complete(store, claimed(queue))
        reader = make_queue("w0", lease_seconds=LEASE_SECONDS)
        for _ in range(4):
            claimed(reader, Purpose.TEST)
        assert queue.claim_next() is Idle.WAIT
        clock.silence(210)
        assert queue.claim_next() is Idle.WAIT
        clock.pass_by(110)
        assert claimed(queue, Purpose.TEST).token == 3


class TestTheOneWhoComesBack:
    def test_its_writes_are_refused_and_change_nothing(
        self, first: Claim, lose: Lost, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        old = RunLease(store, first)
        old.begin(SETTING, fresh=False)
        old.store_epoch(METRICS, setting=SETTING)
        lose()
        assert claimed(queue).key.number == 0
        before = store.trials(study, epochs=True), store.leases(study)
        writes: list[Callable[[], object]] = [
            lambda: old.begin(SETTING, fresh=True),
            lambda: old.store_epoch(replace(METRICS, epoch=2), setting=SETTING),
            lambda: old.forget_epochs_after(0),
            lambda: old.finish(result_of()),
            lambda: old.fail(FAILURE, ends_trial=True),
            lambda: old.store_test_accuracy(0.1),
            old.note_device_fault,
        ]
        for write in writes:
            with pytest.raises(LeaseLostError, match="trial 0 run 0 must be held to be written"):
                write()
        assert not old.renew()
        old.release()
        after = store.trials(study, epochs=True), store.leases(study)
        assert after[0] == before[0]
        assert [lease.token for lease in after[1]] == [lease.token for lease in before[1]]

    def test_it_may_still_write_while_nobody_has_taken_over(
        self, first: Claim, lose: Lost, store: Store, study: StudyRecord
    ) -> None:
        lose()
        complete(store, first)
        assert trial_of(store, study).values == VALUES

    def test_its_renewals_tell_it_before_its_next_write(
        self, make_queue: QueueMaker, queue: TrialQueue, sql: Sql, store: Store
    ) -> None:
        old = RunLease(store, claimed(make_queue("w0", lease_seconds=0.3)))
        with renewing(old):
            old.require_held()
            sql("delete from fastrcaps_leases")
            assert claimed(queue).key.number == 0
            until(lambda: refuses(old.require_held))

    def test_a_renewal_comes_without_being_asked_for(
        self, make_queue: QueueMaker, sql: Sql, store: Store, study: StudyRecord
    ) -> None:
        trial = RunLease(store, claimed(make_queue(lease_seconds=0.3)))
        with renewing(trial):
            sql("update fastrcaps_leases set renewed_at = 0")
            until(lambda: (lease_of(store, study).silent_seconds or 0.0) < 1000)
            trial.require_held()


def refuses(write: Callable[[], object]) -> bool:
    try:
        write()
    except LeaseLostError:
        return True
    return False
