"""The box of the hypervolume: stored once, by whoever comes first, and never moved."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.analysis.summary import summarise
from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import BEGIN, Clock, claimed, complete, fail, line, result_of, say
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, QueueMaker, Sql

COMPLETE_WHEN_TOLD = (
    BEGIN
    + """
store = Store.writing(location)
held = RunLease(store, queue_of(store, sys.argv[2]).claim_next())
print("ready", flush=True)
input()
held.finish(RunResult(0.9, float(sys.argv[3]), 61706, 1))
print("done", flush=True)
"""
)


def box_of(store: Store) -> Box:
    box = store.study("tiny").box
    assert box is not None
    return box


@pytest.mark.parametrize(
    ("name", "smallest", "largest"),
    [
        ("mnist", 8_215_728 - 73_728 - 1_433_600, 8_215_728),
        # 5,248 + 331,840 + 368,800 + 1,411,344; shared weights save 358,400.
        ("mnist-mini", 2_117_232 - 73_728 - 358_400, 2_117_232),
        ("paper-lenet5", 61_706, None),
    ],
)
def test_parameters_follow_from_the_definition(
    name: str, smallest: int, largest: int | None
) -> None:
    box = Box.of(load_study(name), epoch_seconds=1.0)
    worst = 2 * smallest if largest is None else largest * (largest / smallest) ** 0.1
    assert box.edges["parameters"] == pytest.approx((worst, smallest))


def test_accuracy_begins_at_guessing() -> None:
    # Class 1 makes up 563 of the last 5,000 training labels of MNIST, and 1,135 of 10,000 tests.
    shares = {"mnist": 563 / 5_000, "paper-mnist": 0.1135, "paper-fashion-mnist": 0.1}
    for name, share in shares.items():
        assert Box.of(load_study(name), epoch_seconds=1.0).edges["accuracy"] == (share, 1.0)


def test_the_first_complete_trial_fixes_it(
    make_queue: QueueMaker, store: Store, definition: StudyDefinition
) -> None:
    queue = make_queue()
    assert store.study("tiny").box is None
    fail(store, claimed(queue))
    assert store.study("tiny").box is None
    # Two epochs up to the best one: 3 s for an epoch.
    RunLease(store, claimed(queue)).finish(RunResult(0.8, 6.0, 61_706, 2))
    assert box_of(store) == Box.of(definition, epoch_seconds=3.0)
    assert box_of(store).edges["training_seconds"] == pytest.approx((3.0 * 2 * 20, 3.0 / 20))


def test_a_worker_that_lost_its_run_fixes_nothing(
    make_queue: QueueMaker, store: Store, clock: Clock
) -> None:
    late = RunLease(store, claimed(make_queue("late")))
    clock.kill()
    claimed(make_queue("next"))
    with pytest.raises(LeaseLostError):
        late.finish(result_of())
    assert store.study("tiny").box is None


def test_it_stays_and_the_hypervolume_only_grows(
    make_queue: QueueMaker, store: Store, study: StudyRecord, location: Location
) -> None:
    queue = make_queue()
    found, boxes = [], []
    # Each better than all before in one objective: a box of the trials at hand would move.
    for values in [(0.5, 20.0), (0.3, 2.0), (0.9, 70.0), (0.95, 90.0)]:
        complete(store, claimed(queue), values_of(*values, 61_706))
        stored = store.study(study.name)
        boxes.append(stored.box)
        found.append(summarise(stored, store.trials(study), []).hypervolume)
    assert boxes == [boxes[0]] * 4
    assert found == sorted(found, key=lambda volume: volume or 0.0)
    assert len(set(found)) == len(found)
    # Going on with the study changes nothing of it either.
    again = enter_study(location, study.definition, seed=None, budget=9)
    assert again.box == boxes[0]


def test_workers_that_complete_at_once_store_one(
    location: Location, study: StudyRecord, store: Store, start_child: ChildStarter, sql: Sql
) -> None:
    children = [
        start_child(COMPLETE_WHEN_TOLD, location.url, f"w{n}", str(seconds))
        for n, seconds in enumerate((4.0, 400.0))
    ]
    assert [line(child) for child in children] == ["ready", "ready"]
    for child in children:
        say(child)
    assert [line(child) for child in children] == ["done", "done"]
    box = box_of(store)
    expected = [Box.of(study.definition, epoch_seconds=seconds) for seconds in (4.0, 400.0)]
    assert box in expected
    # The next one finds it stored.
    (stored,) = sql("select box from fastrcaps_studies")
    assert Box.from_dict(json.loads(stored[0])) == box


def test_the_second_of_two_waits_for_the_first_and_keeps_its_box(
    location: Location,
    study: StudyRecord,
    store: Store,
    make_queue: QueueMaker,
    start_child: ChildStarter,
) -> None:
    child = start_child(COMPLETE_WHEN_TOLD, location.url, "child", "4.0")
    assert line(child) == "ready"
    complete(store, claimed(make_queue()), values_of(0.9, 40.0, 61_706))
    before = box_of(store)
    say(child)
    assert line(child) == "done"
    assert box_of(store) == before == Box.of(study.definition, epoch_seconds=40.0)
    assert sum(trial.values is not None for trial in store.trials(study)) == 2


def test_a_study_defined_anew_has_no_box_yet(location: Location, study: StudyRecord) -> None:
    longer = replace(study.definition, epochs=3)
    assert enter_study(location, longer, seed=None, budget=4).box is None
