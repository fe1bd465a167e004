"""The facts of a report, before anything is drawn."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.report.traces import hover
from fastrcaps_search.report.view import ReportView, report_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastrcaps_search.store.records import LeaseRecord, StudyRecord, TrialRecord
    from tests.report.conftest import Records


def view_of(
    study: StudyRecord, trials: Sequence[TrialRecord], leases: Sequence[LeaseRecord] = ()
) -> ReportView:
    written_at = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
    return report_view(study, trials, leases, written_at=written_at, version="0.1.0")


def test_attained_corners_by_hand(records: Records) -> None:
    projections = view_of(records.study(), records.trials()).projections
    assert [(one.x.name, one.y.name, one.attained) for one in projections] == [
        (
            "training_seconds",
            "accuracy",
            ((62.3, 0.921), (79.9, 0.944), (94.0, 0.970)),
        ),
        (
            "parameters",
            "accuracy",
            ((1_483_312.0, 0.948), (1_841_712.0, 0.962), (1_915_440.0, 0.970)),
        ),
        (
            "training_seconds",
            "parameters",
            ((62.3, 1_557_040.0), (79.9, 1_483_312.0)),
        ),
    ]


def test_trials_come_by_number_and_the_front_by_accuracy(records: Records) -> None:
    view = view_of(records.study(), records.trials()[::-1])
    assert [trial.number for trial in view.trials] == list(range(11))
    assert [trial.number for trial in view.front] == [5, 2, 9, 8, 7]


def test_tiles_name_the_ends_of_the_front(records: Records) -> None:
    tiles = view_of(records.study(), [*records.trials(), records.running(11)]).tiles
    assert [(tile.label, tile.value, tile.note) for tile in tiles[:4]] == [
        ("trials finished", "11 of 12", "11 complete, 1 running"),
        ("highest accuracy", "97.00\u00a0%", "trial 5"),
        ("shortest training", "62.3\u00a0s", "trial 7"),
        ("fewest parameters", "1,483,312", "trials 8, 9"),
    ]


def test_facts_state_the_protocol(records: Records) -> None:
    facts = {fact.label: fact.value for fact in view_of(records.study(), records.trials()).facts}
    assert facts["Accuracy"] == "highest over the epochs on the validation split (500 images)"
    assert facts["Training"] == (
        "5 epochs of 4,000 images, shifted by up to 2 pixels; 1 run per trial; fp32"
    )
    assert facts["Batch sizes"] == "16 where constant; AdaBatch growing after epochs 1, 2, 3"
    assert facts["Versions"] == "fastrcaps-search 0.1.0, torch 2.14.1"
    # The worst value of each objective, 10 % of its span further: accuracy 0.921 - 0.0049,
    # seconds 171 + 10.87, parameters 1,915,440 + 43,212.8.
    assert "(91.61\u00a0%, 181.9\u00a0s, 1,958,653 parameters)" in facts["Hypervolume"]


def test_a_test_set_protocol_says_so(records: Records) -> None:
    study = records.study(data_set="mnist", evaluate_on="test", runs_per_trial=5)
    facts = {fact.label: fact.value for fact in view_of(study, []).facts}
    assert facts["Accuracy"] == (
        "highest over the epochs on the test set (10,000 images), mean over 5 runs"
    )
    assert "60,000 images" in facts["Training"]
    assert "Devices" not in facts


def test_a_running_trial_says_how_far_it_is(records: Records) -> None:
    study = records.study(runs_per_trial=2)
    second = replace(records.epoch_record(1, 0.8, 9.0), run=1)
    trial = records.running(0)
    trial = replace(trial, epochs=(*trial.epochs, second))
    (shown,) = view_of(study, [trial]).trials
    assert shown.note == "run 2 of 2, 1 of 5 epochs done, waiting for a worker"


def test_learning_curves_are_those_of_each_run(records: Records) -> None:
    trial = records.running(0)
    second = replace(records.epoch_record(1, float("nan"), 9.0), run=1)
    curves = view_of(records.study(), [replace(trial, epochs=(*trial.epochs, second))]).curves
    # 0.9 less 0.6 * 0.3, then 0.9 less 0.6 * 0.09.
    assert [(curve.run, curve.epochs) for curve in curves] == [(0, (1, 2)), (1, (1,))]
    assert curves[0].accuracies == pytest.approx((0.72, 0.846))
    assert curves[1].accuracies == (None,)


def test_trials_with_one_schedule_share_a_line(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    rates = {line.mark.policy: line for line in view.rates}
    assert {policy: line.trials for policy, line in rates.items()} == {
        "warm_adabatch": (2, 5),
        "warm_restarts": (7, 9),
        "one_cycle": (8,),
    }
    # Equation 1 at its corners: up to 45 % of five epochs, down to 90 %, on to lr_min / 10.
    line = rates["one_cycle"]
    corners = dict(zip(line.epochs, line.rates, strict=True))
    assert corners == pytest.approx({0.0: 1e-4, 2.25: 1e-3, 4.5: 1e-4, 5.0: 1e-5})
    # Restarts show both sides of the jump.
    line = rates["warm_restarts"]
    at_one = [rate for epoch, rate in zip(line.epochs, line.rates, strict=True) if epoch == 1.0]
    assert at_one == pytest.approx([1e-4, 1e-3])
    assert {line.sizes: line.trials for line in view.batches} == {
        (1, 16, 16, 16, 16): (2,),
        (1, 8, 8, 8, 8): (5,),
        (16, 16, 16, 16, 16): (7, 8),
        (1, 32, 64, 128, 128): (9,),
    }


def test_learning_rates_of_a_trial_are_told(records: Records) -> None:
    parameters = replace(records.parameters_of("one_cycle"), lr_min=2e-5, lr_max=3e-3)
    view = view_of(records.study(), [records.complete(0, 0.9, 9.0, 9, choice=parameters)])
    assert view.trials[0].rates == "learning rate from 2e-05 up to 0.003"
    assert max(view.rates[0].rates) == pytest.approx(3e-3)


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


def test_hover_text_names_trial_and_parameters(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    assert hover(view.trials[9]).split("<br>") == [
        "<b>trial 9</b>, on the front",
        "warm_restarts+adabatch, P = 5",
        "batch 1 → 32 → 64 → 128",
        "reduced decoder, weights shared",
        "accuracy 94.80\u00a0%, test 94.40\u00a0%",
        "104.4 s, 1,483,312 parameters",
        "Test CPU @ 2 GHz",
    ]
