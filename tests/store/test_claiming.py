from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.store.workers import BEGIN, CLAIM_AND_WAIT, claimed, complete, fail, line
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, QueueMaker

CLAIM_ALL = (
    BEGIN
    + """
store = Store.writing(location)
queue = queue_of(store, sys.argv[2])
while True:
    claim = queue.claim_next()
    if claim is Idle.WAIT:
        time.sleep(0.01)
        continue
    if claim.purpose == "test":
        break
    print(claim.key.number, claim.key.run, flush=True)
    RunLease(store, claim).finish(RunResult(0.5, 1.0 + claim.key.number, 10, 1))
"""
)


class TestClaiming:
    def test_trials_are_numbered_and_different_until_the_budget_is_met(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        claims = [claimed(queue) for _ in range(4)]
        assert [claim.key for claim in claims] == [RunKey(number, 0) for number in range(4)]
        assert len({trial.configuration_key for trial in store.trials(study)}) == 4
        assert queue.claim_next() is Idle.WAIT
        for claim in claims:
            complete(store, claim)
        claimed(queue, Purpose.TEST)

    def test_a_claim_stores_all_parameters_and_the_lease_at_once(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        claim = claimed(make_queue())
        (trial,) = store.trials(study)
        assert trial.parameters == claim.parameters
        assert trial.state is TrialState.RUNNING
        (lease,) = store.leases(study)
        assert (lease.number, lease.token, lease.pid) == (0, 1, os.getpid())

    def test_an_interrupted_run_comes_before_a_new_one(
        self, make_queue: QueueMaker, store: Store
    ) -> None:
        queue = make_queue()
        first = claimed(queue)
        claimed(queue)
        RunLease(store, first).release()
        again = claimed(queue)
        assert (again.key, again.token) == (first.key, 2)
        assert again.parameters == first.parameters

    def test_the_run_of_a_killed_worker_is_free_at_once(
        self,
        make_queue: QueueMaker,
        location: Location,
        study: StudyRecord,
        start_child: ChildStarter,
    ) -> None:
        worker = start_child(CLAIM_AND_WAIT, location.url)
        assert line(worker) == "0"
        queue = make_queue()
        assert claimed(queue).key.number == 1  # number 0 is held
        worker.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        again = claimed(queue)
        assert (again.key.number, again.token) == (0, 2)

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
        make_queue: QueueMaker,
        store: Store,
        study: StudyRecord,
    ) -> None:
        # 4 policies x (constant + 2 exponents) + warm_adabatch x 2 = 14, but with 2 epochs and the
        # boundary 1, warm_restarts+adabatch is the very training of warm_adabatch: 12 remain.
        enter_study(location, definition, seed=None, budget=50)
        queue = make_queue()
        for _ in range(12):
            fail(store, claimed(queue))
        assert queue.claim_next() is Idle.DONE
        assert queue.is_over()

    def test_a_space_without_more_to_offer_leaves_the_front_to_repeat_and_to_test(
        self,
        location: Location,
        definition: StudyDefinition,
        store: Store,
        study: StudyRecord,
    ) -> None:
        enter_study(location, definition, seed=None, budget=4, front_runs=2)
        claimant = Claimant(store=store, study=study, worker="w0", device="cpu")
        # As in a continuous space, of which nobody knows how much it holds.
        queue = TrialQueue(
            claimant, lambda study, trials, _: None if trials else propose(study, [])
        )
        first = claimed(queue)
        assert queue.claim_next() is Idle.WAIT
        complete(store, first)
        repeat = claimed(queue)
        assert repeat.key == RunKey(0, 1)
        assert queue.claim_next() is Idle.WAIT
        complete(store, repeat)
        for run in (0, 1):
            test = claimed(queue, Purpose.TEST)
            assert test.key == RunKey(0, run)
            lease = RunLease(store, test)
            lease.store_test_accuracy(0.5)
            lease.hand_back()
        assert queue.claim_next() is Idle.DONE

    def test_what_is_proposed_goes_by_estimates_however_often_was_asked_before(
        self, location: Location, definition: StudyDefinition, store: Store, study: StudyRecord
    ) -> None:
        enter_study(location, definition, seed=None, budget=6, front_runs=2)
        seen: list[list[bool]] = []

        def propose_and_look(
            study: StudyRecord, trials: Sequence[TrialRecord], worker: str
        ) -> tuple[TrialParameters, str] | None:
            seen.append([trial.measured is not None for trial in trials])
            return propose(study, trials, worker)

        claimant = Claimant(store=store, study=study, worker="w0", device="cpu")
        queue = TrialQueue(claimant, propose_and_look)
        # All on the front, and all repeated: enough for estimates.
        for number in range(6):
            complete(store, claimed(queue), values_of(0.6 + number / 20, 1.0 + number, 10))
        for number in range(6):
            complete(store, claimed(queue), values_of(0.61 + number / 20, 1.1 + number, 10))
        enter_study(location, definition, seed=None, budget=7)
        assert not queue.is_over()
        assert claimed(queue).key == RunKey(6, 0)
        assert seen[-1] == [True] * 6
