"""A worker that waits reads the study again only when something has happened there."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StudyMismatchError, StudyNotFoundError
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store import lease as lease_module
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord
from fastrcaps_search.store.setting_aside import exclude, include
from fastrcaps_search.store.store import Store
from tests.crowd import CountingClaimant, Tally
from tests.store.workers import METRICS, SETTING, Clock, claimed, complete
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql

BUDGET = 4
LEASE_SECONDS = 600.0
"""No machine is so slow that a lease runs out while a test is at work."""


@pytest.fixture
def held(make_queue: QueueMaker) -> list[Claim]:
    """All trials of the budget, begun and held by one worker."""
    queue = make_queue(lease_seconds=LEASE_SECONDS)
    return [claimed(queue) for _ in range(BUDGET)]


@pytest.fixture
def snapshots(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each snapshot."""
    taken: list[str] = []
    snapshot = store.snapshot

    def noted(name: str) -> object:
        taken.append(name)
        return snapshot(name)

    monkeypatch.setattr(store, "snapshot", noted)
    return taken


@pytest.fixture
def waiting(make_queue: QueueMaker, held: list[Claim], snapshots: list[str]) -> TrialQueue:
    """The queue of another worker, which has found nothing and knows it."""
    queue = make_queue("w1")
    assert queue.claim_next() is Idle.WAIT
    assert queue.claim_next() is Idle.WAIT
    assert len(snapshots) == 1
    snapshots.clear()
    return queue


def test_it_reads_no_trials_while_nothing_happens(
    waiting: TrialQueue, held: list[Claim], store: Store, snapshots: list[str]
) -> None:
    lease = RunLease(store, held[0])
    lease.begin(SETTING, fresh=True)
    assert lease.renew()
    lease.store_epoch(METRICS, setting=SETTING)
    assert waiting.claim_next() is Idle.WAIT
    assert snapshots == []


def test_it_reads_them_once_when_a_run_has_ended(
    waiting: TrialQueue, held: list[Claim], store: Store, snapshots: list[str]
) -> None:
    complete(store, held[0])
    for _ in range(2):
        assert waiting.claim_next() is Idle.WAIT
        assert len(snapshots) == 1


def test_it_sees_that_a_run_was_given_back_and_taken_again_since_it_looked(
    waiting: TrialQueue,
    held: list[Claim],
    store: Store,
    make_queue: QueueMaker,
    snapshots: list[str],
) -> None:
    """As many runs are held as before, and the same ones."""
    RunLease(store, held[3]).release()
    taken_again = claimed(make_queue())
    assert taken_again.key == held[3].key
    snapshots.clear()
    assert waiting.claim_next() is Idle.WAIT
    assert len(snapshots) == 1


def test_it_tests_the_front_once_the_last_run_has_ended(
    waiting: TrialQueue, held: list[Claim], store: Store
) -> None:
    for claim in held:
        complete(store, claim)
    assert claimed(waiting, Purpose.TEST).key == RunKey(0, 0)


def test_it_takes_what_is_given_back(waiting: TrialQueue, held: list[Claim], store: Store) -> None:
    RunLease(store, held[2]).release()
    assert claimed(waiting).key == held[2].key


def test_it_takes_over_from_a_process_that_has_died_at_once(
    waiting: TrialQueue, held: list[Claim], clock: Clock
) -> None:
    clock.kill()
    assert claimed(waiting).key == held[0].key


def test_it_takes_over_from_another_machine_after_its_lease(
    waiting: TrialQueue, held: list[Claim], clock: Clock, sql: Sql
) -> None:
    sql("update fastrcaps_leases set host = 'elsewhere'")
    clock.silence(LEASE_SECONDS * 0.7)
    assert waiting.claim_next() is Idle.WAIT
    clock.pass_by(LEASE_SECONDS * 0.4)
    assert claimed(waiting).key == held[0].key


