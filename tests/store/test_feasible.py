"""Feasible trials: what counts, what is set aside by hand, and all that goes by it."""

from __future__ import annotations

import getpass
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import optuna
import pytest
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.duties import Duty

from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.analysis.remaining_work import due_repeats, untested_front
from fastrcaps_search.analysis.rows import choosable_rows, front_rows, trial_rows
from fastrcaps_search.analysis.summary import summarise
from fastrcaps_search.analysis.uncertainty import near_front_numbers
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import NothingFitsError, UsageError
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.feasibility import infeasible_reason
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import Failure, SetAside, StudyRecord, Values
from fastrcaps_search.store.removal import give_up_networks
from fastrcaps_search.store.setting_aside import exclude, include
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete, trial_of

if TYPE_CHECKING:
    from tests.store.conftest import DoorMaker, OptunaOpener

# Of 500 images, 50 of each class: 73 right answers are better than guessing, 72 are not (scipy's
# binom.sf(72, 500, 0.1) is 0.0008 and sf(71, ...) 0.0012).
GUESSING, LEARNED = 72 / 500, 73 / 500
QUICK_GUESS = Values(GUESSING, 1.0, 10)


@pytest.fixture
def door(make_door: DoorMaker, store: Store) -> Door:
    """The door to a study of a quick guess, two trials on the front and one behind it."""
    door = make_door()
    for values in (QUICK_GUESS, Values(0.9, 5.0, 10), Values(0.8, 2.0, 10), Values(0.7, 6.0, 10)):
        complete(store, claimed(door), values)
    return door


class TestReason:
    @pytest.fixture
    def strict(self, definition: StudyDefinition) -> StudyDefinition:
        return replace(definition, min_accuracy=0.97)

    def test_the_bound_itself_is_feasible(self, definition: StudyDefinition) -> None:
        def reason(accuracy: float) -> str | None:
            return infeasible_reason(definition, Values(accuracy, 1.0, 1), None)

        assert reason(GUESSING) == "not better than guessing"
        assert reason(float("nan")) == "not better than guessing"
        assert reason(LEARNED) is None
        # Means over runs: 72 and 73, 73 and 73.
        assert reason((GUESSING + LEARNED) / 2) == "not better than guessing"
        assert reason((LEARNED + LEARNED) / 2) is None

    def test_a_study_may_ask_for_more(self, strict: StudyDefinition) -> None:
        def reason(accuracy: float) -> str | None:
            return infeasible_reason(strict, Values(accuracy, 1.0, 1), None)

        assert reason(0.1) == "not better than guessing"
        assert reason(0.9699) == "accuracy below the study's min_accuracy 97 %"
        assert reason(0.97) is None

    def test_who_set_it_aside_and_why_comes_first(self, strict: StudyDefinition) -> None:
        aside = SetAside("ann", "desk", "the fan was off", 5.0)
        for accuracy in (0.1, 0.99):
            found = infeasible_reason(strict, Values(accuracy, 1.0, 1), aside)
            assert found == "set aside by ann: the fan was off"


