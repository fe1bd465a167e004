"""Leases that run out. Their ages are written into the database, not waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.duties import Duty
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.lease import Claim, ClaimedTrial
from fastrcaps_search.store.records import StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from tests.store.workers import (
    FAILURE,
    METRICS,
    SETTING,
    VALUES,
    Clock,
    claimed,
    complete,
    trial_of,
    until,
)

if TYPE_CHECKING:
    from tests.store.conftest import DoorMaker, Sql

LEASE_SECONDS = 300.0
"""Suspected after 200 seconds of silence, lost 100 seconds after that."""


@pytest.fixture
def first(make_door: DoorMaker) -> Claim:
    """Trial 0, held by another door, as by a worker that is heard of no more."""
    return claimed(make_door("w0", lease_seconds=LEASE_SECONDS))


@pytest.fixture
def door(make_door: DoorMaker) -> Door:
    """The door of a worker that looks for something to do."""
    return make_door("w1", lease_seconds=LEASE_SECONDS)


Lost = Callable[[], None]


@pytest.fixture
def lose(first: Claim, door: Door, clock: Clock) -> Lost:
    """Lets the lease of trial 0 run out, up to its take-over."""

    def run_out() -> None:
        clock.silence(210)
        assert claimed(door).number == 1
        clock.pass_by(110)

    return run_out


def lease_of(store: Store, study: StudyRecord, number: int = 0) -> LeaseRecord:
    (found,) = (lease for lease in store.leases(study) if lease.number == number)
    return found


class TestRunningOut:
    def test_a_silent_lease_is_suspected_held_and_taken_over_after_the_last_third(
        self, first: Claim, door: Door, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        clock.silence(190)
        assert claimed(door).number == 1
        assert lease_of(store, study).suspected_seconds is None
        clock.silence(20)
        assert claimed(door).number == 2
        suspected = lease_of(store, study).suspected_seconds
        assert suspected is not None
        assert 0 <= suspected < 60
        clock.pass_by(90)
        assert claimed(door).number == 3
        assert door.next().duty is Duty.WAIT
        clock.pass_by(20)
        again = claimed(door)
        assert (again.number, again.token) == (0, 2)
        assert again.parameters == first.parameters
        assert again.configuration_key == first.configuration_key
        assert (again.worker, lease_of(store, study).worker) == ("w1", "w1")

    def test_however_long_the_silence_it_is_held_until_it_was_suspected_for_a_third(
        self, first: Claim, door: Door, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        clock.silence(100_000)
        assert claimed(door).number == 1
        clock.silence(100_000)
        assert claimed(door).number == 2
        assert lease_of(store, study).has_run_out

    def test_a_renewal_ends_the_suspicion(
        self, first: Claim, door: Door, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        clock.silence(210)
        assert claimed(door).number == 1
        assert ClaimedTrial(store, first).renew()
        lease = lease_of(store, study)
        assert lease.suspected_seconds is None
        assert lease.silent_seconds is not None
        assert 0 <= lease.silent_seconds < 60
        # From the beginning: first suspected again, then the last third.
        clock.pass_by(210)
        assert claimed(door).number == 2
        clock.pass_by(90)
        assert claimed(door).number == 3
        clock.pass_by(20)
        assert claimed(door).number == 0

    def test_after_an_outage_all_are_silent_and_the_living_keep_their_trials(
        self, first: Claim, door: Door, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        lost = claimed(door)
        clock.silence(1000)
        assert claimed(door).number == 2
        assert ClaimedTrial(store, first).renew()
        clock.pass_by(110)
        again = claimed(door)
        assert (again.number, again.token) == (lost.number, 2)
        ClaimedTrial(store, first).complete(VALUES)
        assert trial_of(store, study).state is TrialState.COMPLETE

    def test_a_lease_from_the_future_runs_out_too_once_the_clock_was_set_back(
        self, first: Claim, door: Door, clock: Clock, sql: Sql, store: Store, study: StudyRecord
    ) -> None:
        clock.silence(210)
        assert claimed(door).number == 1
        clock.pass_by(-100_000)
        assert claimed(door).number == 2
        # Suspected anew, on the clock as it is now.
        suspected = lease_of(store, study).suspected_seconds
        assert suspected is not None
        assert 0 <= suspected < 60
        clock.pass_by(90)
        assert claimed(door).number == 3
        clock.pass_by(20)
        assert claimed(door).number == 0

    def test_a_dead_worker_of_another_host_is_only_silent(
        self, first: Claim, door: Door, clock: Clock, sql: Sql
    ) -> None:
        sql("update fastrcaps_leases set host = 'elsewhere', pid = 4194303")
        assert claimed(door).number == 1
        clock.silence(210)
        assert claimed(door).number == 2
        clock.pass_by(110)
        assert claimed(door).number == 0

    def test_a_dead_worker_of_this_host_is_known_at_once(
        self, first: Claim, door: Door, clock: Clock
    ) -> None:
        clock.kill()
        again = claimed(door)
        assert (again.number, again.token) == (0, 2)

    def test_a_running_trial_without_a_lease_is_taken_over(
        self, first: Claim, door: Door, sql: Sql
    ) -> None:
        sql("delete from fastrcaps_leases")
        again = claimed(door)
        assert (again.number, again.token) == (0, 2)
        assert again.parameters == first.parameters

    def test_the_lease_of_one_who_reads_test_accuracies_runs_out_too(
        self, make_door: DoorMaker, door: Door, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        for _ in range(4):
            complete(store, claimed(door))
        reader = make_door("w0", lease_seconds=LEASE_SECONDS)
        readings = [reader.next() for _ in range(4)]
        assert [reading.duty for reading in readings] == [Duty.TEST] * 4
        assert door.next().duty is Duty.WAIT
        clock.silence(210)
        assert door.next().duty is Duty.WAIT
        clock.pass_by(110)
        again = door.next()
        assert again.duty is Duty.TEST
        assert again.claim is not None
        assert again.claim.token == 3


class TestTheOneWhoComesBack:
    def test_its_writes_are_refused_and_change_nothing(
        self, first: Claim, lose: Lost, door: Door, store: Store, study: StudyRecord
    ) -> None:
        old = ClaimedTrial(store, first)
        old.begin_run(0, seed=0, setting=SETTING, fresh=False)
        old.store_epoch(0, METRICS, setting=SETTING)
        lose()
        assert claimed(door).number == 0
        before = store.trials(study, epochs=True), store.leases(study)
        writes: list[Callable[[], object]] = [
            lambda: old.begin_run(0, seed=0, setting=SETTING, fresh=True),
            lambda: old.store_epoch(0, replace(METRICS, epoch=2), setting=SETTING),
            lambda: old.forget_epochs_after(0, 0),
            lambda: old.finish_run(0, RunResult(0.1, 1.0, 5, 1)),
            lambda: old.complete(VALUES),
            lambda: old.fail(FAILURE),
            lambda: old.store_test_accuracy(0, 0.1),
            old.note_device_fault,
        ]
        for write in writes:
            with pytest.raises(LeaseLostError, match="trial 0 must be held to be written"):
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
        ClaimedTrial(store, first).complete(VALUES)
        assert trial_of(store, study).values == VALUES

    def test_its_renewals_tell_it_before_its_next_write(
        self, make_door: DoorMaker, door: Door, sql: Sql, store: Store
    ) -> None:
        old = ClaimedTrial(store, claimed(make_door("w0", lease_seconds=0.3)))
        with old.renewed():
            old.require_held()
            sql("delete from fastrcaps_leases")
            assert claimed(door).number == 0
            until(lambda: refuses(old.require_held))

    def test_a_renewal_comes_without_being_asked_for(
        self, make_door: DoorMaker, sql: Sql, store: Store, study: StudyRecord
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door(lease_seconds=0.3)))
        with trial.renewed():
            sql("update fastrcaps_leases set renewed_at = 0")
            until(lambda: (lease_of(store, study).silent_seconds or 0.0) < 1000)
            trial.require_held()


def refuses(write: Callable[[], object]) -> bool:
    try:
        write()
    except LeaseLostError:
        return True
    return False
