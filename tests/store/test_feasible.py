"""Feasible trials: what counts, what is set aside by hand, and all that goes by it."""

from __future__ import annotations

import getpass
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.analysis.front import (
    front_numbers,
    near_front_numbers,
    unwanted,
    without_network,
)
from fastrcaps_search.analysis.remaining_work import due_repeats, untested_front
from fastrcaps_search.analysis.rows import choosable_rows, front_rows, trial_rows
from fastrcaps_search.analysis.summary import summarise
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import NothingFitsError, UsageError
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.store.ending import mark_removed
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import (
    Purpose,
    RunKey,
    RunRecord,
    SetAside,
    StudyRecord,
)
from fastrcaps_search.store.setting_aside import exclude, include
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord, infeasible_reason
from tests.store.workers import FAILURE, claimed, complete, trial_of
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker

# Of 500 images, 50 of each class: 73 right answers are better than guessing, 72 are not (scipy's
# binom.sf(72, 500, 0.1) is 0.0008 and sf(71, ...) 0.0012).
GUESSING, LEARNED = 72 / 500, 73 / 500
QUICK_GUESS = values_of(GUESSING, 1.0, 10)


@pytest.fixture
def queue(make_queue: QueueMaker, store: Store) -> TrialQueue:
    """The queue of a study of a quick guess, two trials on the front and one behind it."""
    queue = make_queue()
    for values in (
        QUICK_GUESS,
        values_of(0.9, 5.0, 10),
        values_of(0.8, 2.0, 10),
        values_of(0.7, 6.0, 10),
    ):
        complete(store, claimed(queue), values)
    return queue


def unwanted_numbers(store: Store, study: StudyRecord) -> list[int]:
    """Numbers of the trials whose networks are not wanted."""
    return [trial.number for trial in unwanted(store.trials(study))]


class TestReason:
    @pytest.fixture
    def strict(self, definition: StudyDefinition) -> StudyDefinition:
        return replace(definition, min_accuracy=0.97)

    def test_the_bound_itself_is_feasible(self, definition: StudyDefinition) -> None:
        def reason(accuracy: float) -> str | None:
            return infeasible_reason(definition, accuracy)

        assert reason(GUESSING) == "not better than guessing"
        assert reason(float("nan")) == "not better than guessing"
        assert reason(LEARNED) is None
        # Means over runs: 72 and 73, 73 and 73.
        assert reason((GUESSING + LEARNED) / 2) == "not better than guessing"
        assert reason((LEARNED + LEARNED) / 2) is None

    def test_a_study_may_ask_for_more(self, strict: StudyDefinition) -> None:
        def reason(accuracy: float) -> str | None:
            return infeasible_reason(strict, accuracy)

        assert reason(0.1) == "not better than guessing"
        assert reason(0.9699) == "accuracy below the study's min_accuracy 97 %"
        assert reason(0.97) is None

    def test_who_set_it_aside_and_why_comes_first(self, strict: StudyDefinition) -> None:
        aside = SetAside("ann", "desk", "the fan was off", 5.0)
        for accuracy in (0.1, 0.99):
            found = TrialRecord.of(
                strict,
                number=0,
                parameters=next(iter(strict.assignments())),
                configuration_key="key",
                created_at=0.0,
                runs=(RunRecord(0, 0, None, True, accuracy, 1.0, 1, None, parameters=1),),
                set_aside=aside,
            )
            assert found.infeasible == "set aside by ann: the fan was off"


class TestGuessing:
    def test_it_is_complete_but_on_no_front(
        self, queue: TrialQueue, store: Store, study: StudyRecord
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
        self, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        trials = store.trials(study)
        assert due_repeats(trials, 2) == [RunKey(1, 1), RunKey(2, 1)]
        assert untested_front(study, trials) == [RunKey(1, 0), RunKey(2, 0)]
        tested = [claimed(queue, Purpose.TEST).key for _ in range(2)]
        assert tested == [RunKey(1, 0), RunKey(2, 0)]
        assert queue.claim_next() is Idle.WAIT

    def test_its_network_is_not_kept(
        self, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        # Trial 3 is on the next front behind, which a guess is on neither.
        assert unwanted_numbers(store, study) == [0]

    def test_where_all_guess_there_is_nothing_to_choose(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        complete(store, claimed(queue), QUICK_GUESS)
        complete(store, claimed(queue), values_of(0.9, 1.0, 10))
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
    def test_it_leaves_and_comes_back(
        self, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
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
        self, queue: TrialQueue, store: Store, study: StudyRecord, location: Location
    ) -> None:
        enter_study(location, study.definition, seed=None, budget=4, front_runs=2)
        held = [claimed(queue) for _ in range(2)]
        # What is due is remembered between two questions, as long as nothing changes.
        assert queue.claim_next() is Idle.WAIT
        for claim in held:
            RunLease(store, claim).release()
        exclude(store, study, 1, why="a test")
        assert claimed(queue).key == RunKey(2, 1)
        include(store, study, 1)
        assert claimed(queue).key == RunKey(1, 1)

    def test_its_network_is_kept_for_it_may_come_back(
        self, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        exclude(store, study, 1, why="a test")
        assert unwanted_numbers(store, study) == [0]
        include(store, study, 1)
        assert unwanted_numbers(store, study) == [0]

    def test_the_network_of_a_trial_that_comes_to_the_front_is_there(
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        for accuracy, seconds in ((0.9, 1.0), (0.8, 2.0), (0.7, 3.0), (0.6, 4.0)):
            complete(store, claimed(queue), values_of(accuracy, seconds, 10))
        assert unwanted_numbers(store, study) == [2, 3]
        for trial in unwanted(store.trials(study)):
            assert mark_removed(store, study, trial)
        exclude(store, study, 0, why="a test")
        trials = store.trials(study)
        assert (front_numbers(trials), without_network(trials)) == ([1], [])
        assert untested_front(study, trials) == [RunKey(1, 0)]
        # What comes from further behind is named.
        exclude(store, study, 1, why="a test")
        trials = store.trials(study)
        assert (front_numbers(trials), without_network(trials)) == ([2], [2])
        assert untested_front(study, trials) == []

    def test_a_second_reason_replaces_the_first(
        self, queue: TrialQueue, store: Store, study: StudyRecord
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
        self, queue: TrialQueue, store: Store, study: StudyRecord, number: int, message: str
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
        self, make_queue: QueueMaker, store: Store, study: StudyRecord
    ) -> None:
        queue = make_queue()
        running = RunLease(store, claimed(queue))
        with pytest.raises(UsageError, match="complete to be excluded, but trial 0 of tiny"):
            exclude(store, study, 0, why="a test")
        running.fail(FAILURE, ends_trial=True)
        with pytest.raises(UsageError, match="trial 0 of tiny is failed; only complete ones"):
            exclude(store, study, 0, why="a test")
        complete(store, claimed(queue))
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
        self, queue: TrialQueue, store: Store, study: StudyRecord, why: str, message: str
    ) -> None:
        with pytest.raises(UsageError) as refused:
            exclude(store, study, 1, why=why)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)
        assert trial_of(store, study, 1).set_aside is None

    def test_long_and_foreign_reasons_are_kept_as_they_are(
        self, queue: TrialQueue, store: Store, study: StudyRecord
    ) -> None:
        why = "'); drop table é 日本 ".ljust(200, "x")
        exclude(store, study, 1, why=why)
        aside = trial_of(store, study, 1).set_aside
        assert aside is not None
        assert aside.why == why
