"""Networks are said to be removed only as long as nobody has claimed them since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.metrics import RunResult
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.ending import mark_removed
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import Purpose, StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import SETTING, claimed, trial_of

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker


@pytest.fixture
def two(location: Location, study: StudyRecord) -> StudyRecord:
    """The same study of two runs for each trial."""
    keys = {**study.definition.to_dict(), "name": "two", "runs_per_trial": 2}
    return enter_study(location, type(study.definition).from_dict(keys), seed=None, budget=1)


@pytest.fixture(autouse=True)
def _complete(make_queue: QueueMaker, store: Store, two: StudyRecord) -> None:
    queue = make_queue(of=two)
    for _ in range(2):
        RunLease(store, claimed(queue)).finish(RunResult(0.9, 1.0, 10, 1))


def removed(store: Store, study: StudyRecord) -> list[bool]:
    return [run.removed for run in trial_of(store, study).runs]


def test_all_runs_of_a_trial_are_marked_and_stay_so(store: Store, two: StudyRecord) -> None:
    assert removed(store, two) == [False, False]
    assert mark_removed(store, two, trial_of(store, two))
    assert removed(store, two) == [True, True]
    assert mark_removed(store, two, trial_of(store, two))


@pytest.mark.parametrize("run", [0, 1])
def test_none_is_where_one_was_claimed_meanwhile(run: int, store: Store, two: StudyRecord) -> None:
    seen = trial_of(store, two)
    claimant = Claimant(store=store, study=two, worker="w1", device="cpu")
    claim = claimant.take(seen, run, Purpose.TEST)
    assert claim is not None
    assert not mark_removed(store, two, seen)
    assert removed(store, two) == [False, False]
    RunLease(store, claim).hand_back()
    assert not mark_removed(store, two, seen)
    assert mark_removed(store, two, trial_of(store, two))
    # Nor where they were removed before, or there was none.
    seen = trial_of(store, two)
    assert claimant.take(seen, run, Purpose.TEST) is not None
    assert not mark_removed(store, two, seen)


def test_a_run_that_goes_on_is_about_to_have_a_network_again(
    location: Location, store: Store, two: StudyRecord
) -> None:
    enter_study(location, two.definition, seed=None, budget=1, front_runs=3)
    claimant = Claimant(store=store, study=two, worker="w1", device="cpu")
    claim = claimant.take(trial_of(store, two), 2, Purpose.TRAIN)
    assert claim is not None
    lease = RunLease(store, claim)
    lease.begin(SETTING, fresh=True)
    lease.release()
    assert mark_removed(store, two, trial_of(store, two))
    again = claimant.take(trial_of(store, two), 2, Purpose.TRAIN)
    assert again is not None
    RunLease(store, again).begin(SETTING, fresh=False)
    assert removed(store, two) == [True, True, False]
