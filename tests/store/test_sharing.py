from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import (
    CLAIM_AND_WAIT,
    FAILURE,
    METRICS,
    SETTING,
    claimed,
    line,
    result_of,
)

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, QueueMaker, Sql


class TestSharing:
    """How many workers shared the device of an epoch, on pretended devices."""

    @pytest.fixture
    def epoch(self, store: Store, study: StudyRecord) -> Callable[[RunLease], int]:
        """Stores one more epoch of a run; workers that it says have shared the device."""
        counted = 0

        def store_one(lease: RunLease) -> int:
            nonlocal counted
            counted += 1
            lease.store_epoch(replace(METRICS, epoch=counted), setting=SETTING)
            (record,) = store.trials(study, epochs=True, number=lease.claim.key.number)
            return record.epochs[-1].sharing

        return store_one

    def begun(self, store: Store, queue: TrialQueue) -> RunLease:
        lease = RunLease(store, claimed(queue))
        lease.begin(SETTING, fresh=False)
        return lease

    def test_it_is_counted_at_the_start_and_at_the_end_of_an_epoch(
        self, make_queue: QueueMaker, store: Store, epoch: Callable[[RunLease], int]
    ) -> None:
        first = self.begun(store, make_queue())
        assert epoch(first) == 1
        second = self.begun(store, make_queue("w1"))
        assert epoch(first) == 2  # it came in the middle
        assert epoch(first) == 2
        second.finish(result_of())
        assert epoch(first) == 2  # it was there at the start
        assert epoch(first) == 1

    def test_whoever_shared_the_beginning_of_a_resumed_epoch_counts(
        self, make_queue: QueueMaker, store: Store, epoch: Callable[[RunLease], int]
    ) -> None:
        lease = RunLease(store, claimed(make_queue()))
        lease.begin(SETTING, fresh=False, sharing=3)
        assert epoch(lease) == 3
        assert epoch(lease) == 1

    def test_a_worker_between_two_trials_counts(
        self, make_queue: QueueMaker, store: Store, epoch: Callable[[RunLease], int]
    ) -> None:
        other = make_queue("w1")
        second = self.begun(store, other)
        first = self.begun(store, make_queue())
        second.finish(result_of())
        assert epoch(first) == 2
        third = self.begun(store, other)
        assert epoch(first) == 2
        third.fail(FAILURE, ends_trial=True)
        assert epoch(first) == 2
        assert epoch(first) == 1

    def test_a_worker_that_waits_does_not_count(
        self,
        location: Location,
        make_queue: QueueMaker,
        store: Store,
        epoch: Callable[[RunLease], int],
    ) -> None:
        leases = [self.begun(store, make_queue()) for _ in range(4)]
        for lease in leases[1:]:
            lease.finish(result_of())
        assert make_queue("w1").claim_next() is Idle.WAIT
        assert epoch(leases[0]) == 1

    def test_other_studies_of_the_database_count_and_other_devices_do_not(
        self,
        location: Location,
        definition: StudyDefinition,
        make_queue: QueueMaker,
        store: Store,
        epoch: Callable[[RunLease], int],
    ) -> None:
        other = enter_study(location, replace(definition, name="other"), seed=None, budget=9)
        first = self.begun(store, make_queue(device="cuda:1"))
        for device in ("cuda:0", "cpu", "cuda:1", "cuda:1"):
            self.begun(store, make_queue("w1", device=device, of=other))
        assert epoch(first) == 3

    def test_another_host_does_not_count(
        self,
        sql: Sql,
        make_queue: QueueMaker,
        store: Store,
        epoch: Callable[[RunLease], int],
    ) -> None:
        self.begun(store, make_queue("w1"))
        sql("update fastrcaps_leases set host = 'elsewhere'")
        assert epoch(self.begun(store, make_queue())) == 1

    def test_a_killed_worker_no_longer_counts(
        self,
        make_queue: QueueMaker,
        store: Store,
        location: Location,
        epoch: Callable[[RunLease], int],
        start_child: ChildStarter,
    ) -> None:
        worker = start_child(CLAIM_AND_WAIT, location.url)
        assert line(worker) == "0"
        first = self.begun(store, make_queue())
        assert epoch(first) == 2
        worker.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        assert epoch(first) == 2  # it trained at the start
        assert epoch(first) == 1  # although its lease is still there
