"""Training time in every measure, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.report.fronts import TimeAxis, positions
from tests.report.views import FAILURE, with_repeat

if TYPE_CHECKING:
    from fastrcaps_search.store.records import EpochRecord
    from fastrcaps_search.store.trials import TrialRecord
    from tests.report.conftest import Records

GROWING = [(8.0, 4_000), (2.0, 250), (1.5, 125), (1.0, 63), (1.0, 63)]
"""Seconds and steps of each epoch of 4,000 images: batch 1, 16, 32, 64, 64."""


def epochs_of(
    records: Records, rows: list[tuple[float, int]], run: int = 0
) -> tuple[EpochRecord, ...]:
    found = []
    for epoch, (seconds, steps) in enumerate(rows, start=1):
        record = records.epoch_record(epoch, 0.9, seconds)
        found.append(replace(record, run=run, metrics=replace(record.metrics, steps=steps)))
    return tuple(found)


@pytest.fixture
def growing(records: Records) -> TrialRecord:
    """One run whose batch grows; its third epoch is the best."""
    trial = records.complete(0, 0.9, 11.5, 100)
    run = replace(trial.runs[0], best_epoch=3)
    return replace(trial, runs=(run,), epochs=epochs_of(records, GROWING))


@pytest.fixture
def twice(records: Records, growing: TrialRecord) -> TrialRecord:
    """A second run of five seconds per epoch, best after the second."""
    run = replace(growing.runs[0], run=1, best_epoch=2)
    epochs = epochs_of(records, [(5.0, 250)] * 5, run=1)
    return replace(growing, runs=(*growing.runs, run), epochs=(*growing.epochs, *epochs))


def test_measures_of_one_run(growing: TrialRecord) -> None:
    found = positions(growing)
    assert found == {
        TimeAxis.SECONDS: 11.5,
        TimeAxis.EPOCHS: 3.0,
        TimeAxis.SAMPLES: 12_000,
        TimeAxis.STEPS: 4_000 + 250 + 125,
        # Three times the mean over all five epochs, 13.5 s / 5: not 8 + 2 + 1.5.
        TimeAxis.PAPER: pytest.approx(8.1),
    }


def test_measures_of_two_runs_are_means(twice: TrialRecord) -> None:
    assert positions(twice) == {
        TimeAxis.SECONDS: 11.5,
        TimeAxis.EPOCHS: 2.5,
        TimeAxis.SAMPLES: 10_000,
        TimeAxis.STEPS: (4_375 + 500) / 2,
        TimeAxis.PAPER: pytest.approx((8.1 + 10.0) / 2),
    }


@pytest.mark.parametrize("missing", [1, 3])
def test_a_missing_epoch_leaves_out_what_needs_it(growing: TrialRecord, missing: int) -> None:
    kept = tuple(epoch for epoch in growing.epochs if epoch.metrics.epoch != missing)
    found = positions(replace(growing, epochs=kept))
    assert found == {TimeAxis.SECONDS: 11.5, TimeAxis.EPOCHS: 3.0}


def test_one_run_without_epochs_leaves_out_the_mean(twice: TrialRecord) -> None:
    first = tuple(epoch for epoch in twice.epochs if epoch.run == 0)
    found = positions(replace(twice, epochs=first))
    assert found == {TimeAxis.SECONDS: 11.5, TimeAxis.EPOCHS: 2.5}


def test_without_a_best_epoch_only_seconds_are_known(growing: TrialRecord) -> None:
    run = replace(growing.runs[0], best_epoch=None)
    assert positions(replace(growing, runs=(run,))) == {TimeAxis.SECONDS: 11.5}
    assert positions(replace(growing, runs=())) == {TimeAxis.SECONDS: 11.5}


def test_measures_that_are_not_finite_are_left_out(records: Records, growing: TrialRecord) -> None:
    rows = [(float("nan"), 4_000), *GROWING[1:]]
    found = positions(replace(growing, epochs=epochs_of(records, rows)))
    assert TimeAxis.PAPER not in found
    assert found[TimeAxis.STEPS] == 4_375


def test_a_trial_without_values_has_no_place(records: Records) -> None:
    assert positions(records.running(0)) == {}


def test_words() -> None:
    assert TimeAxis.SECONDS.choice == "training seconds"
    assert TimeAxis.EPOCHS.choice == TimeAxis.EPOCHS.words == "epochs"
    assert len({axis.choice for axis in TimeAxis}) == len(TimeAxis)


def test_a_repeat_without_a_result_moves_nothing(records: Records, twice: TrialRecord) -> None:
    before = positions(twice)
    begun = [records.epoch_record(epoch, 0.99, 500.0) for epoch in (1, 2)]
    assert positions(with_repeat(twice, begun)) == before
    assert positions(with_repeat(with_repeat(twice, begun, FAILURE), [])) == before
