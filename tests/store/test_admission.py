from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import LeaseLostError, StoreError, StudyMismatchError
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.store.admission import Door, Duty
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import Claim, ClaimedTrial
from fastrcaps_search.store.place import Location, locate
from fastrcaps_search.store.records import Failure, StudyRecord, TrialState, Values
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.summary import untested_front

VALUES = Values(0.9, 2.0, 61_706)
SETTING = RunSetting("cpu", "CPU", "2.14", "fp32", 1, "eager")
METRICS = EpochMetrics(1, 16, 1e-3, 1e-3, 0.5, 0.4, 0.1, 0.8, 0.9, 2.0, 0.1, 4, 64)

CLAIM_AND_WAIT = """
import sys
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.place import locate
from fastrcaps_search.store.store import Store
location = locate(sys.argv[1])
store = Store.writing(location)
door = Door(store, store.study("tiny"), worker="child", device="cpu", propose=propose)
print(door.next().claim.number, flush=True)
input()
"""

CLAIM_ALL = """
import sys
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.admission import Door, Duty
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import locate
from fastrcaps_search.store.records import Values
from fastrcaps_search.store.store import Store
store = Store.writing(locate(sys.argv[1]))
door = Door(store, store.study("tiny"), worker=sys.argv[2], device="cpu", propose=propose)
while True:
    admitted = door.next()
    if admitted.claim is None or admitted.duty is not Duty.TRAIN:
        break
    ClaimedTrial(store, admitted.claim).complete(Values(0.5, 1.0 + admitted.claim.number, 10.0))
    door.settle()
"""


def claimed(door: Door) -> Claim:
    admitted = door.next()
    assert admitted.duty is Duty.TRAIN
    assert admitted.claim is not None
    return admitted.claim