class TestGuessing:
    def test_it_is_complete_but_on_no_front(
        self, door: Door, store: Store, study: StudyRecord
    ) -> None:
        trials = store.trials(study)
        assert front_numbers(trials) == near_front_numbers(trials) == [1, 2]
        summary = summarise(study, trials, [])
        assert (summary.complete, summary.infeasible) == (4, 1)
        assert summary.hypervolume == summarise(study, trials[1:], []).hypervolume
        guess, first = trial_rows(trials)[:2]
        assert (guess["state"], guess["feasible"]) == ("complete", False)
        assert guess["reason"] == "not better than guessing"
        assert "front_probability" not in guess
        assert (first["feasible"], first["front_probability"], "reason" in first) == (
            *(True, None),
            False,
        )

    def test_it_is_neither_repeated_nor_tested(
        self, door: Door, store: Store, study: StudyRecord
    ) -> None:
        trials = store.trials(study)
        assert [trial.number for trial in due_repeats(trials, 2)] == [1, 2]
        assert untested_front(study, trials) == [1, 2]
        tested = [door.next() for _ in range(2)]
        assert [(t.duty, t.claim and t.claim.number) for t in tested] == [
            (Duty.TEST, 1),
            (Duty.TEST, 2),
        ]
        assert door.next().duty is Duty.WAIT

    def test_its_network_is_not_kept(self, door: Door, store: Store, study: StudyRecord) -> None:
        # Trial 3 is on the next front behind, which a guess is on neither.
        assert [number for number, _ in give_up_networks(store, study)] == [0]

    def test_where_all_guess_there_is_nothing_to_choose(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        complete(store, claimed(door), QUICK_GUESS)
        complete(store, claimed(door), Values(0.9, 1.0, 10))
        exclude(store, study, 1, why="a test")
        trials = store.trials(study)
        assert front_rows(trials) == []
        with pytest.raises(NothingFitsError) as refused:
            choosable_rows(trials)
        assert str(refused.value) == (
            "the trial must be feasible, but none of the 2 complete trials is: "
            f"1 not better than guessing, 1 set aside by {getpass.getuser()}: a test; "
            "run more trials"
        )


class TestSetAside:
    def test_it_leaves_and_comes_back(self, door: Door, store: Store, study: StudyRecord) -> None:
        before = store.trials(study)
        exclude(store, study, 1, why="trained beside a backup")
        trials = store.trials(study)
        # Trial 2 beats trial 3 as well.
        assert front_numbers(trials) == [2]
        aside = trials[1].set_aside
        assert aside is not None
        assert (aside.by, aside.why) == (getpass.getuser(), "trained beside a backup")
        assert aside.host == platform.node()
        assert abs(aside.at - time.time()) < 600
        row = trial_rows(trials)[1]
        assert row["feasible"] is False
        assert row["reason"] == f"set aside by {aside.by}: trained beside a backup"
        assert row["set_aside"] == {
            "by": aside.by,
            "host": aside.host,
            "why": "trained beside a backup",
            "at": aside.at,
        }
        include(store, study, 1)
        assert store.trials(study) == before

    def test_a_worker_that_is_at_work_sees_it(
        self, door: Door, store: Store, study: StudyRecord, location: Location
    ) -> None:
        enter_study(location, study.definition, seed=None, budget=4, repeats=2)
        held = [door.next().claim for _ in range(2)]
        # What is due is remembered between two questions, as long as nothing changes.
        assert door.next().duty is Duty.WAIT
        for claim in held:
            assert claim is not None
            ClaimedTrial(store, claim).release()
        exclude(store, study, 1, why="a test")
        admitted = door.next()
        assert admitted.duty is Duty.REPEAT
        assert admitted.claim is not None
        assert admitted.claim.number == 2
        include(store, study, 1)
        other = door.next()
        assert other.claim is not None
        assert (other.duty, other.claim.number) == (Duty.REPEAT, 1)

    def test_its_network_is_kept_for_it_may_come_back(
        self, door: Door, store: Store, study: StudyRecord
    ) -> None:
        exclude(store, study, 1, why="a test")
        assert [number for number, _ in give_up_networks(store, study)] == [0]
        assert not any(run.removed for run in trial_of(store, study, 1).runs)
        include(store, study, 1)
        assert [number for number, _ in give_up_networks(store, study)] == [0]

    def test_the_network_of_a_trial_that_comes_to_the_front_is_there(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        for accuracy, seconds in ((0.9, 1.0), (0.8, 2.0), (0.7, 3.0), (0.6, 4.0)):
            complete(store, claimed(door), Values(accuracy, seconds, 10))
        assert [number for number, _ in give_up_networks(store, study)] == [2, 3]
        assert exclude(store, study, 0, why="a test") == []
        trials = store.trials(study)
        assert front_numbers(trials) == untested_front(study, trials) == [1]
        # What comes from further behind is named.
        assert exclude(store, study, 1, why="a test") == [2]
        trials = store.trials(study)
        assert (front_numbers(trials), untested_front(study, trials)) == ([2], [])

    def test_a_second_reason_replaces_the_first(
        self, door: Door, store: Store, study: StudyRecord
    ) -> None:
        for why in ("first", "second"):
            exclude(store, study, 1, why=why)
        aside = trial_of(store, study, 1).set_aside
        assert aside is not None
        assert aside.why == "second"

    @pytest.mark.parametrize(
        ("number", "message"),
        [
            (4, "trial must be one of tiny, got 4; `fastrcaps-search trials --study tiny` lists"),
            (-1, "trial must be one of tiny, got -1"),
            (2**70, "trial must be one of tiny, got 1180591620717411303424"),
            ("1", 'trial must be one of tiny, got "1"'),
        ],
    )
    def test_an_unknown_trial_is_refused(
        self, door: Door, store: Store, study: StudyRecord, number: int, message: str
    ) -> None:
        changes: list[Callable[[], object]] = [
            lambda: exclude(store, study, number, why="a test"),
            lambda: include(store, study, number),
        ]
        for change in changes:
            with pytest.raises(UsageError) as refused:
                change()
            assert message in str(refused.value)

    def test_only_a_complete_trial_is_excluded_and_only_an_excluded_one_included(
        self, make_door: DoorMaker, store: Store, study: StudyRecord
    ) -> None:
        door = make_door()
        running = ClaimedTrial(store, claimed(door))
        with pytest.raises(UsageError, match="complete to be excluded, but trial 0 of tiny"):
            exclude(store, study, 0, why="a test")
        running.fail(Failure("E", "no", "", ""))
        with pytest.raises(UsageError, match="trial 0 of tiny is failed; only complete ones"):
            exclude(store, study, 0, why="a test")
        complete(store, claimed(door))
        with pytest.raises(UsageError, match="but trial 1 of tiny was not; `fastrcaps-search tri"):
            include(store, study, 1)

    @pytest.mark.parametrize(
        ("why", "message"),
        [
            ("", 'why must be a reason in one line of printable characters, got ""'),
            (" ", 'in one line of printable characters, got " "'),
            ("two\nlines", r'printable characters, got "two\nlines"'),
            ("\x1b[31mred", r'printable characters, got "\x1b[31mred"'),
            ("\ud800", r"printable characters, got "),
            ("x" * 201, "why must have at most 200 characters, got 201; shorten it"),
        ],
    )
    def test_a_reason_is_one_printable_line(
        self, door: Door, store: Store, study: StudyRecord, why: str, message: str
    ) -> None:
        with pytest.raises(UsageError) as refused:
            exclude(store, study, 1, why=why)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)
        assert trial_of(store, study, 1).set_aside is None

    def test_long_and_foreign_reasons_are_kept_as_they_are(
        self, door: Door, store: Store, study: StudyRecord
    ) -> None:
        why = "'); drop table é 日本 ".ljust(200, "x")
        exclude(store, study, 1, why=why)
        aside = trial_of(store, study, 1).set_aside
        assert aside is not None
        assert aside.why == why


def test_optuna_is_told_of_a_violated_constraint(
    make_door: DoorMaker, store: Store, open_optuna: OptunaOpener
) -> None:
    door = make_door()
    complete(store, claimed(door), QUICK_GUESS)
    complete(store, claimed(door), Values(0.9, 5.0, 10))
    ClaimedTrial(store, claimed(door)).fail(Failure("diverged", "diverged at epoch 1", "", ""))
    ClaimedTrial(store, claimed(door)).fail(Failure("MemoryError", "no room", "", ""))
    door.settle()
    theirs = optuna.load_study(study_name="tiny", storage=open_optuna())
    states = [trial.state.name for trial in theirs.trials]
    assert states == ["COMPLETE", "COMPLETE", "FAIL", "FAIL"]
    guess, good, diverged, broken = (trial.constraints for trial in theirs.trials)
    assert guess["feasible"] == pytest.approx(LEARNED - GUESSING)
    assert diverged["feasible"] == 1.0
    assert (good, broken) == ({}, {})
    assert [trial.number for trial in theirs.best_trials] == [1]
    dashboard = pytest.importorskip("optuna_dashboard._serializer")
    shown = [dashboard.serialize_frozen_trial(0, trial, {}) for trial in theirs.trials]
    assert [len(trial["constraints"]) for trial in shown] == [1, 0, 1, 0]
