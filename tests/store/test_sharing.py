from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.duties import Duty
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import CLAIM_AND_WAIT, FAILURE, METRICS, SETTING, VALUES, claimed, line

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, DoorMaker, Sql


class TestSharing:
    """How many workers shared the device of an epoch, on pretended devices."""

    @pytest.fixture
    def epoch(self, store: Store, study: StudyRecord) -> Callable[[ClaimedTrial], int]:
        """Stores one more epoch of a trial; workers that it says have shared the device."""
        counted = 0

        def store_one(trial: ClaimedTrial) -> int:
            nonlocal counted
            counted += 1
            trial.store_epoch(0, replace(METRICS, epoch=counted), setting=SETTING)
            (record,) = store.trials(study, epochs=True, number=trial.claim.number)
            return record.epochs[-1].sharing

        return store_one

    def begun(self, store: Store, door: Door) -> ClaimedTrial:
        trial = ClaimedTrial(store, claimed(door))
        trial.begin_run(0, seed=0, setting=SETTING, fresh=False)
        return trial

    def test_it_is_counted_at_the_start_and_at_the_end_of_an_epoch(
        self, make_door: DoorMaker, store: Store, epoch: Callable[[ClaimedTrial], int]
    ) -> None:
        first = self.begun(store, make_door())
        assert epoch(first) == 1
        second = self.begun(store, make_door("w1"))
        assert epoch(first) == 2  # it came in the middle
        assert epoch(first) == 2
        second.complete(VALUES)
        assert epoch(first) == 2  # it was there at the start
        assert epoch(first) == 1

    def test_a_worker_between_two_trials_counts(
        self, make_door: DoorMaker, store: Store, epoch: Callable[[ClaimedTrial], int]
    ) -> None:
        other = make_door("w1")
        second = self.begun(store, other)
        first = self.begun(store, make_door())
        second.complete(VALUES)
        assert epoch(first) == 2
        third = self.begun(store, other)
        assert epoch(first) == 2
        third.fail(FAILURE)
        assert epoch(first) == 2
        assert epoch(first) == 1

    def test_a_worker_that_waits_does_not_count(
        self,
        location: Location,
        make_door: DoorMaker,
        store: Store,
        epoch: Callable[[ClaimedTrial], int],
    ) -> None:
        trials = [self.begun(store, make_door()) for _ in range(4)]
        for trial in trials[1:]:
            trial.complete(VALUES)
        assert make_door("w1").next().duty is Duty.WAIT
        assert epoch(trials[0]) == 1

    def test_other_studies_of_the_database_count_and_other_devices_do_not(
        self,
        location: Location,
        definition: StudyDefinition,
        make_door: DoorMaker,
        store: Store,
        epoch: Callable[[ClaimedTrial], int],
    ) -> None:
        other = enter_study(location, replace(definition, name="other"), seed=None, budget=9)
        first = self.begun(store, make_door(device="cuda:1"))
        for device in ("cuda:0", "cpu", "cuda:1", "cuda:1"):
            self.begun(store, make_door("w1", device=device, of=other))
        assert epoch(first) == 3

    def test_another_host_does_not_count(
        self,
        sql: Sql,
        make_door: DoorMaker,
        store: Store,
        epoch: Callable[[ClaimedTrial], int],
    ) -> None:
        self.begun(store, make_door("w1"))
        sql("update fastrcaps_leases set host = 'elsewhere'")
        assert epoch(self.begun(store, make_door())) == 1

    def test_a_killed_worker_no_longer_counts(
        self,
        make_door: DoorMaker,
        store: Store,
        location: Location,
        epoch: Callable[[ClaimedTrial], int],
        start_child: ChildStarter,
    ) -> None:
        worker = start_child(CLAIM_AND_WAIT, location.url)
        assert line(worker) == "0"
        first = self.begun(store, make_door())
        assert epoch(first) == 2
        worker.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        assert epoch(first) == 2  # it trained at the start
        assert epoch(first) == 1  # although its lease is still there
