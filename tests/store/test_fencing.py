from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import Failure, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from tests.store.workers import FAILURE, METRICS, SETTING, VALUES, claimed

if TYPE_CHECKING:
    from tests.store.conftest import DoorMaker


class TestFencing:
    def test_a_worker_that_lost_its_trial_can_write_nothing(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        old = ClaimedTrial(store, claimed(door))
        old.begin_run(0, seed=0, setting=SETTING, fresh=False)
        old.release()
        new = ClaimedTrial(store, claimed(door))
        attempts: list[Callable[[], object]] = [
            lambda: old.begin_run(1, seed=0, setting=SETTING, fresh=False),
            lambda: old.store_epoch(0, METRICS, setting=SETTING),
            lambda: old.forget_epochs_after(0, 0),
            lambda: old.finish_run(0, RunResult(0.1, 1.0, 5, 1)),
            lambda: old.complete(VALUES),
            lambda: old.fail(FAILURE),
            lambda: old.store_test_accuracy(0, 0.1),
            old.note_device_fault,
        ]
        for attempt in attempts:
            with pytest.raises(LeaseLostError, match="another worker has taken it over"):
                attempt()
        old.release()  # must not take the new holder's lease away
        assert [lease.token for lease in store.leases(study)] == [2]
        (trial,) = store.trials(study, epochs=True)
        assert (trial.state, trial.values, trial.epochs) == (TrialState.RUNNING, None, ())
        new.complete(VALUES)
        assert store.trials(study)[0].values == VALUES

    def test_a_finished_trial_cannot_be_finished_again(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        trial.complete(VALUES)
        attempts: list[Callable[[], None]] = [
            lambda: trial.fail(FAILURE),
            lambda: trial.complete(replace(VALUES, accuracy=0.91)),
        ]
        for attempt in attempts:
            with pytest.raises(LeaseLostError):
                attempt()
        (record,) = store.trials(study)
        assert (record.state, record.values) == (TrialState.COMPLETE, VALUES)

    def test_the_same_end_may_come_twice_for_an_answer_that_was_lost(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        complete, failed = (ClaimedTrial(store, claimed(door)) for _ in range(2))
        complete.complete(VALUES)
        failed.fail(FAILURE)
        before = store.trials(study)
        complete.complete(VALUES)
        failed.fail(FAILURE)
        assert store.trials(study) == before
        with pytest.raises(LeaseLostError):
            failed.fail(replace(FAILURE, message="yes"))
        assert store.trials(study) == before

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
    def test_values_that_are_not_finite_never_reach_the_store(
        self, make_door: DoorMaker, store: Store, study: StudyRecord, bad: float
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        with pytest.raises(ValueError, match="values must be finite"):
            trial.complete(replace(VALUES, training_seconds=bad))
        assert store.trials(study)[0].values is None


class TestEpochs:
    def test_an_epoch_is_stored_with_its_claim_and_replaced_when_trained_again(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        first = ClaimedTrial(store, claimed(door))
        first.begin_run(0, seed=5, setting=SETTING, fresh=False)
        first.store_epoch(0, METRICS, setting=SETTING)
        first.store_epoch(0, replace(METRICS, epoch=2), setting=SETTING)
        first.release()
        second = ClaimedTrial(store, claimed(door))
        second.begin_run(0, seed=5, setting=SETTING, fresh=False)
        second.forget_epochs_after(0, 1)
        second.store_epoch(0, replace(METRICS, epoch=2, accuracy=0.95), setting=SETTING)
        (trial,) = store.trials(study, epochs=True)
        assert [(e.metrics.epoch, e.token, e.metrics.accuracy) for e in trial.epochs] == [
            (1, 1, 0.9),
            (2, 2, 0.95),
        ]
        assert trial.epochs[0].metrics == METRICS
        assert trial.runs[0].bit_equal
        assert trial.runs[0].seed == 5

    def test_going_on_under_another_setting_is_marked(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        trial.begin_run(0, seed=0, setting=SETTING, fresh=False)
        trial.begin_run(0, seed=0, setting=replace(SETTING, torch_version="2.15"), fresh=False)
        (record,) = store.trials(study)
        assert not record.runs[0].bit_equal
        assert record.runs[0].setting == SETTING

    def test_beginning_again_from_the_first_epoch_forgets_the_earlier_setting(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        other = replace(SETTING, device="cuda", device_name="a card")
        trial.begin_run(0, seed=0, setting=SETTING, fresh=True)
        trial.begin_run(0, seed=0, setting=other, fresh=True)
        (record,) = store.trials(study)
        assert record.runs[0].bit_equal
        assert record.device == "a card"


class TestWhatEveryDatabaseTakes:
    def test_texts_of_an_error_may_hold_nul_and_halves_of_characters(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        odd = Failure("E\0", "a\0b \udcff é €", "line\0\n\ud800", "lo\udce9g")
        ClaimedTrial(store, claimed(door)).fail(odd)
        door.settle()
        (trial,) = store.trials(study)
        assert trial.failure == Failure("E", "ab ? é €", "line\n?", "lo?g")

    def test_a_process_may_have_begun_long_after_the_boot(
        self,
        make_door: DoorMaker,
        store: Store,
        study: StudyRecord,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # In ticks of 10 ms, 2^31 is an uptime of 248 days.
        late = replace(ProcessIdentity.current(), process_start=2**31 + 7)
        monkeypatch.setattr(ProcessIdentity, "current", classmethod(lambda cls: late))
        claimed(make_door())
        (lease,) = store.leases(study)
        assert lease.process_start == 2**31 + 7

    def test_a_seed_may_be_large(
        self, make_door: DoorMaker, store: Store, location: Location, study: StudyRecord
    ) -> None:
        largest = replace(study.definition, name="largest", runs_per_trial=2)
        entered = enter_study(location, largest, seed=2**31 - 1, budget=1)
        assert entered.seed == 2**31 - 1
        trial = ClaimedTrial(store, claimed(make_door(of=entered)))
        for run in (0, 1):
            trial.begin_run(run, seed=entered.seed + run, setting=SETTING, fresh=True)
        (record,) = store.trials(entered)
        assert [run.seed for run in record.runs] == [2_147_483_647, 2_147_483_648]
