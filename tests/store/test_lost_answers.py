"""Commits that were done although their answer never came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection

from fastrcaps_search.errors import StoreUnavailableError
from fastrcaps_search.search.queue import Idle
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from tests.store.workers import (
    FAILURE,
    SETTING,
    VALUES,
    Clock,
    claimed,
    complete,
    result_of,
    run_of,
)
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker


class TestAnswersThatAreLost:
    @pytest.fixture
    def patient(self, location: Location, study: StudyRecord) -> Iterator[Store]:
        """A store that tries again."""
        opened = Store.writing(location, patience=RetryPolicy(60))
        yield opened
        opened.close()

    def test_a_new_claim_is_found_again(
        self,
        make_queue: QueueMaker,
        patient: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        queue = make_queue(at=patient)
        lost = lose_answer(patient, monkeypatch)
        claim = claimed(queue)
        assert lost == [True]
        assert (claim.key, claim.token) == (RunKey(0, 0), 1)
        (trial,) = patient.trials(study)
        assert trial.parameters == claim.parameters
        complete(patient, claim)
        assert claimed(queue).key.number == 1

    def test_a_take_over_is_found_again(
        self,
        make_queue: QueueMaker,
        clock: Clock,
        patient: Store,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        first = claimed(make_queue("w0"))
        clock.kill()
        queue = make_queue("w1", at=patient)
        lost = lose_answer(patient, monkeypatch)
        claim = claimed(queue)
        assert lost == [True]
        assert (claim.key, claim.token) == (first.key, 2)
        assert claim.parameters == first.parameters

    def test_the_claim_of_a_repeat_is_found_again(
        self,
        make_queue: QueueMaker,
        patient: Store,
        location: Location,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        queue = make_queue(at=patient)
        for accuracy in (0.1, 0.9, 0.1, 0.1):
            complete(patient, claimed(queue), values_of(accuracy, 1.0, 10))
        enter_study(location, study.definition, seed=None, budget=4, front_runs=2)
        lost = lose_answer(patient, monkeypatch)
        claim = claimed(queue)
        assert lost == [True]
        assert (claim.key, claim.token) == (RunKey(1, 1), 1)
        assert [(lease.key, lease.token) for lease in patient.leases(study)] == [(claim.key, 1)]

    def test_the_claim_of_a_test_is_found_again(
        self,
        make_queue: QueueMaker,
        patient: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        queue = make_queue(at=patient)
        for accuracy in (0.1, 0.9, 0.1, 0.1):
            complete(patient, claimed(queue), values_of(accuracy, 1.0, 10))
        lost = lose_answer(patient, monkeypatch)
        claim = claimed(queue, Purpose.TEST)
        assert lost == [True]
        assert (claim.key, claim.token) == (RunKey(1, 0), 2)
        assert queue.claim_next() is Idle.WAIT

    @pytest.mark.parametrize("ending", ["finish", "fail"])
    def test_an_end_counts_once(
        self,
        ending: str,
        make_queue: QueueMaker,
        patient: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        lease = RunLease(patient, claimed(make_queue(at=patient)))
        lost = lose_answer(patient, monkeypatch)
        if ending == "finish":
            lease.finish(result_of())
        else:
            lease.fail(FAILURE, ends_trial=True)
        assert lost == [True]
        run = run_of(patient, study)
        assert (run.accuracy, run.failure) == (
            (VALUES.accuracy, None) if ending == "finish" else (None, FAILURE)
        )
        assert patient.leases(study) == []

    def test_an_end_counts_though_the_run_is_being_tested_by_now(
        self,
        make_queue: QueueMaker,
        patient: Store,
        store: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        lease = RunLease(patient, claimed(make_queue("w0", at=patient)))
        lease.begin(SETTING, fresh=True)
        other = Claimant(store=store, study=study, worker="w1", device="cpu")
        lost = lose_answer(patient, monkeypatch)
        wait = patient.patience.stop.wait

        def claimed_meanwhile(seconds: float) -> bool:
            trial = store.trials(study)[0]
            if trial.runs[0].token == 1:
                assert other.take(trial, 0, Purpose.TEST) is not None
            return wait(seconds)

        monkeypatch.setattr(patient.patience.stop, "wait", claimed_meanwhile)
        lease.finish(result_of())
        assert lost == [True]
        run = run_of(store, study)
        assert (run.token, run.accuracy) == (2, VALUES.accuracy)

    def test_without_patience_the_worker_is_told(
        self, make_queue: QueueMaker, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = make_queue()
        lose_answer(store, monkeypatch)
        with pytest.raises(StoreUnavailableError, match="disk I/O error"):
            queue.claim_next()


def lose_answer(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let the next writing commit of this store be done and then fail; filled once it has been."""
    dialect, write_once = store.engine.dialect, store.write_once
    commit = dialect.do_commit
    lost: list[bool] = []
    writing = False

    def lose(connection: Any) -> None:  # noqa: ANN401  # any driver's
        commit(connection)
        if writing and not lost:
            lost.append(True)
            assert dialect.dbapi is not None
            raise dialect.dbapi.OperationalError("disk I/O error")

    def write(work: Callable[[Connection], object]) -> object:
        nonlocal writing
        writing = True
        try:
            return write_once(work)
        finally:
            writing = False

    monkeypatch.setattr(store, "write_once", write)
    monkeypatch.setattr(dialect, "do_commit", lose)
    return lost
