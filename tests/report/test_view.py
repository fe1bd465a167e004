"""The facts of a report, before anything is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.analysis.rows import trial_rows
from fastrcaps_search.definition.release import release
from fastrcaps_search.report.fronts import TimeAxis
from fastrcaps_search.report.page import tiles
from fastrcaps_search.report.panels import effects, importance, protocol
from fastrcaps_search.report.sections import sections
from fastrcaps_search.report.view import ReportView
from tests.report.views import (
    FAILURE,
    stored_of,
    view_of,
    with_repeat,
    with_runs,
)

if TYPE_CHECKING:
    from tests.report.conftest import Records


def test_trials_come_by_number_and_the_front_by_accuracy(records: Records) -> None:
    view = view_of(records.study(), records.trials()[::-1])
    assert [trial.number for trial in view.trials] == list(range(11))
    assert [trial.number for trial in view.front] == [5, 2, 9, 8, 7]
    assert [trial.number for trial in view.trials if trial.on_front] == [2, 5, 7, 8, 9]
    assert view.name == "mnist-mini"
    assert view.subtitle == "capsnet-narrow on mnist-mini"


def test_epochs_that_vary_are_told_by_the_trial(records: Records) -> None:
    study = records.study(space={"epochs": [2, 3, 5]})
    short = replace(records.parameters_of(), epochs=3)
    trials = [
        records.running(0, parameters=short),
        records.running(1, parameters=replace(short, epochs=5)),
    ]
    view = view_of(study, trials)
    assert [trial.note for trial in view.trials] == [
        "2 of 3 epochs done, waiting for a worker",
        "2 of 5 epochs done, waiting for a worker",
    ]
    facts = protocol.gather(view)
    assert facts["Training"].startswith("2 to 5 epochs of 4,000 images")
    assert facts["Batch sizes"] == "16 where constant; AdaBatch growing after epochs 1, 2, 3"


def test_tiles_name_the_ends_of_the_front(records: Records) -> None:
    trials = [*records.trials(), records.running(11), records.running(12)]
    found = list(tiles(view_of(records.study(), trials, [records.lease(11)])))
    assert [(tile.label, tile.value, tile.note) for tile in found[:4]] == [
        ("trials finished", "11 of 12", "11 complete, 1 running, 1 interrupted"),
        ("highest accuracy", "97.00\u00a0%", "trial 5"),
        ("shortest training time", "62.3\u00a0s", "trial 7"),
        ("fewest parameters", "1,483,312", "trials 8, 9"),
    ]
    assert (found[4].label, found[4].note) == ("hypervolume", "5 trials on the front")


def test_the_shortest_time_is_marked_where_it_was_computed(records: Records) -> None:
    trials = [
        replace(trial, runs=tuple(replace(run, computed_epochs=1) for run in trial.runs))
        if trial.number == 7
        else trial
        for trial in records.trials()
    ]
    found = {tile.label: tile.value for tile in tiles(view_of(records.study(), trials))}
    assert found["shortest training time"] == "~62.3\u00a0s"


def test_facts_state_the_protocol(records: Records) -> None:
    facts = protocol.gather(view_of(records.study(), records.trials()))
    assert facts["Accuracy"] == "highest over the epochs on the validation split (500 images)"
    assert facts["Training"] == (
        "5 epochs of 4,000 images, shifted by up to 2 pixels; 1 run per trial; fp32"
    )
    assert facts["Batch sizes"] == "16 where constant; AdaBatch growing after epochs 1, 2, 3"
    assert facts["Versions"] == f"fastrcaps-search {release()}, torch 2.14.1"
    # Eight types of primary capsules at 6 x 6 places, ten classes.
    assert facts["Paper's count"] == "learned parameters plus 2,880 coupling coefficients"
    # Guessing among ten classes; five epochs of 18.8 s at a twentieth of the speed to one at
    # twenty times the speed; 2,117,232 x (2,117,232 / 1,685,104)^0.1 to 1,685,104 parameters.
    worst = "(accuracy 10.00\u00a0%, training time 1,880\u00a0s, learned parameters 2,166,121)"
    best = "(accuracy 100.00\u00a0%, training time 0.94\u00a0s, learned parameters 1,685,104)"
    assert f"from {worst} to {best}, fixed" in facts["Hypervolume"]


def test_keys_that_differ_from_their_defaults_are_told(records: Records) -> None:
    usual = set(protocol.gather(view_of(records.study(), [])))
    keys: dict[str, Any] = {
        "min_accuracy": 0.955,
        "decay_rate": 0.5,
        "decay_steps": 400,
        "cycle_epochs": 2,
        "cycle_growth": 3,
        "polynomial_power": 1.5,
        "routing_gradient": "last",
        "reconstruction_weight": 0.0,
    }
    facts = protocol.gather(view_of(records.study(**keys), []))
    assert {label: value for label, value in facts.items() if label not in usual} == {
        "Min accuracy": "0.955",
        "Decay rate": "0.5",
        "Decay steps": "400",
        "Cycle epochs": "2",
        "Cycle growth": "3",
        "Polynomial power": "1.5",
        "Routing gradient": "last",
        "Reconstruction weight": "0.0",
    }
    # Each trial has its own where the space varies it.
    varied = records.study(cycle_epochs=2, space={"cycle_epochs": [1, 3]})
    assert usual == set(protocol.gather(view_of(varied, [])))


def test_a_test_set_protocol_says_so(records: Records) -> None:
    study = records.study(data_set="mnist", evaluate_on="test", runs_per_trial=5)
    facts = protocol.gather(view_of(study, []))
    assert facts["Accuracy"] == (
        "highest over the epochs on the test set (10,000 images), mean over 5 runs"
    )
    assert "60,000 images" in facts["Training"]
    assert "Devices" not in facts


def test_lenet5_has_no_coupling_coefficients(records: Records) -> None:
    facts = protocol.gather(view_of(records.study(network="lenet5"), []))
    assert "Paper's count" not in facts


def test_a_running_trial_says_how_far_it_is(records: Records) -> None:
    study = records.study(runs_per_trial=2)
    second = replace(records.epoch_record(1, 0.8, 9.0), run=1)
    trial = records.running(0)
    runs = (trial.runs[0], replace(trial.runs[0], run=1))
    trial = replace(trial, epochs=(*trial.epochs, second), runs=runs)
    (shown,) = view_of(study, [trial], [records.lease(0)]).trials
    assert shown.note == (
        "0 of 2 runs done; run 0: 2 of 5 epochs done, held by desk (cpu); "
        "run 1: 1 of 5 epochs done, waiting for a worker"
    )
    (shown,) = view_of(records.study(), [records.running(0)], [records.lease(0)]).trials
    assert shown.note == "2 of 5 epochs done, held by desk (cpu)"


def test_a_trial_that_has_stored_nothing_says_so(records: Records) -> None:
    trial = records.running(0, epochs=0)
    (shown,) = view_of(records.study(), [trial]).trials
    assert shown.note == "0 of 5 epochs done, waiting for a worker"


def test_the_legend_keeps_the_order_of_the_policies(records: Records) -> None:
    marks = view_of(records.study(), records.trials()).marks
    assert [mark.policy for mark in marks] == [
        "fixed",
        "fixed+adabatch",
        "exponential_decay",
        "exponential_decay+adabatch",
        "one_cycle",
        "warm_restarts",
        "warm_restarts+adabatch",
        "warm_adabatch",
    ]


def test_a_trial_in_words(records: Records) -> None:
    nine = view_of(records.study(), records.trials()).trials[9]
    assert (nine.chosen("adabatch_exponent"), nine.batch) == ("5", "1 → 32 → 64 → 128")
    assert (nine.chosen("decoder"), nine.chosen("weight_sharing"), nine.rates, nine.note) == (
        "reduced",
        "yes",
        "",
        "",
    )
    assert nine.record.test_accuracy == pytest.approx(0.944)
    assert nine.values is not None
    assert tuple(nine.values.values()) == (0.948, 104.4, 1_483_312.0)
    zero = view_of(records.study(), records.trials()).trials[0]
    assert (zero.chosen("adabatch_exponent"), zero.batch, zero.chosen("weight_sharing")) == (
        "–",
        "16",
        "no",
    )


def test_one_trial_is_the_whole_front(records: Records) -> None:
    view = view_of(records.study(), records.trials()[:1])
    assert [trial.number for trial in view.front] == [0]
    assert tuple(view.fronts[TimeAxis.SECONDS].attained.values()) == (
        ((96.1, 0.938),),
        ((1_915_440.0, 0.938),),
        ((96.1, 1_915_440.0),),
    )
    # 0.838 of 0.9, log(1880 / 96.1) of log(2000), log(2166121 / 1915440) of 1.1 log(2117232 /
    # 1685104): 0.9311 x 0.3912 x 0.4898.
    assert list(tiles(view))[4].value == "0.178"
    assert importance.gather(view) is None
    assert effects.gather(view) is None


def test_a_study_without_trials_is_all_to_come(records: Records) -> None:
    view = view_of(records.study(), [])
    assert view.in_progress
    assert [(tile.value, tile.note) for tile in list(tiles(view))] == [
        ("0 of 12", "none started yet")
    ]
    assert (view.trials, view.front, view.fronts, view.complete) == ((), (), {}, ())
    assert view.marks == ()
    # The front says that it is to come, lists say that they are empty.
    shown = [section.panel.name for section in sections(view)]
    assert shown == ["front", "card", "trials", "protocol"]


def test_failures_are_listed_with_their_reasons(records: Records) -> None:
    trials = [records.failed(0, FAILURE), records.failed(1, replace(FAILURE, message=""))]
    view = view_of(records.study(), trials)
    assert [trial.note for trial in view.trials] == ["diverged at epoch 2", "DivergedError"]
    assert view.fronts == {}
    assert [(tile.value, tile.note) for tile in tiles(view)] == [("2 of 12", "2 failed")]


def test_values_that_are_not_finite_are_on_no_front(records: Records) -> None:
    odd = records.complete(1, 0.99, float("inf"), 1)
    view = view_of(records.study(), [records.trials()[0], odd])
    assert view.trials[1].values is None
    assert view.trials[1].positions == {}
    assert [trial.number for trial in view.complete] == [0]
    assert {number for front in view.fronts.values() for number in front.rows} == {0}


@pytest.mark.parametrize(
    ("finished", "budget", "possible", "expected"),
    [(11, 12, None, True), (11, 11, None, False), (11, 12, 11, False), (3, 12, 11, True)],
)
def test_a_study_is_in_progress_until_nothing_is_left(
    records: Records, finished: int, budget: int, possible: int | None, expected: bool
) -> None:
    view = ReportView(records.study(budget=budget), records.trials()[:finished], possible=possible)
    assert view.in_progress is expected


def test_mixed_devices_are_warned_of(records: Records) -> None:
    first, second = records.trials()[:2]
    other = replace(records.setting, device_name="Another CPU")
    # Only seconds that were computed may not compare.
    run = replace(second.runs[0], setting=other, measured_seconds=1.0, computed_epochs=5)
    second = replace(second, runs=(run,))
    (warning,) = view_of(records.study(), [first, second]).summary.warnings
    assert "devices (Another CPU, Test CPU @ 2 GHz)" in warning


def test_a_repeat_under_way_says_how_far_it_is(records: Records) -> None:
    begun = [records.epoch_record(epoch, 0.8, 9.0) for epoch in (1, 2)]
    trial = with_repeat(with_runs(records.trials()[2], [(0.96, 117.0), (0.964, 119.0)]), begun)
    held = replace(records.lease(2), run=2)
    (shown,) = view_of(records.study(), [trial], [held]).trials
    assert shown.note == "run 2: 2 of 5 epochs done, held by desk (cpu)"
    (shown,) = view_of(records.study(), [trial]).trials
    assert shown.note == "run 2: 2 of 5 epochs done, waiting for a worker"
    (shown,) = view_of(records.study(), [with_repeat(trial, [])], [held]).trials
    assert shown.note == (
        "run 2: 2 of 5 epochs done, held by desk (cpu); "
        "run 3: 0 of 5 epochs done, waiting for a worker"
    )


def test_a_repeat_that_has_ended_leaves_no_note(records: Records) -> None:
    view = stored_of("repeated", records)
    assert [trial.number for trial in view.trials if trial.note] == [2, 3]
    assert view.trials[3].note == "diverged at epoch 2"


def test_the_protocol_says_how_many_repeats_are_left(records: Records) -> None:
    view = stored_of("repeated", records)
    facts = protocol.gather(view)
    # 5 has had its five runs. 2 has two results, 9 three ended runs, 8, 7 and 1, which may
    # belong to the front, one each: 3 + 2 + 4 + 4 + 4.
    near = {n for n, sure in view.front_probabilities.items() if sure >= 0.1}
    assert near == {1, 2, 5, 7, 8, 9}
    assert len(view.summary.work.repeats) == 17
    expected = "until each trial on or near the front has 5 runs, 17 to go"
    assert facts["Repeats"] == expected
    done = view_of(replace(records.study(), front_runs=1), records.trials())
    facts = protocol.gather(done)
    assert facts["Repeats"] == "until each trial on or near the front has 1 run, none to go"
    assert "Repeats" not in set(protocol.gather(view_of(records.study(), records.trials())))


@pytest.mark.parametrize(("repeats", "expected"), [(0, False), (1, False), (2, True)])
def test_a_study_is_in_progress_while_repeats_are_due(
    records: Records, repeats: int, expected: bool
) -> None:
    study = replace(records.study(budget=11), front_runs=repeats)
    assert ReportView(study, records.trials()).in_progress is expected
    assert view_of(study, records.trials()).in_progress is expected


def test_probabilities_are_those_of_the_rows(records: Records) -> None:
    view = stored_of("repeated", records)
    rows = {row["trial"]: row for row in trial_rows(view.records)}
    for trial in view.trials:
        assert trial.front_probability == rows[trial.number].get("front_probability")
    assert view.trials[3].front_probability is None
    assert view_of(records.study(), records.trials()).front_probabilities == {}


@pytest.mark.parametrize(
    ("storage", "words"),
    [("", ""), ("a b.db", " --storage 'a b.db'"), (None, ' --storage "${FASTRCAPS_STORAGE:?}"')],
)
def test_the_command_that_repeats_names_the_study(
    records: Records, storage: str | None, words: str
) -> None:
    view = ReportView(records.study(), [], storage=storage, flags=" --files s3://bucket/x")
    named = f"fastrcaps-search run --study mnist-mini{words}"
    expected = f"{named} --files s3://bucket/x --runs-on-front 5"
    assert view.repeat_command == expected
