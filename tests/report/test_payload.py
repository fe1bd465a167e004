"""What the page's scripts read, taken apart by other means."""

from __future__ import annotations

import base64
import itertools
import json
import struct
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go  # type: ignore[import-untyped]  # it ships no types
import pytest

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.rows import trial_rows
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.report import curves
from fastrcaps_search.report.curves import UNITS, UNKNOWN
from fastrcaps_search.report.page import page
from fastrcaps_search.report.panels.card import MOST_TRACE
from fastrcaps_search.report.tables import csv_text
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import EpochRecord
from tests.report.views import (
    FAILURE,
    HOSTILE,
    KINDS,
    payload,
    stored_of,
    view_of,
    with_runs,
)
from tests.triples import values_of

if TYPE_CHECKING:
    from fastrcaps_search.store.trials import TrialRecord
    from tests.report.conftest import Records


def unpacked(words: str) -> list[float | None]:
    """Little-endian numbers of 16 bits, in parts of 50,000; the largest stands for none."""
    found = struct.unpack(f"<{len(base64.b64decode(words)) // 2}H", base64.b64decode(words))
    return [None if number == 65_535 else number / 50_000 for number in found]


def with_epochs(
    records: Records, trial: TrialRecord, rows: list[tuple[float, float]]
) -> TrialRecord:
    """The trial with epochs of these accuracies and seconds."""
    epochs = tuple(records.epoch_record(n, *row) for n, row in enumerate(rows, start=1))
    return replace(trial, epochs=epochs)


def cards(view: ReportView) -> list[dict[str, Any]]:
    """What the page's card knows of each trial; facts by label."""
    found = payload(view)["panels"]["card"]
    return [
        {**card, "facts": dict(found["said"][place] for place in card["facts"])}
        for card in found["trials"]
    ]


def test_the_page_knows_how_numbers_are_packed(records: Records) -> None:
    found = payload(view_of(records.study(), []))["panels"]["card"]
    assert (found["units"], found["unknown"]) == (UNITS, UNKNOWN)
    assert (UNITS, UNKNOWN) == (50_000, 65_535)


@pytest.mark.parametrize("images", [500, 5_000, 10_000])
def test_packed_curves_are_exact(records: Records, images: int) -> None:
    accuracies = [right / images for right in range(images + 1)]
    trial = with_epochs(records, records.running(0), [(a, 2.0) for a in accuracies])
    (run,) = cards(view_of(records.study(epochs=10_000), [trial]))[0]["runs"]
    assert unpacked(run["curve"]) == accuracies


def test_what_is_not_finite_is_none(records: Records) -> None:
    nan, inf = float("nan"), float("inf")
    rows = [(0.25, 3.0), (nan, 6.0), (inf, 1.5), (-inf, 0.0)]
    trial = with_epochs(records, records.running(0), rows)
    (run,) = cards(view_of(records.study(), [trial]))[0]["runs"]
    assert unpacked(run["curve"]) == [0.25, None, None, None]
    assert run["longest"] == 6.0
    spent = [share * run["longest"] for share in unpacked(run["spent"]) if share is not None]
    assert spent == pytest.approx([3.0, 6.0, 1.5, 0.0])


def test_seconds_of_each_epoch_are_near(records: Records) -> None:
    rows = [(0.5, 0.013 * 1.37**n) for n in range(30)]
    trial = with_epochs(records, records.running(0), rows)
    (run,) = cards(view_of(records.study(), [trial]))[0]["runs"]
    spent = [(share or 0.0) * run["longest"] for share in unpacked(run["spent"])]
    assert run["longest"] == max(seconds for _, seconds in rows)
    # Half a part of the longest.
    assert spent == pytest.approx([seconds for _, seconds in rows], abs=run["longest"] / 99_999)


def test_each_run_has_its_own_curve(records: Records) -> None:
    trial = with_runs(records.trials()[5], [(0.95, 90.0), (0.99, 98.0)])
    second = [
        replace(e, metrics=replace(e.metrics, accuracy=0.5)) if e.run else e for e in trial.epochs
    ]
    (card,) = cards(view_of(records.study(), [replace(trial, epochs=tuple(second))]))
    runs = card["runs"]
    assert card["facts"]["seeds"] == "7, 8"
    # 0.97 less 0.6 * 0.3^n, but for the last.
    climbing = [0.97 - 0.6 * 0.3**n for n in range(1, 5)] + [0.97]
    assert unpacked(runs[0]["curve"]) == pytest.approx(climbing, abs=1e-5)
    assert unpacked(runs[1]["curve"]) == [0.5] * 5


