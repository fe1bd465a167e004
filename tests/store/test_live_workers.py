"""Workers in processes of their own with short leases: a slow one is not taken for a dead one."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.search.queue import Idle
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import RunKey, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from tests.store.workers import BEGIN, claimed, complete, line, renewing, say, until

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, QueueMaker, Sql

pytestmark = pytest.mark.slow

LEASE_SECONDS = 2.0

# A slow start: nothing is stored while Python is busy, some of it without a pause for others.
BUSY = (
    BEGIN
    + """
lease, busy = float(sys.argv[2]), float(sys.argv[3])
store = Store.writing(location)
claim = queue_of(store, "child", lease_seconds=lease).claim_next()
held = RunLease(store, claim)
with held.renewed():
    print(claim.key.number, claim.token, flush=True)
    end = time.monotonic() + busy
    while time.monotonic() < end:
        sum(range(300_000))
        for _ in range(1000):
            json.dumps(claim.key.number)
    print("busy no more", flush=True)
    input()
    try:
        held.finish(RunResult(0.5, 1.0, 10, 1))
    except FastrcapsError as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("stored", flush=True)
"""
)

SUSPENDED = (
    BEGIN
    + """
store = Store.writing(location)
claim = queue_of(store, "child", lease_seconds=float(sys.argv[2])).claim_next()
held = RunLease(store, claim)
with held.renewed():
    print(claim.key.number, claim.token, flush=True)
    input()
    try:
        held.finish(RunResult(0.5, 1.0, 10, 1))
    except FastrcapsError as error:
        print(type(error).__name__, error, flush=True)
"""
)


@pytest.fixture
def one_trial(sql: Sql, study: StudyRecord) -> None:
    """A budget of one: who asks again and again is given that trial or none."""
    sql("update fastrcaps_studies set budget = 1")


@pytest.mark.usefixtures("one_trial")
def test_a_slow_start_is_not_a_dead_worker(
    location: Location,
    make_queue: QueueMaker,
    store: Store,
    study: StudyRecord,
    start_child: ChildStarter,
) -> None:
    busy = 3 * LEASE_SECONDS
    worker = start_child(BUSY, location.url, str(LEASE_SECONDS), str(busy))
    assert line(worker) == "0 1"
    queue = make_queue("w1", lease_seconds=LEASE_SECONDS)
    found = set()
    end = time.monotonic() + busy
    while time.monotonic() < end:
        found.add(queue.claim_next())
        time.sleep(LEASE_SECONDS / 20)
    assert found == {Idle.WAIT}
    assert line(worker) == "busy no more"
    say(worker)
    assert line(worker) == "stored"
    (trial,) = store.trials(study)
    assert (trial.state, trial.runs[0].token) == (TrialState.COMPLETE, 1)


@pytest.mark.usefixtures("one_trial")
def test_a_suspended_one_is_and_finds_its_trial_taken_when_it_goes_on(
    location: Location,
    make_queue: QueueMaker,
    store: Store,
    study: StudyRecord,
    start_child: ChildStarter,
) -> None:
    worker = start_child(SUSPENDED, location.url, str(LEASE_SECONDS))
    assert line(worker) == "0 1"
    queue = make_queue("w1", lease_seconds=LEASE_SECONDS)
    assert queue.claim_next() is Idle.WAIT
    os.kill(worker.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    while (claim := queue.claim_next()) is Idle.WAIT:
        assert time.monotonic() < stopped + 60
        time.sleep(LEASE_SECONDS / 20)
    # Its last renewal was a sixth of the lease before, at most.
    assert time.monotonic() - stopped >= LEASE_SECONDS * 5 / 6
    assert isinstance(claim, Claim)
    assert (claim.key, claim.token) == (RunKey(0, 0), 2)
    os.kill(worker.pid, signal.SIGCONT)
    say(worker)
    assert line(worker).startswith("LeaseLostError trial 0 run 0 must be held to be written")
    assert worker.wait() == 0
    (trial,) = store.trials(study)
    assert (trial.state, trial.values) == (TrialState.RUNNING, None)


def test_who_trains_while_another_is_lost_goes_on_with_its_trial_before_a_new_one(
    location: Location,
    make_queue: QueueMaker,
    store: Store,
    study: StudyRecord,
    start_child: ChildStarter,
) -> None:
    lost = start_child(SUSPENDED, location.url, str(LEASE_SECONDS))
    assert line(lost) == "0 1"
    queue = make_queue("w1", lease_seconds=LEASE_SECONDS)
    second = claimed(queue)
    assert second.key == RunKey(1, 0)
    with renewing(RunLease(store, second)):
        os.kill(lost.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        # It trains, and asks for nothing.
        until(lambda: any(one.is_lost for one in store.leases(study)))
        # A sixth of the lease between two renewals that look, and as much since its own last.
        assert time.monotonic() - stopped >= LEASE_SECONDS * 5 / 6
    complete(store, second)
    again = claimed(queue)
    assert (again.key, again.token) == (RunKey(0, 0), 2)
