"""Trials whose workers die, and devices that give out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.ending import MOST_DEATHS
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from tests.store.workers import METRICS, SETTING, Clock, claimed, complete, trial_of
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql


@pytest.fixture
def queue(make_queue: QueueMaker) -> TrialQueue:
    """The queue from which every worker claims."""
    return make_queue("w1")


class TestDeaths:
    def die(self, queue: TrialQueue, clock: Clock, times: int) -> list[Claim]:
        """Claim trial 0 and die, again and again."""
        claims = []
        for _ in range(times):
            claims.append(claimed(queue))
            clock.kill()
        assert {claim.key for claim in claims} == {RunKey(0, 0)}
        return claims

    def test_a_trial_that_kills_its_workers_fails_with_the_reason(
        self, queue: TrialQueue, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        assert MOST_DEATHS == 10
        claims = self.die(queue, clock, 10)
        assert [claim.token for claim in claims] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        assert claimed(queue).key.number == 1
        trial = trial_of(store, study)
        assert trial.state is TrialState.FAILED
        assert trial.failure is not None
        assert trial.failure.kind == "workers died"
        assert trial.failure.message == (
            "10 workers in a row died in an epoch of this run, maybe for want of memory"
        )
        assert "the last one was w1, process " in trial.failure.trace
        assert trial.finished_at is not None
        # In case that it is not dead after all.
        with pytest.raises(LeaseLostError):
            RunLease(store, claims[-1]).store_epoch(METRICS, setting=SETTING)

    def test_an_epoch_in_between_begins_the_count_anew(
        self, queue: TrialQueue, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        self.die(queue, clock, 9)
        trial = RunLease(store, claimed(queue))
        trial.begin(SETTING, fresh=True)
        trial.store_epoch(METRICS, setting=SETTING)
        clock.kill()
        self.die(queue, clock, 8)
        claim = claimed(queue)
        assert (claim.key.number, claim.token) == (0, 19)
        clock.kill()
        assert claimed(queue).key.number == 1
        assert trial_of(store, study).state is TrialState.FAILED

    def test_silence_is_no_death(
        self, queue: TrialQueue, clock: Clock, sql: Sql, store: Store, study: StudyRecord
    ) -> None:
        for token in range(1, 13):
            claim = claimed(queue)
            assert (claim.key.number, claim.token) == (0, token)
            sql("update fastrcaps_leases set renewed_at = 0, suspected_at = 0")

    def test_who_dies_reading_a_test_accuracy_takes_nothing_from_the_trial(
        self, queue: TrialQueue, clock: Clock, store: Store, study: StudyRecord
    ) -> None:
        for accuracy in (0.9, 0.1, 0.1, 0.1):
            complete(store, claimed(queue), values_of(accuracy, 1.0, 10))
        for _ in range(11):
            assert claimed(queue, Purpose.TEST).key == RunKey(0, 0)
            clock.kill()
        trial = trial_of(store, study)
        assert (trial.state, trial.values) == (TrialState.COMPLETE, values_of(0.9, 1.0, 10))

    def test_faults_of_the_device_are_counted_and_begin_anew_with_an_epoch(
        self, queue: TrialQueue, store: Store
    ) -> None:
        trial, other = (RunLease(store, claimed(queue)) for _ in range(2))
        assert [trial.note_device_fault() for _ in range(3)] == [1, 2, 3]
        trial.begin(SETTING, fresh=True)
        assert trial.note_device_fault() == 4
        assert other.note_device_fault() == 1
        trial.store_epoch(METRICS, setting=SETTING)
        assert [trial.note_device_fault() for _ in range(2)] == [1, 2]
        assert other.note_device_fault() == 2