def test_a_run_without_epochs_has_an_empty_curve(records: Records) -> None:
    trial = records.running(0, epochs=0)
    (run,) = cards(view_of(records.study(), [trial]))[0]["runs"]
    assert (run["curve"], run["spent"], run["longest"]) == ("", "", 0.0)


@pytest.mark.parametrize(
    ("most", "carried"),
    [
        (55, set(range(11))),
        # Those on the front first, then by number.
        (54, set(range(10))),
        (35, {5, 2, 9, 8, 7, 0, 1}),
        (25, {5, 2, 9, 8, 7}),
        (24, {2, 5, 7, 8}),
        (0, set()),
    ],
)
def test_curves_that_do_not_fit_are_left_out(
    records: Records, monkeypatch: pytest.MonkeyPatch, most: int, carried: set[int]
) -> None:
    monkeypatch.setattr(curves, "MOST_EPOCHS", most)
    found = cards(view_of(records.study(), records.trials()))
    assert {n for n, card in enumerate(found) if "runs" in card} == carried
    # What is said of a run is said all the same.
    assert all(card["facts"]["device"] for card in found)


@pytest.mark.parametrize("kind", KINDS)
def test_every_study_is_plain_json(records: Records, kind: str) -> None:
    view = stored_of(kind, records)
    found = payload(view)
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text)["rows"] == trial_rows(view.records, view.leases)
    assert len(found["trials"]) == len(found["rows"]) == len(view.records)
    assert found["csv"] == csv_text(trial_rows(view.records, view.leases))
    go.Figure({"data": [], "layout": found["panels"]["card"]["layout"]})


def test_numbers_that_are_not_finite_do_not_reach_the_page(records: Records) -> None:
    nan, inf = float("nan"), float("inf")
    plain = records.trials()[:3]
    odd = []
    for number, (accuracy, seconds) in enumerate(itertools.product((nan, inf, 0.9), repeat=2)):
        trial = records.complete(number + 3, 0.9, 50.0, 9.0)
        run = replace(trial.runs[0], accuracy=accuracy, training_seconds=seconds)
        tested = replace(run, test_accuracy=nan)
        values = values_of(accuracy, seconds, nan)
        trial = replace(trial, values=values, runs=(tested, tested))
        odd.append(with_epochs(records, trial, [(accuracy, seconds)] * 5))
        valued = records.complete(number + 20, 0.9, 50.0, 9.0, runs=(run, run))
        odd.append(with_epochs(records, valued, [(accuracy, seconds)] * 5))
    view = view_of(records.study(runs_per_trial=2), [*plain, *odd])
    json.dumps(payload(view), allow_nan=False)
    assert "</html>" in page(view)


def test_what_the_page_knows_of_a_trial(records: Records) -> None:
    trial = replace(
        records.trials()[5],
        epochs=tuple(
            replace(epoch, token=1 + (epoch.metrics.epoch > 2), worker=f"w{epoch.metrics.epoch}")
            for epoch in records.trials()[5].epochs
        ),
    )
    view = view_of(records.study(), [trial])
    assert payload(view)["trials"] == [
        {"policy": "warm_adabatch", "words": "w1 w2 w3 w4 w5 front"},
    ]
    (card,) = cards(view)
    assert {label: said.replace("\u00a0", " ") for label, said in card["facts"].items()} == {
        "state": "complete",
        "on the front": "? (nothing was repeated)",
        "P": "3",
        "batch size": "1 → 8",
        "decoder": "full",
        "shared weights": "no",
        "accuracy": "97.00 %",
        "test accuracy": "96.60 %",
        "training time": "94.0 s",
        "parameters": "1,915,440",
        "best epoch": "5",
        "samples": "20,000 up to the best epoch",
        "steps": "1,250 up to the best epoch",
        "device": "Test CPU @ 2 GHz",
        "threads": "1",
        "workers per device": "1",
        "torch": "2.14.1, fp32",
        "seed": "7",
        "trained by": "w1, w2, w3, w4, w5",
        "claims with a stored epoch": "2 (1 continued or taken over)",
    }
    assert card["isKept"] is True
    assert "failure" not in card