def test_it_begins_trials_of_a_budget_that_has_grown(
    waiting: TrialQueue, location: Location, definition: StudyDefinition
) -> None:
    enter_study(location, definition, seed=None, budget=BUDGET + 1)
    assert claimed(waiting).key == RunKey(BUDGET, 0)


def test_it_repeats_the_front_that_is_to_have_more_runs(
    make_queue: QueueMaker, held: list[Claim], store: Store, sql: Sql
) -> None:
    for claim in held:
        complete(store, claim)
    test, queue = claimed(make_queue(), Purpose.TEST), make_queue("w1")
    while queue.claim_next() is not Idle.WAIT:
        continue
    sql("update fastrcaps_studies set front_runs = 2")
    assert claimed(queue).key.run == 1
    RunLease(store, test).release()


@pytest.mark.parametrize("other_first", [False, True])
def test_it_goes_by_the_front_that_a_trial_was_taken_off_or_put_on_by_hand(
    other_first: bool,
    make_queue: QueueMaker,
    held: list[Claim],
    store: Store,
    study: StudyRecord,
) -> None:
    # The last one dominates the others, whose networks nobody would test.
    for claim in held[:3]:
        complete(store, claim, values_of(0.8, 3.0, 70_000))
    complete(store, held[3], values_of(0.9, 2.0, 61_706))
    if other_first:
        exclude(store, study, 3, why="a trial")
    busy, queue = make_queue(), make_queue("w1")
    tested = [claimed(busy, Purpose.TEST) for _ in range(3 if other_first else 1)]
    assert {claim.key.number for claim in tested} == ({0, 1, 2} if other_first else {3})
    assert queue.claim_next() is Idle.WAIT
    if other_first:
        include(store, study, 3)
    else:
        exclude(store, study, 3, why="a trial")
    assert (claimed(queue, Purpose.TEST).key.number == 3) is other_first


def test_it_is_told_of_a_study_that_was_defined_anew_or_removed(
    waiting: TrialQueue, sql: Sql
) -> None:
    sql("update fastrcaps_studies set uid = 'another'")
    with pytest.raises(StudyMismatchError, match="was defined anew"):
        waiting.claim_next()
    sql("delete from fastrcaps_studies")
    with pytest.raises(StudyNotFoundError):
        waiting.claim_next()


def test_workers_that_want_the_same_runs_lose_few_to_each_other(
    make_queue: QueueMaker,
    location: Location,
    definition: StudyDefinition,
    store: Store,
    study: StudyRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enter_study(location, definition, seed=None, budget=12)
    left = [claimed(make_queue()) for _ in range(12)]
    for claim in left:
        RunLease(store, claim).release()
    # All have read the study before any of them claims.
    seen = store.snapshot("tiny")
    monkeypatch.setattr(store, "snapshot", lambda name: seen)
    random.seed(0)
    tally = Tally()
    taken = [
        claimed(
            TrialQueue(
                CountingClaimant(
                    store=store, study=study, worker=f"w{index}", device="cpu", tally=tally
                ),
                propose,
            )
        ).key
        for index in range(12)
    ]
    assert taken[0] == left[0].key
    assert sorted(taken) == [claim.key for claim in left]
    # In one order the last would lose eleven times, and all together 0 + 1 + .. + 11 = 66.
    assert tally.lost <= 40


def test_an_epoch_reads_the_leases_of_its_own_device_alone(
    make_queue: QueueMaker, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = RunLease(store, claimed(make_queue(device="cuda:1", lease_seconds=LEASE_SECONDS)))
    for device in ("cuda:1", "cuda:0", "cpu"):
        claimed(make_queue("w1", device=device, lease_seconds=LEASE_SECONDS))
    read: list[LeaseRecord] = []

    def live(found: list[LeaseRecord]) -> list[LeaseRecord]:
        read.extend(found)
        return found

    monkeypatch.setattr(lease_module, "live_leases", live)
    lease.store_epoch(METRICS, setting=SETTING)
    assert [one.device for one in read] == ["cuda:1", "cuda:1"]
