"""Hits of runs as they are stored, and two trials on the same images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fastrcaps_search.analysis.comparing import comparison_row
from fastrcaps_search.errors import FastrcapsError, LeaseLostError, UsageError
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import Purpose, StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import SETTING, Clock, claimed, fail

if TYPE_CHECKING:
    from tests.store.conftest import QueueMaker

IMAGES = 500


def right(*wrong: int) -> bytes:
    """Hits of a run that has all but these images right."""
    bits = np.ones(IMAGES, dtype=bool)
    bits[list(wrong)] = False
    return np.packbits(bits).tobytes()


def result(*wrong: int, seconds: float = 2.0) -> RunResult:
    return RunResult(1 - len(wrong) / IMAGES, seconds, 61_706, 1, right(*wrong))


def complete(store: Store, make_queue: QueueMaker, *results: RunResult) -> None:
    """Complete a trial with these runs, those after the first as repeats."""
    study = store.study("tiny")
    claimant = Claimant(store=store, study=study, worker="w", device="cpu")
    claim: Claim | None = claimed(make_queue())
    for run, one in enumerate(results):
        if run > 0:
            claim = claimant.take(store.trials(study)[-1], run, Purpose.TRAIN)
        assert claim is not None
        finish(store, claim, one)


def finish(store: Store, claim: Claim, result: RunResult) -> None:
    lease = RunLease(store, claim)
    lease.begin(SETTING, fresh=True)
    lease.finish(result)


def test_hits_are_stored_with_the_result_and_read_on_their_own(
    make_queue: QueueMaker, store: Store, study: StudyRecord
) -> None:
    complete(store, make_queue, result(1, 2), result(499))
    complete(store, make_queue, RunResult(0.9, 2.0, 61_706, 1))
    assert store.hits(study, [0, 1, 7]) == {(0, 0): right(1, 2), (0, 1): right(499)}
    assert store.hits(study, [1]) == {}
    assert len(right()) == 63


def test_a_worker_that_lost_its_trial_stores_no_hits(
    make_queue: QueueMaker, store: Store, study: StudyRecord, clock: Clock
) -> None:
    late = RunLease(store, claimed(make_queue("late")))
    late.begin(SETTING, fresh=True)
    clock.kill()
    claimed(make_queue("next"))
    with pytest.raises(LeaseLostError):
        late.finish(result(3))
    assert store.hits(study, [0]) == {}


def test_a_repeat_stores_its_hits(
    location: Location, make_queue: QueueMaker, store: Store, study: StudyRecord
) -> None:
    for number in range(4):
        complete(store, make_queue, result(*range(number + 1), seconds=9.0 - number))
    enter_study(location, study.definition, seed=None, budget=4, front_runs=2)
    claim = claimed(make_queue())
    finish(store, claim, result(77))
    assert claim.key.run == 1
    assert store.hits(study, [claim.key.number])[claim.key.number, 1] == right(77)


def test_two_trials_by_hand(make_queue: QueueMaker, store: Store, study: StudyRecord) -> None:
    # The better run of the first has images 0 to 3 wrong, that of the second 3 to 11.
    complete(store, make_queue, result(*range(30)), result(*range(4)))
    complete(store, make_queue, result(*range(3, 12)))
    found = comparison_row(store, study, 0, 1)
    assert found["networks"] == [
        {"trial": 0, "run": 1, "accuracy": 1 - 4 / 500, "only": 8},
        {"trial": 1, "run": 0, "accuracy": 1 - 9 / 500, "only": 3},
    ]
    assert (found["study"], found["split"], found["images"]) == ("tiny", "validation", 500)
    assert found["difference"] == pytest.approx(5 / 500)
    # Three or fewer of eleven images, or eight or more: 2 x (1 + 11 + 55 + 165) of 2,048.
    assert found["p_value"] == 464 / 2_048
    assert found["low"] < 0.0 < found["difference"] < found["high"]
    turned = comparison_row(store, study, 1, 0)
    assert turned["difference"] == -found["difference"]


def test_what_cannot_be_compared_is_refused(
    make_queue: QueueMaker, store: Store, study: StudyRecord
) -> None:
    complete(store, make_queue, result(1))
    complete(store, make_queue, RunResult(0.9, 2.0, 61_706, 1))
    fail(store, claimed(make_queue()))
    for numbers, message in {
        (0, 0): "two different trials must be named, got 0 twice",
        (0, 2): "trial 2 must be a complete trial of tiny, got one that is failed",
        (9, 0): "trial 9 must be a complete trial of tiny, got none of that number",
    }.items():
        with pytest.raises(UsageError, match=message):
            comparison_row(store, study, *numbers)
    with pytest.raises(FastrcapsError, match="trial 1 must have stored which images"):
        comparison_row(store, study, 0, 1)
