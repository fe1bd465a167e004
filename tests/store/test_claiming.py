from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.duties import Duty
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from tests.store.workers import BEGIN, CLAIM_AND_WAIT, FAILURE, claimed, complete, line

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, DoorMaker

CLAIM_ALL = (
    BEGIN
    + """
store = Store.writing(location)
door = door_of(store, sys.argv[2])
while True:
    admitted = door.next()
    if admitted.claim is None or admitted.duty is not Duty.TRAIN:
        break
    ClaimedTrial(store, admitted.claim).complete(Values(0.5, 1.0 + admitted.claim.number, 10.0))
    door.settle()
"""
)


class TestClaiming:
    def test_trials_are_numbered_and_different_until_the_budget_is_met(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        claims = [claimed(door) for _ in range(4)]
        assert [claim.number for claim in claims] == [0, 1, 2, 3]
        assert len({claim.configuration_key for claim in claims}) == 4
        assert door.next().duty is Duty.WAIT
        for claim in claims:
            complete(store, claim)
        assert door.next().duty is Duty.TEST

    def test_a_claim_stores_all_parameters_and_the_lease_at_once(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        claim = claimed(make_door())
        (trial,) = store.trials(study)
        assert trial.parameters == claim.parameters
        assert trial.state is TrialState.RUNNING
        (lease,) = store.leases(study)
        assert (lease.number, lease.token, lease.pid) == (0, 1, os.getpid())

    def test_an_interrupted_trial_comes_before_a_new_one(
        self, make_door: DoorMaker, store: Store
    ) -> None:
        door = make_door()
        first = claimed(door)
        claimed(door)
        ClaimedTrial(store, first).release()
        again = claimed(door)
        assert (again.number, again.token) == (first.number, 2)
        assert again.parameters == first.parameters

    def test_the_trial_of_a_killed_worker_is_free_at_once(
        self,
        make_door: DoorMaker,
        location: Location,
        study: StudyRecord,
        start_child: ChildStarter,
    ) -> None:
        worker = start_child(CLAIM_AND_WAIT, location.url)
        assert line(worker) == "0"
        door = make_door()
        assert claimed(door).number == 1  # number 0 is held
        worker.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        again = claimed(door)
        assert (again.number, again.token) == (0, 2)

    @pytest.mark.slow
    def test_processes_at_once_share_the_budget_exactly(
        self,
        location: Location,
        study: StudyRecord,
        store: Store,
        definition: StudyDefinition,
        start_child: ChildStarter,
    ) -> None:
        enter_study(location, definition, seed=None, budget=12)
        workers = [start_child(CLAIM_ALL, location.url, f"w{i}") for i in range(4)]
        assert [worker.wait() for worker in workers] == [0, 0, 0, 0]
        trials = store.trials(study)
        assert [trial.number for trial in trials] == list(range(12))
        assert {trial.state for trial in trials} == {TrialState.COMPLETE}
        assert len({trial.configuration_key for trial in trials}) == 12

    def test_the_space_ends_before_the_budget(
        self,
        location: Location,
        definition: StudyDefinition,
        make_door: DoorMaker,
        store: Store,
        study: StudyRecord,
    ) -> None:
        # 4 policies x (constant + 2 exponents) + warm_adabatch x 2 = 14, but with 2 epochs and the
        # boundary 1, warm_restarts+adabatch is the very training of warm_adabatch: 12 remain.
        enter_study(location, definition, seed=None, budget=50)
        door = make_door()
        for _ in range(12):
            ClaimedTrial(store, claimed(door)).fail(FAILURE)
        assert door.next().duty is Duty.EXHAUSTED