def child(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class TestEntering:
    def test_the_definition_comes_back_as_it_was(
        self, store: Store, study: StudyRecord, definition: StudyDefinition
    ) -> None:
        assert study.definition == definition
        assert (study.seed, study.budget) == (0, 4)
        assert store.study_names() == ["tiny"]

    def test_the_budget_only_grows(
        self, location: Location, study: StudyRecord, definition: StudyDefinition
    ) -> None:
        assert enter_study(location, definition, seed=None, budget=2).budget == 4
        assert enter_study(location, definition, seed=None, budget=9).budget == 9

    def test_before_the_first_trial_it_may_be_defined_anew(
        self, location: Location, study: StudyRecord, definition: StudyDefinition
    ) -> None:
        changed = replace(definition, epochs=3)
        again = enter_study(location, changed, seed=5, budget=2)
        assert (again.definition, again.seed, again.budget) == (changed, 5, 2)
        assert again.study_id == study.study_id

    def test_another_space_is_refused_with_the_difference(
        self,
        location: Location,
        study: StudyRecord,
        definition: StudyDefinition,
        make_door: Callable[..., Door],
    ) -> None:
        claimed(make_door())
        assert definition.space is not None
        changed = replace(
            definition, epochs=3, space=replace(definition.space, adabatch_exponent=(2, 4))
        )
        with pytest.raises(StudyMismatchError) as error:
            enter_study(location, changed, seed=None, budget=4)
        assert (
            "epochs: stored 2, asked 3; space.adabatch_exponent: stored [2, 3], asked [2, 4]"
            in str(error.value)
        )

    def test_another_seed_is_refused(
        self,
        location: Location,
        study: StudyRecord,
        definition: StudyDefinition,
        make_door: Callable[..., Door],
    ) -> None:
        claimed(make_door())
        with pytest.raises(StudyMismatchError, match="seed: stored 0, asked 7"):
            enter_study(location, definition, seed=7, budget=4)

    def test_a_database_of_something_else_is_left_alone(
        self, location: Location, definition: StudyDefinition
    ) -> None:
        connection = sqlite3.connect(location.path)
        connection.execute("create table recipes (name text)")
        connection.commit()
        connection.close()
        before = location.path.read_bytes()
        with pytest.raises(StoreError, match="got one with the tables recipes"):
            enter_study(location, definition, seed=None, budget=4)
        assert location.path.read_bytes() == before

    def test_a_file_that_is_no_database_is_left_alone(
        self, location: Location, definition: StudyDefinition
    ) -> None:
        location.path.write_text("not a database, but a letter of some length" * 10)
        before = location.path.read_bytes()
        with pytest.raises(StoreError, match="must be an SQLite database"):
            enter_study(location, definition, seed=None, budget=4)
        assert location.path.read_bytes() == before

    def test_tables_of_another_version_are_refused(
        self, location: Location, study: StudyRecord, definition: StudyDefinition
    ) -> None:
        connection = sqlite3.connect(location.path)
        connection.execute("update fastrcaps_schema set version = 99")
        connection.commit()
        connection.close()
        with pytest.raises(
            StoreError, match="must have tables of version 3 or older, got version 99"
        ):
            enter_study(location, definition, seed=None, budget=4)

    def test_another_programs_study_of_that_name_is_refused(
        self, location: Location, definition: StudyDefinition
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        other = optuna.create_study(study_name="tiny", storage=location.url)
        other.add_trial(optuna.create_trial(value=1.0))
        other._storage.remove_session()
        with pytest.raises(StoreError, match="another program's study"):
            enter_study(location, definition, seed=None, budget=4)


class TestClaiming:
    def test_trials_are_numbered_and_different_until_the_budget_is_met(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        claims = [claimed(door) for _ in range(4)]
        assert [claim.number for claim in claims] == [0, 1, 2, 3]
        assert len({claim.configuration_key for claim in claims}) == 4
        assert door.next().duty is Duty.WAIT
        for claim in claims:
            ClaimedTrial(store, claim).complete(VALUES)
        assert door.next().duty is Duty.TEST

    def test_a_claim_stores_all_parameters_and_the_lease_at_once(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        claim = claimed(make_door())
        (trial,) = store.trials(study)
        assert trial.parameters == claim.parameters
        assert trial.state is TrialState.RUNNING
        (lease,) = store.leases(study)
        assert (lease.number, lease.token, lease.pid) == (0, 1, os.getpid())

    def test_an_interrupted_trial_comes_before_a_new_one(
        self, make_door: Callable[..., Door], store: Store
    ) -> None:
        door = make_door()
        first = claimed(door)
        claimed(door)
        ClaimedTrial(store, first).release()
        again = claimed(door)
        assert (again.number, again.token) == (first.number, 2)
        assert again.parameters == first.parameters

    def test_the_trial_of_a_killed_worker_is_free_at_once(
        self, make_door: Callable[..., Door], location: Location, study: StudyRecord
    ) -> None:
        worker = child(CLAIM_AND_WAIT, str(location.path))
        assert worker.stdout is not None
        assert worker.stdout.readline() == "0\n"
        door = make_door()
        assert claimed(door).number == 1  # number 0 is held
        worker.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        again = claimed(door)
        assert (again.number, again.token) == (0, 2)
        worker.communicate()

    def test_processes_at_once_share_the_budget_exactly(
        self, location: Location, study: StudyRecord, store: Store, definition: StudyDefinition
    ) -> None:
        enter_study(location, definition, seed=None, budget=12)
        workers = [child(CLAIM_ALL, str(location.path), f"w{i}") for i in range(4)]
        assert [worker.wait() for worker in workers] == [0, 0, 0, 0]
        trials = store.trials(study)
        assert [trial.number for trial in trials] == list(range(12))
        assert {trial.state for trial in trials} == {TrialState.COMPLETE}
        assert len({trial.configuration_key for trial in trials}) == 12
        for worker in workers:
            worker.communicate()

    def test_the_space_ends_before_the_budget(
        self,
        location: Location,
        definition: StudyDefinition,
        make_door: Callable[..., Door],
        store: Store,
        study: StudyRecord,
    ) -> None:
        # 4 policies x (constant + 2 exponents) + warm_adabatch x 2 = 14, but with 2 epochs and the
        # boundary 1, warm_restarts+adabatch is the very training of warm_adabatch: 12 remain.
        enter_study(location, definition, seed=None, budget=50)
        door = make_door()
        for _ in range(12):
            ClaimedTrial(store, claimed(door)).fail(Failure("E", "no", "", ""))
        assert door.next().duty is Duty.EXHAUSTED


class TestFencing:
    def test_a_worker_that_lost_its_trial_can_write_nothing(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        old = ClaimedTrial(store, claimed(door))
        old.begin_run(0, seed=0, setting=SETTING, fresh=False)
        old.release()
        new = ClaimedTrial(store, claimed(door))
        attempts: list[Callable[[], None]] = [
            lambda: old.begin_run(1, seed=0, setting=SETTING, fresh=False),
            lambda: old.store_epoch(0, METRICS, setting=SETTING),
            lambda: old.forget_epochs_after(0, 0),
            lambda: old.finish_run(0, RunResult(0.1, 1.0, 5, 1)),
            lambda: old.complete(VALUES),
            lambda: old.fail(Failure("E", "no", "", "")),
            lambda: old.store_test_accuracy(0, 0.1),
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
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        trial.complete(VALUES)
        with pytest.raises(LeaseLostError):
            trial.fail(Failure("E", "no", "", ""))
        assert store.trials(study)[0].state is TrialState.COMPLETE

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
    def test_values_that_are_not_finite_never_reach_the_store(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord, bad: float
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        with pytest.raises(ValueError, match="values must be finite"):
            trial.complete(replace(VALUES, training_seconds=bad))
        assert store.trials(study)[0].values is None


class TestEpochs:
    def test_an_epoch_is_stored_with_its_claim_and_replaced_when_trained_again(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
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
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        trial.begin_run(0, seed=0, setting=SETTING, fresh=False)
        trial.begin_run(0, seed=0, setting=replace(SETTING, torch_version="2.15"), fresh=False)
        (record,) = store.trials(study)
        assert not record.runs[0].bit_equal
        assert record.runs[0].setting == SETTING

    def test_beginning_again_from_the_first_epoch_forgets_the_earlier_setting(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        trial = ClaimedTrial(store, claimed(make_door()))
        other = replace(SETTING, device="cuda", device_name="a card")
        trial.begin_run(0, seed=0, setting=SETTING, fresh=True)
        trial.begin_run(0, seed=0, setting=other, fresh=True)
        (record,) = store.trials(study)
        assert record.runs[0].bit_equal
        assert record.device == "a card"


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
        self, make_door: Callable[..., Door], store: Store, epoch: Callable[[ClaimedTrial], int]
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
        self, make_door: Callable[..., Door], store: Store, epoch: Callable[[ClaimedTrial], int]
    ) -> None:
        other = make_door("w1")
        second = self.begun(store, other)
        first = self.begun(store, make_door())
        second.complete(VALUES)
        assert epoch(first) == 2
        third = self.begun(store, other)
        assert epoch(first) == 2
        third.fail(Failure("E", "no", "", ""))
        assert epoch(first) == 2
        assert epoch(first) == 1

    def test_a_worker_that_waits_does_not_count(
        self,
        location: Location,
        make_door: Callable[..., Door],
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
        make_door: Callable[..., Door],
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
        location: Location,
        make_door: Callable[..., Door],
        store: Store,
        epoch: Callable[[ClaimedTrial], int],
    ) -> None:
        self.begun(store, make_door("w1"))
        connection = sqlite3.connect(location.path)
        connection.execute("update fastrcaps_leases set host = 'elsewhere'")
        connection.commit()
        connection.close()
        assert epoch(self.begun(store, make_door())) == 1

    def test_a_killed_worker_no_longer_counts(
        self,
        make_door: Callable[..., Door],
        store: Store,
        location: Location,
        epoch: Callable[[ClaimedTrial], int],
    ) -> None:
        worker = child(CLAIM_AND_WAIT, str(location.path))
        assert worker.stdout is not None
        assert worker.stdout.readline() == "0\n"
        first = self.begun(store, make_door())
        assert epoch(first) == 2
        worker.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        assert epoch(first) == 2  # it trained at the start
        assert epoch(first) == 1  # although its lease is still there
        worker.communicate()


class TestTesting:
    def test_only_the_front_is_tested_and_once(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        for accuracy, seconds in [(0.9, 5.0), (0.8, 6.0), (0.7, 1.0), (0.9, 5.0)]:
            trial = ClaimedTrial(store, claimed(door))
            trial.begin_run(0, seed=0, setting=SETTING, fresh=False)
            trial.finish_run(0, RunResult(accuracy, seconds, 10, 1))
            trial.complete(Values(accuracy, seconds, 10))
        tested = []
        while (admitted := door.next()).duty is Duty.TEST:
            assert admitted.claim is not None
            tested.append(admitted.claim.number)
            trial = ClaimedTrial(store, admitted.claim)
            trial.store_test_accuracy(0, 0.85)
            trial.store_test_accuracy(0, 0.1)  # a second reading changes nothing
            trial.release()
        assert sorted(tested) == [0, 2, 3]
        assert admitted.duty is Duty.DONE
        found = store.trials(study)
        assert [trial.test_accuracy for trial in found] == [0.85, None, 0.85, 0.85]
        assert untested_front(study, found) == []

    def test_a_study_that_evaluates_on_the_test_set_has_nothing_left_to_test(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord
    ) -> None:
        ClaimedTrial(store, claimed(make_door())).complete(VALUES)
        on_test = StudyDefinition.from_dict({**study.definition.to_dict(), "evaluate_on": "test"})
        trials = store.trials(study)
        assert untested_front(study, trials) == [0]
        assert untested_front(replace(study, definition=on_test), trials) == []


class TestMirror:
    def load(self, location: Location) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.load_study(study_name="tiny", storage=location.url)

    def test_optuna_reads_the_study_with_its_objectives(
        self, make_door: Callable[..., Door], store: Store, location: Location
    ) -> None:
        door = make_door()
        first = claimed(door)
        ClaimedTrial(store, first).complete(VALUES)
        ClaimedTrial(store, claimed(door)).fail(Failure("E", "diverged at epoch 2", "", ""))
        claimed(door)
        door.settle()
        theirs = self.load(location)
        assert [d.name for d in theirs.directions] == ["MAXIMIZE", "MINIMIZE", "MINIMIZE"]
        assert theirs.metric_names == ["accuracy", "training_seconds", "parameters"]
        assert [t.state.name for t in theirs.trials] == ["COMPLETE", "FAIL", "RUNNING"]
        assert theirs.trials[0].values == [0.9, 2.0, 61_706]
        assert theirs.trials[0].params == first.parameters.to_dict()
        assert theirs.trials[1].user_attrs["reason"] == "diverged at epoch 2"

    def test_what_a_killed_process_left_untold_is_mended(
        self, make_door: Callable[..., Door], store: Store, location: Location
    ) -> None:
        door = make_door()
        ClaimedTrial(store, claimed(door)).complete(VALUES)
        assert self.load(location).trials[0].state.name == "RUNNING"
        claimed(door)
        assert self.load(location).trials[0].values == [0.9, 2.0, 61_706]

    def test_trials_that_another_program_adds_do_not_count(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord, location: Location
    ) -> None:
        self.load(location).ask()
        door = make_door()
        numbers = []
        for _ in range(4):
            trial = claimed(door)
            numbers.append(trial.number)
            ClaimedTrial(store, trial).complete(VALUES)
        door.settle()
        assert numbers == [0, 1, 2, 3]
        states = Counter(trial.state.name for trial in self.load(location).trials)
        assert states == {"COMPLETE": 4, "RUNNING": 1}

    def test_a_study_that_was_deleted_there_comes_back(
        self,
        make_door: Callable[..., Door],
        store: Store,
        location: Location,
        definition: StudyDefinition,
    ) -> None:
        door = make_door()
        ClaimedTrial(store, claimed(door)).complete(VALUES)
        door.settle()
        optuna.delete_study(study_name="tiny", storage=location.url)
        claimed(door)
        assert [t.state.name for t in self.load(location).trials] == ["COMPLETE", "RUNNING"]
        other = replace(definition, name="other")
        assert enter_study(location, other, seed=None, budget=1).name == "other"

    def test_an_end_that_another_program_set_does_not_change_ours(
        self, make_door: Callable[..., Door], store: Store, study: StudyRecord, location: Location
    ) -> None:
        door = make_door()
        trial = ClaimedTrial(store, claimed(door))
        self.load(location).tell(0, state=optuna.trial.TrialState.FAIL)
        trial.complete(VALUES)
        door.settle()
        assert store.trials(study)[0].values == VALUES


def test_an_absent_folder_is_made(tmp_path: Path, definition: StudyDefinition) -> None:
    location = locate(str(tmp_path / "new" / "folder" / "a.db"))
    assert enter_study(location, definition, seed=3, budget=1).seed == 3
