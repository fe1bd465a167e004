from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.records import Failure, StudyRecord, TrialState, Values
from fastrcaps_search.store.store import Store
from tests.store.workers import (
    FAILURE,
    METRICS,
    SETTING,
    VALUES,
    Clock,
    claimed,
    fail,
    result_of,
    run_of,
)

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker


class TestFencing:
    def test_a_worker_that_lost_its_run_can_write_nothing(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        old = RunLease(store, claimed(queue))
        old.begin(SETTING, fresh=False)
        old.release()
        new = RunLease(store, claimed(queue))
        attempts: list[Callable[[], object]] = [
            lambda: old.begin(SETTING, fresh=False),
            lambda: old.store_epoch(METRICS, setting=SETTING),
            lambda: old.forget_epochs_after(0),
            lambda: old.finish(result_of()),
            lambda: old.fail(FAILURE, ends_trial=True),
            lambda: old.store_test_accuracy(0.1),
            old.note_device_fault,
        ]
        for attempt in attempts:
            with pytest.raises(LeaseLostError, match="another worker has taken it over"):
                attempt()
        assert not old.renew()
        old.release()  # must not take the new holder's lease away
        assert [lease.token for lease in store.leases(study)] == [2]
        (trial,) = store.trials(study, epochs=True)
        assert (trial.state, trial.values, trial.epochs) == (TrialState.RUNNING, None, ())
        new.finish(result_of())
        assert store.trials(study)[0].values == VALUES

    def test_a_finished_run_cannot_be_finished_again(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        lease = RunLease(store, claimed(make_queue()))
        lease.finish(result_of())
        attempts: list[Callable[[], None]] = [
            lambda: lease.fail(FAILURE, ends_trial=True),
            lambda: lease.finish(result_of(Values({**VALUES, "accuracy": 0.91}))),
        ]
        for attempt in attempts:
            with pytest.raises(LeaseLostError):
                attempt()
        (record,) = store.trials(study)
        assert (record.state, record.values) == (TrialState.COMPLETE, VALUES)

    def test_the_same_end_may_come_twice_for_an_answer_that_was_lost(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        done, failed = (RunLease(store, claimed(queue)) for _ in range(2))
        done.finish(result_of())
        failed.fail(FAILURE, ends_trial=True)
        before = store.trials(study)
        done.finish(result_of())
        failed.fail(FAILURE, ends_trial=True)
        assert store.trials(study) == before
        with pytest.raises(LeaseLostError):
            failed.fail(replace(FAILURE, message="yes"), ends_trial=True)
        assert store.trials(study) == before

    def test_a_worker_that_lost_its_run_has_not_ended_it_even_with_the_same_values(
        self, make_queue: QueueMaker, store: Store, clock: Clock
    ) -> None:
        late = RunLease(store, claimed(make_queue("late")))
        clock.kill()
        RunLease(store, claimed(make_queue("next"))).finish(result_of())
        with pytest.raises(LeaseLostError):
            late.finish(result_of())

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
    def test_values_that_are_not_finite_never_reach_the_store(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord, bad: float
    ) -> None:
        lease = RunLease(store, claimed(make_queue()))
        with pytest.raises(ValueError, match="values must be finite"):
            lease.finish(result_of(Values({**VALUES, "training_seconds": bad})))
        assert not run_of(store, study).has_ended


class TestEpochs:
    def test_an_epoch_is_stored_with_its_claim_and_replaced_when_trained_again(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        first = RunLease(store, claimed(queue))
        first.begin(SETTING, fresh=False)
        first.store_epoch(METRICS, setting=SETTING)
        first.store_epoch(replace(METRICS, epoch=2), setting=SETTING)
        first.release()
        second = RunLease(store, claimed(queue))
        second.begin(SETTING, fresh=False)
        second.forget_epochs_after(1)
        second.store_epoch(replace(METRICS, epoch=2, accuracy=0.95), setting=SETTING)
        (trial,) = store.trials(study, epochs=True)
        assert [(e.metrics.epoch, e.token, e.metrics.accuracy) for e in trial.epochs] == [
            (1, 1, 0.9),
            (2, 2, 0.95),
        ]
        assert trial.epochs[0].metrics == METRICS
        assert trial.runs[0].bit_equal

    def test_going_on_under_another_setting_is_marked(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        lease = RunLease(store, claimed(make_queue()))
        lease.begin(SETTING, fresh=False)
        lease.begin(replace(SETTING, torch_version="2.15"), fresh=False)
        (record,) = store.trials(study)
        assert not record.runs[0].bit_equal
        assert record.runs[0].setting == SETTING

    def test_beginning_again_from_the_first_epoch_forgets_the_earlier_setting(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        lease = RunLease(store, claimed(make_queue()))
        other = replace(SETTING, device="cuda", device_name="a card")
        lease.begin(SETTING, fresh=True)
        lease.begin(other, fresh=True)
        (record,) = store.trials(study)
        assert record.runs[0].bit_equal
        assert record.device == "a card"


class TestWhatEveryDatabaseTakes:
    def test_texts_of_an_error_may_hold_nul_and_halves_of_characters(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        odd = Failure("E\0", "a\0b \udcff é €", "line\0\n\ud800", "lo\udce9g")
        fail(store, claimed(make_queue()), odd)
        (trial,) = store.trials(study)
        assert trial.failure == Failure("E", "ab \\udcff é €", "line\n\\ud800", "lo\\udce9g")

    def test_a_process_may_have_begun_long_after_the_boot(
        self,
        make_queue: QueueMaker,
        store: Store,
        study: StudyRecord,
    ) -> None:
        # In ticks of 10 ms, 2^31 is an uptime of 248 days.
        late = replace(ProcessIdentity.current(), process_start=2**31 + 7)
        claimed(make_queue(_me=late))
        (lease,) = store.leases(study)
        assert lease.process_start == 2**31 + 7

    def test_a_seed_may_be_large(
        self, make_queue: QueueMaker, store: Store, location: Location, study: StudyRecord
    ) -> None:
        largest = replace(study.definition, name="largest", runs_per_trial=2)
        entered = enter_study(location, largest, seed=2**31 - 1, budget=1)
        assert entered.seed == 2**31 - 1
        queue = make_queue(of=entered)
        seeds = [2_147_483_647, 2_147_483_648]
        assert [claimed(queue).key.run for _ in seeds] == [0, 1]
        (record,) = store.trials(entered)
        assert [run.seed for run in record.runs] == seeds
