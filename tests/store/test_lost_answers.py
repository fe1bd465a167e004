"""Commits that were done although their answer never came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.errors import StoreUnavailableError
from fastrcaps_search.store.duties import Duty
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.patience import Patience
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord, Values
from fastrcaps_search.store.store import Store
from tests.store.workers import FAILURE, VALUES, Clock, claimed, complete, trial_of

if TYPE_CHECKING:
    from tests.store.conftest import DoorMaker


class TestAnswersThatAreLost:
    @pytest.fixture
    def patient(self, location: Location, study: StudyRecord) -> Iterator[Store]:
        """A store that tries again."""
        opened = Store.writing(location, patience=Patience(60))
        yield opened
        opened.close()

    def test_a_new_claim_is_found_again(
        self,
        make_door: DoorMaker,
        patient: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        door = make_door(at=patient)
        lost = lose_answer(patient, monkeypatch)
        claim = claimed(door)
        assert lost == [True]
        assert (claim.number, claim.token) == (0, 1)
        (trial,) = patient.trials(study)
        assert (trial.parameters, trial.configuration_key) == (
            claim.parameters,
            claim.configuration_key,
        )
        ClaimedTrial(patient, claim).complete(VALUES)
        assert claimed(door).number == 1

    def test_a_take_over_is_found_again(
        self,
        make_door: DoorMaker,
        clock: Clock,
        patient: Store,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        first = claimed(make_door("w0"))
        clock.kill()
        door = make_door("w1", at=patient)
        lost = lose_answer(patient, monkeypatch)
        claim = claimed(door)
        assert lost == [True]
        assert (claim.number, claim.token, claim.parameters) == (0, 2, first.parameters)

    def test_the_claim_of_a_repeat_is_found_again(
        self,
        make_door: DoorMaker,
        patient: Store,
        location: Location,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        door = make_door(at=patient)
        for accuracy in (0.1, 0.9, 0.1, 0.1):
            complete(patient, claimed(door), Values(accuracy, 1.0, 10))
        enter_study(location, study.definition, seed=None, budget=4, repeats=2)
        lost = lose_answer(patient, monkeypatch)
        admitted = door.next()
        assert lost == [True]
        assert admitted.claim is not None
        assert (admitted.duty, admitted.claim.number) == (Duty.REPEAT, 1)
        assert [lease.token for lease in patient.leases(study)] == [2]

    def test_the_claim_of_a_test_is_found_again(
        self,
        make_door: DoorMaker,
        patient: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        door = make_door(at=patient)
        for accuracy in (0.1, 0.9, 0.1, 0.1):
            complete(patient, claimed(door), Values(accuracy, 1.0, 10))
        door.settle()
        lost = lose_answer(patient, monkeypatch)
        admitted = door.next()
        assert lost == [True]
        assert admitted.duty is Duty.TEST
        assert admitted.claim is not None
        assert (admitted.claim.number, admitted.claim.token) == (1, 2)
        assert door.next().duty is Duty.WAIT

    @pytest.mark.parametrize("ending", ["complete", "fail"])
    def test_an_end_counts_once(
        self,
        ending: str,
        make_door: DoorMaker,
        patient: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        trial = ClaimedTrial(patient, claimed(make_door(at=patient)))
        lost = lose_answer(patient, monkeypatch)
        if ending == "complete":
            trial.complete(VALUES)
        else:
            trial.fail(FAILURE)
        assert lost == [True]
        record = trial_of(patient, study)
        assert (record.values, record.failure) == (
            (VALUES, None) if ending == "complete" else (None, FAILURE)
        )
        assert patient.leases(study) == []

    def test_without_patience_the_worker_is_told(
        self, make_door: DoorMaker, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        door = make_door()
        lose_answer(store, monkeypatch)
        with pytest.raises(StoreUnavailableError, match="disk I/O error"):
            door.next()


def lose_answer(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let the next commit of this store be done and then fail; filled once that has been."""
    dialect = store.engine.dialect
    commit = dialect.do_commit
    lost: list[bool] = []

    def lose(connection: Any) -> None:  # noqa: ANN401  # any driver's
        commit(connection)
        if not lost:
            lost.append(True)
            assert dialect.dbapi is not None
            raise dialect.dbapi.OperationalError("disk I/O error")

    monkeypatch.setattr(dialect, "do_commit", lose)
    return lost