def test_a_failure_keeps_the_end_of_its_trace(records: Records) -> None:
    failure = replace(FAILURE, trace="x" * 9_000 + "the end")
    (more,) = cards(view_of(records.study(), [records.failed(0, failure)]))
    assert more["failure"]["kind"] == "DivergedError"
    assert more["failure"]["log"] == "a.log"
    assert len(more["failure"]["trace"]) == MOST_TRACE
    assert more["failure"]["trace"].endswith("xxthe end")


def test_ranges_are_told_where_there_are_several_runs(records: Records) -> None:
    trial = with_runs(records.trials()[5], [(0.95, 90.0), (0.99, 98.0)])
    (card,) = cards(view_of(records.study(), [trial]))
    said = card["facts"]["training time"].replace("\u00a0", " ")
    # Two runs of 90 and 98 s: 4 s off their mean, t of 1 degree 12.706.
    assert said == "94.0 s ± 50.8 (runs 90.0 to 98.0)"
    assert card["facts"]["each run"].replace("\u00a0", " ") == "95.00 %, 99.00 %"


def test_trials_of_one_schedule_share_it(records: Records) -> None:
    found = payload(view_of(records.study(), records.trials()))["panels"]["card"]
    lines = [(tuple(card["rate"]), tuple(card["batch"])) for card in found["trials"]]
    # fixed, one-cycle, warm AdaBatch of P = 4, decay with AdaBatch, warm AdaBatch of P = 3,
    # fixed with AdaBatch, restarts, restarts with AdaBatch, decay.
    distinct = list(dict.fromkeys(lines))
    assert [distinct.index(line) for line in lines] == [0, 1, 2, 3, 0, 4, 5, 6, 1, 7, 8]


def test_the_page_has_the_points_of_each_schedule(records: Records) -> None:
    trial = records.trials()[1]
    faster = replace(trial.parameters, lr_max=5e-3)
    twice = [trial, replace(trial, number=1, parameters=faster)]
    found = payload(view_of(records.study(), twice))["panels"]["card"]
    for card, highest in zip(found["trials"], (1e-3, 5e-3), strict=True):
        epochs, shape, low, high = card["rate"]
        heights = [low + (high - low) * part for part in found["lines"][shape]]
        # Equation 1: up over 45 % of five epochs, down over 45 %, then to a tenth of 1e-4.
        corners = dict(zip(found["lines"][epochs], heights, strict=True))
        assert corners == pytest.approx({0.0: 1e-4, 2.25: highest, 4.5: 1e-4, 5.0: 1e-5}, rel=1e-3)
        starts, sizes, *ends = card["batch"]
        # Batch sizes are carried as they are.
        assert (found["lines"][starts], found["lines"][sizes]) == ((0, 5), (16, 16))
        assert ends == [0, 1]


def test_fronts_marks_and_axes(records: Records) -> None:
    found = payload(view_of(records.study(), records.trials()))
    assert found["fronts"]["seconds"] == records.front
    assert set(found["fronts"]) == {"seconds", "epochs", "samples", "steps", "paper"}
    assert list(found["fronts"]) == ["seconds", "epochs", "samples", "steps", "paper"]
    assert list(found["marks"])[:2] == ["fixed", "fixed+adabatch"]
    assert found["marks"]["fixed"] == {
        "light": "#000000",
        "dark": "#ffffff",
        "outline": "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12z",
    }


def test_the_study_says_where_it_lies_and_how_it_is_repeated(records: Records) -> None:
    for storage, words in (
        ("", ""),
        ("a b.db", " --storage 'a b.db'"),
        (None, ' --storage "${FASTRCAPS_STORAGE:?}"'),
    ):
        found = payload(ReportView(records.study(), records.trials(), storage=storage))
        card = found["panels"]["card"]
        assert card["select"] == f"fastrcaps-search select --study mnist-mini{words}"
        assert card["export"] == f"fastrcaps-search export --study mnist-mini{words}"
    assert (found["study"]["name"], card["seed"]) == ("mnist-mini", 7)
    assert found["study"]["inProgress"] is True
    # The protocol alone: the page adds a name and the configuration of a trial.
    values = tomllib.loads(card["file"])
    assert not {"name", "space", "configuration"} & set(values)
    again = StudyDefinition.from_dict({**values, "name": "mnist-mini"})
    assert again == records.study().definition


