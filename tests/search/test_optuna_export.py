from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import optuna
import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import Failure, StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import VALUES, claimed

if TYPE_CHECKING:
    from tests.store.conftest import DoorMaker, OptunaOpener

Loader = Callable[[], optuna.Study]


class TestMirror:
    @pytest.fixture
    def load(self, open_optuna: OptunaOpener) -> Loader:
        """Loads the study as another program does."""
        return lambda: optuna.load_study(study_name="tiny", storage=open_optuna())

    def test_optuna_reads_the_study_with_its_objectives(
        self, make_door: DoorMaker, store: Store, load: Loader
    ) -> None:
        door = make_door()
        first = claimed(door)
        ClaimedTrial(store, first).complete(VALUES)
        ClaimedTrial(store, claimed(door)).fail(Failure("E", "diverged at epoch 2", "", ""))
        claimed(door)
        door.settle()
        theirs = load()
        assert [d.name for d in theirs.directions] == ["MAXIMIZE", "MINIMIZE", "MINIMIZE"]
        assert theirs.metric_names == ["accuracy", "training_seconds", "parameters"]
        assert [t.state.name for t in theirs.trials] == ["COMPLETE", "FAIL", "RUNNING"]
        assert theirs.trials[0].values == [0.9, 2.0, 61_706]
        assert theirs.trials[0].params == first.parameters.to_dict()
        assert theirs.trials[1].user_attrs["reason"] == "diverged at epoch 2"

    def test_what_a_killed_process_left_untold_is_mended(
        self, make_door: DoorMaker, store: Store, load: Loader
    ) -> None:
        door = make_door()
        ClaimedTrial(store, claimed(door)).complete(VALUES)
        assert load().trials[0].state.name == "RUNNING"
        claimed(door)
        assert load().trials[0].values == [0.9, 2.0, 61_706]

    def test_trials_that_another_program_adds_do_not_count(
        self, make_door: DoorMaker, store: Store, study: StudyRecord, load: Loader
    ) -> None:
        load().ask()
        door = make_door()
        numbers = []
        for _ in range(4):
            trial = claimed(door)
            numbers.append(trial.number)
            ClaimedTrial(store, trial).complete(VALUES)
        door.settle()
        assert numbers == [0, 1, 2, 3]
        states = Counter(trial.state.name for trial in load().trials)
        assert states == {"COMPLETE": 4, "RUNNING": 1}

    def test_a_study_that_was_deleted_there_comes_back(
        self,
        make_door: DoorMaker,
        store: Store,
        location: Location,
        definition: StudyDefinition,
        open_optuna: OptunaOpener,
        load: Loader,
    ) -> None:
        door = make_door()
        ClaimedTrial(store, claimed(door)).complete(VALUES)
        door.settle()
        optuna.delete_study(study_name="tiny", storage=open_optuna())
        claimed(door)
        assert [t.state.name for t in load().trials] == ["COMPLETE", "RUNNING"]
        other = replace(definition, name="other")
        assert enter_study(location, other, seed=None, budget=1).name == "other"

    def test_an_end_that_another_program_set_does_not_change_ours(
        self, make_door: DoorMaker, store: Store, study: StudyRecord, load: Loader
    ) -> None:
        door = make_door()
        trial = ClaimedTrial(store, claimed(door))
        load().tell(0, state=optuna.trial.TrialState.FAIL)
        trial.complete(VALUES)
        door.settle()
        assert store.trials(study)[0].values == VALUES
