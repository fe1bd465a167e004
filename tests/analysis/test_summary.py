"""The front, progress and rows of a study, against figures worked out by hand."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.analysis.remaining_work import remaining_work
from fastrcaps_search.analysis.rows import front_rows, trial_row, trial_rows
from fastrcaps_search.analysis.summary import eta_seconds, status_of, summarise
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.store.holders import LeaseRecord, WorkerRecord
from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.reading import Signs, Snapshot
from fastrcaps_search.store.records import (
    EpochRecord,
    Failure,
    RunRecord,
    StudyRecord,
    TrialState,
)
from fastrcaps_search.store.trials import TrialRecord
from tests.triples import box_of, values_of

SETTING = RunSetting("cpu", "Test CPU", "2.14.1", "fp32", 1, "batched")
METRICS = EpochMetrics(1, 16, 1e-3, 1e-3, 0.1, 0.08, 0.02, 0.9, 0.9, 9.0, 0.5, 250, 4000)
PARAMETERS = TrialParameters.from_dict(
    {"lr_policy": "fixed", "batch_policy": "constant", "decoder": "full", "weight_sharing": True}
)
DEFINITION = StudyDefinition.from_dict({"name": "mnist"})


def study(budget: int) -> StudyRecord:
    return StudyRecord(1, "mnist", "uid", DEFINITION, 0, budget, 0.0)


def lease(number: int) -> LeaseRecord:
    return LeaseRecord(
        number=number,
        run=0,
        token=1,
        purpose="train",
        worker="worker",
        host="host",
        device="cpu",
        claimed_at=0.0,
        boot_id="boot",
        pid_namespace="ns",
        pid=1,
        process_start=1,
        renewed_at=0.0,
        lease_seconds=30.0,
        silent_seconds=0.0,
    )


def trial(
    number: int,
    values: tuple[float, float, float] | None = None,
    *,
    state: TrialState = TrialState.COMPLETE,
    seconds: float | None = None,
    setting: RunSetting = SETTING,
    sharing: int = 1,
) -> TrialRecord:
    """A trial that began at 1000 and, if ``seconds`` are given, ended after them."""
    return TrialRecord(
        number=number,
        state=state,
        parameters=PARAMETERS,
        configuration_key=str(number),
        values=None if values is None else values_of(*values),
        failure=None,
        created_at=1000.0,
        finished_at=None if seconds is None else 1000.0 + seconds,
        runs=(_run(setting, values, seconds),),
        epochs=(EpochRecord(0, 1, "worker", METRICS, setting, sharing, 0.0),),
    )


def _run(
    setting: RunSetting, values: tuple[float, float, float] | None, lasted: float | None
) -> RunRecord:
    accuracy, seconds, _ = values or (None, None, None)
    run = RunRecord(0, 0, setting, True, accuracy, seconds, None, None, created_at=1000.0)
    if lasted is None:
        return run
    failure = Failure("E", "no", "", "") if accuracy is None else None
    return replace(run, failure=failure, finished_at=1000.0 + lasted)


def by_brute_force(trials: list[TrialRecord]) -> set[int]:
    """Numbers of the finite complete trials that nothing dominates, from the definition."""
    rows = {
        one.number: (-one.values.accuracy, one.values.training_seconds, one.values.parameters)
        for one in trials
        if one.state is TrialState.COMPLETE and one.values
    }
    rows = {number: row for number, row in rows.items() if all(map(math.isfinite, row))}
    return {
        number
        for number, row in rows.items()
        if not any(
            all(a <= b for a, b in zip(other, row, strict=True)) and other != row
            for other in rows.values()
        )
    }


def test_front_equals_brute_force_on_many_studies() -> None:
    random = Random(3)
    for _, size in itertools.product(range(40), (1, 2, 7, 20)):
        trials = [
            trial(
                number,
                (
                    random.choice([0.9, 0.91, 0.92, 0.95, math.nan]),
                    random.choice([10.0, 20.0, 30.0, math.inf]),
                    random.choice([100.0, 200.0, 300.0]),
                ),
                state=random.choice([TrialState.COMPLETE] * 4 + [TrialState.FAILED]),
            )
            for number in range(size)
        ]
        assert set(front_numbers(trials)) == by_brute_force(trials)


def test_front_is_sorted_by_accuracy_then_seconds_then_number() -> None:
    trials = [
        trial(4, (0.90, 10.0, 100.0)),
        trial(3, (0.95, 30.0, 100.0)),
        trial(2, (0.95, 20.0, 200.0)),
        trial(1, (0.90, 10.0, 100.0)),
        trial(0, (0.80, 10.0, 100.0)),
        trial(5, (0.99, 1.0, 1.0), state=TrialState.FAILED),
        trial(6, state=TrialState.RUNNING),
    ]
    assert front_numbers(trials) == [2, 3, 1, 4]
    assert front_numbers([]) == []


def test_rows_have_the_documented_keys_in_order() -> None:
    done = trial(3, (0.95, 30.5, 8_215_728.0))
    row = trial_row(replace(done, runs=(replace(done.runs[0], test_accuracy=0.94),)))
    assert row == {
        "trial": 3,
        "state": "complete",
        "params": {
            "lr_policy": "fixed",
            "batch_policy": "constant",
            "decoder": "full",
            "weight_sharing": True,
        },
        "values": {"accuracy": 0.95, "training_seconds": 30.5, "parameters": 8_215_728},
        "runs": 1,
        "device": "Test CPU",
        "front_probability": None,
        "feasible": True,
        "test_accuracy": 0.94,
    }
    assert list(row)[:6] == ["trial", "state", "params", "values", "runs", "device"]
    assert isinstance(row["values"]["parameters"], int)


def test_rows_without_values_and_with_reasons() -> None:
    failure = Failure("DivergedError", "diverged at epoch 2", "trace", "log")
    failed = replace(trial(0, state=TrialState.FAILED), failure=failure)
    waiting = replace(trial(1, state=TrialState.RUNNING), runs=(), epochs=())
    first, second = trial_rows([waiting, failed])
    nothing = {"accuracy": None, "training_seconds": None, "parameters": None}
    assert (first["trial"], first["values"], first["reason"]) == (
        0,
        nothing,
        "diverged at epoch 2",
    )
    assert (second["trial"], second["values"], second["runs"], second["device"]) == (
        1,
        nothing,
        0,
        None,
    )
    assert "reason" not in second
    silent = replace(failed, failure=replace(failure, message=""))
    assert trial_row(silent)["reason"] == "DivergedError"


def test_values_json_has_no_word_for_become_null() -> None:
    row = trial_row(trial(0, (math.nan, math.inf, 5.0)))
    assert json.loads(json.dumps(row, allow_nan=False))["values"] == {
        "accuracy": None,
        "training_seconds": None,
        "parameters": 5,
    }


def test_the_network_of_a_trial_is_the_kept_run_of_highest_accuracy() -> None:
    runs = [
        replace(_run(SETTING, (accuracy, 1.0, 1.0), None), run=run, removed=run in (1, 4))
        for run, accuracy in enumerate((0.90, 0.99, 0.92, 0.92, 0.95))
    ]
    several = replace(trial(0, (0.9, 1.0, 1.0)), runs=tuple(runs))
    assert several.best_run == runs[2]
    # With all networks removed it is still known which one it was.
    assert replace(several, runs=(runs[1], runs[4])).best_run == runs[1]
    assert replace(several, runs=()).best_run is None


def test_front_rows_follow_the_front() -> None:
    trials = [trial(0, (0.8, 5.0, 10.0)), trial(1, (0.9, 9.0, 10.0)), trial(2, (0.7, 9.0, 10.0))]
    assert [row["trial"] for row in front_rows(trials)] == [1, 0]


def test_counts_and_hypervolume_by_hand() -> None:
    trials = [
        trial(0, (0.9, 20.0, 200.0)),
        trial(1, (0.8, 10.0, 100.0)),
        trial(2, state=TrialState.FAILED),
        trial(3, state=TrialState.FAILED),
        trial(4, state=TrialState.RUNNING),
    ]
    for leases, under_way in (([lease(4)], (1, 0)), ([], (0, 1)), ([lease(0)], (0, 1))):
        summary = summarise(study(9), trials, leases)
        assert (summary.complete, summary.failed) == (2, 2)
        assert (summary.running, summary.interrupted) == under_way
    rows = trial_rows(trials, [lease(4)]), trial_rows(trials, [lease(0)])
    assert [row[4]["state"] for row in rows] == ["running", "interrupted"]
    assert (summary.finished, summary.budget) == (4, 9)
    assert (summary.hypervolume, summary.box) == (None, None)
    # Two octaves of seconds and two of parameters: trial 0 covers 0.9 x 1/2 x 1/2, trial 1
    # 0.8 x 1 x 1, both 0.8 x 1/2 x 1/2. One that is behind the front changes nothing.
    box = box_of(accuracy=(0.0, 1.0), training_seconds=(40.0, 10.0), parameters=(400.0, 100.0))
    boxed = replace(study(9), box=box)
    for more in ([], [trial(5, (0.8, 21.0, 200.0))]):
        found = summarise(boxed, [*trials, *more], [])
        assert found.box == box
        assert found.hypervolume == pytest.approx(0.9 / 4 + 0.8 - 0.8 / 4)


@pytest.mark.parametrize(
    ("budget", "workers", "expected"),
    [
        # Complete trials took 100 s and 200 s, 150 s in the middle; one that failed after 30 s had
        # not trained all its epochs. The running one is to end still.
        (13, 0, 1500.0),
        (13, 1, 1500.0),
        (13, 4, 375.0),
        (4, 2, 75.0),
    ],
)
def test_time_left(budget: int, workers: int, expected: float) -> None:
    trials = [
        trial(0, (0.9, 1.0, 1.0), seconds=100.0),
        trial(1, (0.9, 1.0, 1.0), seconds=200.0),
        trial(2, state=TrialState.FAILED, seconds=30.0),
        trial(3, state=TrialState.RUNNING),
    ]
    leases = [lease(number) for number in range(workers)]
    assert summarise(study(budget), trials, leases).eta_seconds == pytest.approx(expected)


def test_time_left_ends_with_the_configurations() -> None:
    trials = [trial(number, (0.9, 1.0, 1.0), seconds=60.0) for number in range(3)]
    assert summarise(study(9), trials, [], possible=3).eta_seconds == 0.0
    assert summarise(study(9), trials, [], possible=5).eta_seconds == pytest.approx(120.0)


def test_time_left_counts_with_the_length_of_the_trials() -> None:
    # 2 epochs in 20 s, 8 in 80 s: 10 s an epoch; those to come have 5 on average.
    definition = StudyDefinition.from_dict({"name": "mnist", "space": {"epochs": [2, 8]}})
    trials = [
        replace(
            trial(n, (0.9, 1.0, 1.0), seconds=10.0 * epochs),
            parameters=replace(PARAMETERS, epochs=epochs),
        )
        for n, epochs in enumerate([2, 8])
    ]
    varied = replace(study(6), definition=definition)
    assert summarise(varied, trials, [lease(2)]).eta_seconds == pytest.approx(4 * 50.0)


def test_epochs_that_are_done_are_not_left() -> None:
    # 100 s for each of 8 epochs; of the two trials that are left 5 epochs are done.
    done = trial(0, (0.9, 1.0, 1.0), seconds=800.0)
    seen = replace(study(3), definition=StudyDefinition.from_dict({"name": "mnist", "epochs": 8}))
    trials = [done, trial(1, state=TrialState.RUNNING)]
    work = remaining_work(seen, trials, possible=None)
    for epochs, expected in ((0, 1600.0), (5, 1100.0), (99, 0.0)):
        found = eta_seconds(seen, trials, work, workers=1, epochs_done=epochs)
        assert found == pytest.approx(expected)


def test_status_counts_the_epochs_of_runs_that_are_held_and_of_no_others() -> None:
    # As above, with a worker in its sixth epoch of trial 1.
    seen = replace(study(3), definition=StudyDefinition.from_dict({"name": "mnist", "epochs": 8}))
    held = replace(lease(1), claimed_at=1.0)
    process = {name: getattr(held, name) for name in ProcessIdentity.__dataclass_fields__}
    facts: dict[str, Any] = {"device": "cpu", "device_name": "CPU", "job": None, **process}
    facts |= {"lease_seconds": 30.0, "started_at": 0.0, "seen_at": 0.0, "silent_seconds": 0.0}
    doing = {"doing": "trains", "number": 1, "run": 0, "epoch": 6, "epochs": 8}
    sign = WorkerRecord(nonce="n", worker="worker", **facts | doing)
    done = trial(0, (0.9, 1.0, 1.0), seconds=800.0)
    trials = [done, trial(1, state=TrialState.RUNNING)]
    # Where it has ended its run, the last sign is of that one still.
    for leases, expected in (([held], 1100.0), ([], 1600.0)):
        found = status_of(
            Snapshot(seen, trials, leases, ()), Signs([sign], [], []), possible=None, run="a line"
        )
        assert found.eta_seconds == pytest.approx(expected)


def test_time_left_is_unknown_before_the_first_end() -> None:
    summary = summarise(study(3), [trial(0, state=TrialState.RUNNING)], [lease(0)])
    assert summary.eta_seconds is None


def test_equal_settings_give_no_warning() -> None:
    summary = summarise(study(2), [trial(n, (0.9, 1.0, 1.0)) for n in range(2)], [])
    assert summary.warnings == ()
    assert summary.devices == ("Test CPU",)
    assert summary.sharing == (1,)
    assert summary.torch_versions == ("2.14.1",)


def test_computed_seconds_are_said_in_a_sentence() -> None:
    other = replace(SETTING, device_name="Test GPU", torch_version="2.6.0", threads=8)
    there = trial(1, (0.9, 1.0, 1.0), setting=other, sharing=2)
    counted = replace(there, runs=(replace(there.runs[0], best_epoch=1, computed_epochs=1),))
    named = replace(study(2), reference_device="Test CPU")
    summary = summarise(named, [trial(0, (0.9, 1.0, 1.0)), counted], [])
    assert summary.warnings == (
        "The complete trials mix devices (Test CPU, Test GPU); versions of torch (2.14.1, 2.6.0); "
        "numbers of threads (1, 8); numbers of workers per device (1, 2): training seconds are "
        "those of Test CPU: 1 measured, 1 computed; not checked yet: no configuration has been "
        "trained both ways.",
    )
    assert summary.devices == ("Test CPU", "Test GPU")
    assert summary.sharing == (1, 2)
    # Epochs say it: `status` does not read them.
    unread = [replace(one, epochs=()) for one in (trial(0, (0.9, 1.0, 1.0)), counted)]
    assert summarise(named, unread, []).warnings == ()
    # Where nothing had to be computed, all compare.
    assert summarise(named, [trial(0, (0.9, 1.0, 1.0)), there], []).warnings == ()


@pytest.mark.parametrize(
    ("alone", "trials", "warnings"),
    [
        # A tenth of the epochs, and one trial for each worker, as the last ones are.
        *[(1, 3, 0), (2, 1, 0), (2, 2, 0)],
        (2, 3, 1),
    ],
)
def test_fewer_neighbours_at_the_end_of_a_study_are_no_mix(
    alone: int, trials: int, warnings: int
) -> None:
    # Ten epochs by two workers, of which the last ones were trained by one alone.
    made = trial(0, (0.9, 1.0, 1.0), sharing=2)
    (epoch,) = made.epochs
    epochs = [replace(epoch, metrics=replace(epoch.metrics, epoch=n)) for n in range(1, 11)]
    epochs[-alone:] = [replace(one, sharing=1, computed_seconds=1.2) for one in epochs[-alone:]]
    (run,) = made.runs
    runs = (replace(run, best_epoch=10, computed_epochs=alone),)
    named = replace(study(1), reference_device="Test CPU")
    made = replace(made, runs=runs, epochs=tuple(epochs))
    summary = summarise(named, [replace(made, number=n) for n in range(trials)], [])
    assert len(summary.warnings) == warnings
    assert summary.seconds.computed == trials


def test_only_values_that_are_compared_can_be_mixed() -> None:
    other = replace(SETTING, device_name="Test GPU")
    trials = [trial(0, (0.9, 1.0, 1.0)), trial(1, state=TrialState.RUNNING, setting=other)]
    summary = summarise(study(2), trials, [])
    assert summary.warnings == ()
    assert summary.devices == ("Test CPU", "Test GPU")