def test_texts_from_outside_come_whole(records: Records) -> None:
    trial = records.failed(0, replace(FAILURE, message=HOSTILE, trace=HOSTILE))
    found = payload(view_of(records.study(), [trial]))
    assert found["trials"][0]["note"] == found["rows"][0]["reason"] == HOSTILE


def large(records: Records, *, trials: int, epochs: int) -> list[TrialRecord]:
    """Trials whose numbers have all their digits."""
    choices = [trial.parameters for trial in records.trials()]
    found = []
    for number in range(trials):
        stored = tuple(
            EpochRecord(
                0,
                1,
                "worker-1",
                EpochMetrics(
                    epoch=epoch,
                    batch_size=16,
                    lr_start=1e-3,
                    lr_end=1e-3,
                    loss=0.1,
                    classification_loss=0.08,
                    reconstruction_loss=0.02,
                    training_accuracy=0.9,
                    accuracy=1 - 0.5 / (epoch + number % 13),
                    training_seconds=1 / 3 + 1e-3 * ((epoch * 7 + number) % 11),
                    evaluation_seconds=0.5,
                    steps=250,
                    samples=4_000,
                ),
                records.setting,
                1,
                0.0,
            )
            for epoch in range(1, epochs + 1)
        )
        values = (
            0.9 + 0.09 * ((number * 37) % trials) / trials,
            40.0 + ((number * 53) % 997) / 7,
            1_000_000 + 1_000 * ((number * 29) % 17),
        )
        choice = choices[number % len(choices)]
        found.append(records.complete(number, *values, choice=choice, epochs=stored))
    return found


@pytest.mark.slow
def test_a_page_of_a_thousand_trials_of_a_hundred_epochs_is_small(records: Records) -> None:
    trials = large(records, trials=1_000, epochs=100)
    study = records.study(budget=1_000, epochs=100)
    view = ReportView(study, trials)
    assert len(page(view).encode()) < 8_000_000
    found = cards(view)
    assert all(len(base64.b64decode(card["runs"][0]["curve"])) == 200 for card in found)


def keys_of(value: Any) -> set[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return {str(key) for key in value}.union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list | tuple) else set()


def test_nothing_in_it_names_a_machine_id(records: Records) -> None:
    found = json.dumps(payload(stored_of("full", records)))
    assert "desk/1f" not in found
    assert "boot" not in keys_of(json.loads(found))


def test_each_run_says_its_accuracy_or_why_it_failed(records: Records) -> None:
    view = stored_of("repeated", records)
    facts = [
        {label: said.replace("\u00a0", " ") for label, said in card["facts"].items()}
        for card in cards(view)
    ]
    assert facts[5]["each run"] == "96.80 %, 96.90 %, 97.00 %, 97.10 %, 97.20 %"
    assert facts[5]["accuracy"] == "97.00 % ± 0.20 (mean of 5 runs)"
    assert facts[2]["each run"] == "96.00 %, 96.40 %"
    assert facts[9]["run 2 failed"] == "the disk <b>is</b> full"
    assert facts[3]["run 1 failed"] == "diverged at epoch 2"
    assert not any("failed" in label for label in facts[2])
    assert facts[2]["note"] == "run 2: 2 of 5 epochs done, held by desk (cpu)"
    # Each repeat has a claim of its own, which took nothing over.
    assert not any("claims with a stored epoch" in each for each in facts)
    assert facts[2]["steps"] == "1,250 up to the best epoch"


def test_an_estimate_stands_beside_the_mean_that_was_measured(records: Records) -> None:
    stored = stored_of("repeated", records)
    (first, *_) = estimated(stored.records, study=stored.study)
    assert first.values is not None
    (card, *_) = cards(view_of(stored.study, estimated(stored.records, study=stored.study)))
    said = card["facts"]["accuracy"].replace("\u00a0", " ")
    assert said.startswith(f"{100 * first.values.accuracy:.2f} % ± ")
    assert said.endswith("(estimate; its run 93.80 %)")
