"""The claims that the store keeps, and when its epochs were stored."""

from __future__ import annotations

import gc
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import LeaseLostError, StoreUnavailableError
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.holders import ClaimRecord
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.records import EpochRecord, Purpose, StudyRecord, TrialState
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.schema import now
from fastrcaps_search.store.store import Store
from tests.store.test_lost_answers import lose_answer
from tests.store.workers import (
    METRICS,
    SETTING,
    Clock,
    claimed,
    complete,
    fail,
    trial_of,
)

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker, Sql


def kept(store: Store, study: StudyRecord) -> list[tuple[int, int, str]]:
    """Number, token and worker of each claim."""
    return [(claim.number, claim.token, claim.worker) for claim in store.claims(study)]


def database_time(store: Store) -> float:
    """The time on the database's clock."""
    return store.read(lambda connection: connection.execute(select(now())).scalar_one())


class TestClaims:
    def test_first_claims_and_take_overs_are_kept_with_growing_tokens(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord, clock: Clock
    ) -> None:
        first, second = make_queue("w0"), make_queue("w1")
        claimed(first)
        claimed(second)
        clock.kill()
        third = make_queue("w2")
        claimed(third)
        complete(store, claimed(third))
        clock.kill()
        claimed(second)
        # The leases tell who holds the one running trial, the claims who held which.
        assert [(lease.number, lease.token) for lease in store.leases(study)] == [(0, 3)]
        assert kept(store, study) == [
            (0, 1, "w0"),
            (0, 2, "w2"),
            (0, 3, "w1"),
            (1, 1, "w1"),
            (1, 2, "w2"),
        ]

    def test_a_claim_says_where_and_when(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        before = database_time(store)
        claimed(make_queue("w0", device="cuda:1"))
        after = database_time(store)
        (claim,) = store.claims(study)
        (lease,) = store.leases(study)
        host = ProcessIdentity.current().host
        assert claim == ClaimRecord(
            number=0,
            run=0,
            token=1,
            purpose="train",
            worker="w0",
            host=host,
            device="cuda:1",
            claimed_at=claim.claimed_at,
        )
        assert before <= lease.claimed_at <= claim.claimed_at <= after
        assert host.startswith(f"{claim.host_name}/")

    def test_the_last_claim_of_a_failed_trial_is_that_of_the_worker_that_failed(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord, clock: Clock
    ) -> None:
        claimed(make_queue("w0"))
        clock.kill()
        fail(store, claimed(make_queue("w1")))
        assert trial_of(store, study).state is TrialState.FAILED
        assert kept(store, study) == [(0, 1, "w0"), (0, 2, "w1")]

    def test_a_claim_to_test_is_kept_too(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue("w0")
        for _ in range(4):
            complete(store, claimed(queue))
        tested = claimed(make_queue("w1"), Purpose.TEST).key.number
        assert kept(store, study) == sorted(
            [*((number, 1, "w0") for number in range(4)), (tested, 2, "w1")]
        )

    def test_claims_of_other_studies_are_left_out(
        self,
        make_queue: QueueMaker,
        location: Location,
        store: Store,
        study: StudyRecord,
        definition: StudyDefinition,
    ) -> None:
        other = enter_study(location, replace(definition, name="other"), seed=None, budget=1)
        claimed(make_queue("w0"))
        claimed(make_queue("w1", of=other))
        assert kept(store, study) == [(0, 1, "w0")]
        assert kept(store, other) == [(0, 1, "w1")]


class TestAnswersThatAreLost:
    @pytest.mark.parametrize("taken_over", [False, True])
    def test_a_claim_that_is_repeated_is_kept_once(
        self,
        taken_over: bool,
        make_queue: QueueMaker,
        store: Store,
        study: StudyRecord,
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        before = []
        if taken_over:
            claimed(make_queue("w0"))
            clock.kill()
            before = [(0, 1, "w0")]
        store.patience = RetryPolicy(60)
        queue = make_queue("w1")
        lost = lose_answer(store, monkeypatch)
        claim = claimed(queue)
        assert lost == [True]
        assert kept(store, study) == [*before, (0, claim.token, "w1")]

    def test_a_claim_that_is_not_granted_is_not_kept(
        self,
        make_queue: QueueMaker,
        store: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        queue = make_queue()
        dialect = store.engine.dialect
        assert dialect.dbapi is not None
        refused = dialect.dbapi.OperationalError("disk I/O error")

        def refuse(connection: object) -> None:
            raise refused

        with monkeypatch.context() as patch:
            patch.setattr(dialect, "do_commit", refuse)
            with pytest.raises(StoreUnavailableError):
                queue.claim_next()
        assert store.claims(study) == []
        assert store.trials(study) == []


class TestEpochs:
    def test_the_time_when_an_epoch_is_stored_is_the_databases(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        trial = RunLease(store, claimed(make_queue()))
        trial.begin(SETTING, fresh=False)
        times = [database_time(store)]
        for epoch in (1, 2):
            trial.store_epoch(replace(METRICS, epoch=epoch), setting=SETTING)
            times.append(database_time(store))
        first, second = (epoch.stored_at for epoch in epochs_of(store, study))
        assert first is not None
        assert second is not None
        assert times[0] <= first <= times[1] <= second <= times[2]

    def test_one_that_is_trained_again_has_the_later_time(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        trial = RunLease(store, claimed(make_queue()))
        trial.store_epoch(METRICS, setting=SETTING)
        between = database_time(store)
        trial.store_epoch(METRICS, setting=SETTING)
        (epoch,) = epochs_of(store, study)
        assert epoch.stored_at is not None
        assert epoch.stored_at >= between

    def test_a_fenced_worker_stores_neither_epoch_nor_claim(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord, clock: Clock
    ) -> None:
        old = RunLease(store, claimed(make_queue("w0")))
        clock.kill()
        new = RunLease(store, claimed(make_queue("w1")))
        new.store_epoch(METRICS, setting=SETTING)
        before = (epochs_of(store, study), store.claims(study))
        with pytest.raises(LeaseLostError):
            old.store_epoch(replace(METRICS, accuracy=0.1), setting=SETTING)
        with pytest.raises(LeaseLostError):
            old.store_epoch(replace(METRICS, epoch=2), setting=SETTING)
        assert (epochs_of(store, study), store.claims(study)) == before
        assert kept(store, study) == [(0, 1, "w0"), (0, 2, "w1")]

    def test_they_are_read_as_they_were_stored_and_equal_settings_are_one(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord, sql: Sql
    ) -> None:
        queue = make_queue("w0")
        others = replace(SETTING, device="cuda", device_name="a card", threads=3)
        stored = []
        for number in (0, 1):
            trial = RunLease(store, claimed(queue))
            for epoch, setting in ((2, SETTING), (1, others)):
                # A value of its own in each field, so that none can be taken for another.
                between = [number + epoch / 8 + field / 128 for field in range(9)]
                figures = (epoch, 16 + number, *between, 50 + number, 900 + epoch)
                names = [field.name for field in fields(EpochMetrics)]
                metrics = EpochMetrics.from_dict(dict(zip(names, figures, strict=True)))
                trial.store_epoch(metrics, setting=setting)
                stored.append((number, epoch, metrics, setting))
        read = [
            (trial.number, epoch.metrics.epoch, epoch.metrics, epoch.setting)
            for trial in store.trials(study, epochs=True)
            for epoch in trial.epochs
        ]
        assert read == sorted(stored, key=lambda row: row[:2])
        assert read[0][3] is read[2][3]
        assert all(hash(metrics) and repr(metrics) for _, _, metrics, _ in read)

    def test_the_search_for_cycles_is_as_it_was_after_a_read(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        RunLease(store, claimed(make_queue())).store_epoch(METRICS, setting=SETTING)
        assert gc.isenabled()
        store.trials(study, epochs=True)
        assert gc.isenabled()
        gc.disable()
        try:
            store.trials(study, epochs=True)
            assert not gc.isenabled()
        finally:
            gc.enable()


def epochs_of(store: Store, study: StudyRecord) -> tuple[EpochRecord, ...]:
    """The epochs of the one trial."""
    (trial,) = store.trials(study, epochs=True)
    return trial.epochs
