"""Where training seconds come from, and what computed ones are worth, by hand."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fastrcaps_search.analysis.reference_seconds import check, reference_seconds
from fastrcaps_search.analysis.rows import trial_row
from fastrcaps_search.cli.output import trial_cells
from fastrcaps_search.report.tables import csv_text
from fastrcaps_search.store.records import EpochRecord, SecondsBasis
from fastrcaps_search.store.trials import TrialRecord
from tests.analysis.test_summary import METRICS, SETTING, study, trial


def epoch(size: int, measured: float, computed: float | None = None) -> EpochRecord:
    metrics = replace(METRICS, batch_size=size, samples=100, training_seconds=measured)
    return EpochRecord(0, 1, "w", metrics, SETTING, 1, 0.0, computed)


def counted(
    number: int,
    computed: Sequence[int],
    *,
    epochs: Sequence[EpochRecord] = (),
) -> TrialRecord:
    """A complete trial of 12 s in the mean of its runs, by how many of 4 epochs were computed."""
    made = trial(number, (0.9, 12.0, 100.0))
    runs = tuple(
        replace(made.runs[0], run=run, best_epoch=4, computed_epochs=count, measured_seconds=3.0)
        for run, count in enumerate(computed)
    )
    return replace(made, runs=runs, epochs=tuple(epochs))


def figures(trials: list[TrialRecord]) -> list[float]:
    found = check(trials)
    assert found is not None
    return [found.pairs, found.median, found.largest, found.bias]


@pytest.mark.parametrize(
    ("computed", "basis"),
    [
        ([0], SecondsBasis.MEASURED),
        ([0, 0], SecondsBasis.MEASURED),
        ([1], SecondsBasis.PARTLY),
        ([4], SecondsBasis.COMPUTED),
        ([4, 4], SecondsBasis.COMPUTED),
        ([4, 0], SecondsBasis.PARTLY),
    ],
)
def test_the_basis_of_a_trial_is_that_of_its_runs(
    computed: list[int], basis: SecondsBasis
) -> None:
    assert counted(0, computed).seconds_basis is basis


def test_rows_tables_and_files_say_what_was_computed() -> None:
    rows = [trial_row(counted(0, [0])), trial_row(counted(1, [4])), trial_row(counted(2, [1]))]
    assert rows[0].keys() & {"seconds_basis", "measured_seconds"} == set()
    assert [row.get("seconds_basis") for row in rows] == [None, "computed", "partly computed"]
    assert rows[1]["measured_seconds"] == 3.0
    assert rows[1]["values"]["training_seconds"] == 12.0
    assert [trial_cells(row)[8] for row in rows] == ["12.0", "~12.0", "~12.0"]
    read = list(csv.DictReader(csv_text(rows).splitlines()))
    assert [row["seconds_basis"] for row in read] == ["", "computed", "partly computed"]
    assert [row["measured_seconds"] for row in read] == ["", "3.0", "3.0"]
    # A study of one device has the columns that it always had.
    assert "seconds_basis" not in csv_text(rows[:1])


def test_computed_and_measured_seconds_of_a_configuration_are_compared() -> None:
    # Batch 8: 2 and 4 s of 100 images measured, 3.3 s computed. Batch 16: 1 s and 0.8 s. Batch 32
    # was measured alone. 4.1 s against 4 s.
    both = counted(
        0,
        [2],
        epochs=[
            *(epoch(8, 2.0), epoch(8, 4.0), epoch(16, 1.0), epoch(32, 9.0)),
            *(epoch(8, 0.5, 3.3), epoch(16, 0.2, 0.8)),
        ],
    )
    assert figures([both]) == pytest.approx([1, 0.025, 0.025, 0.025])
    # 12 % and 3 % too low: errors of both signs do not make up for each other.
    others = [
        counted(1, [1], epochs=[epoch(8, 2.0), epoch(8, 0.5, 1.76)]),
        counted(2, [1], epochs=[epoch(8, 2.0), epoch(8, 0.5, 1.94)]),
    ]
    assert figures([both, *others]) == pytest.approx([3, 0.03, 0.12, -0.03])


def test_an_epoch_in_which_workers_came_or_went_is_no_pair() -> None:
    # Two workers until the second epoch, in which one of them ended, and again from the fourth,
    # in which another began: in between 2 s alone, 2.5 s as two.
    def shared(number: int, sharing: int, measured: float, computed: float | None) -> EpochRecord:
        made = epoch(8, measured, computed)
        return replace(made, metrics=replace(made.metrics, epoch=number), sharing=sharing)

    epochs = [
        *(shared(1, 2, 2.4, None), shared(2, 2, 2.1, None), shared(3, 1, 2.0, 2.5)),
        *(shared(4, 2, 2.2, None), shared(5, 2, 2.6, None)),
    ]
    assert figures([counted(0, [1], epochs=epochs)]) == pytest.approx([1, 0.0, 0.0, 0.0])


def test_without_a_pair_nothing_is_checked() -> None:
    apart = [
        counted(0, [0], epochs=[epoch(8, 2.0)]),
        counted(1, [4], epochs=[epoch(8, 1.0, 2.0)]),
        counted(2, [1], epochs=[epoch(8, 2.0), epoch(16, 1.0, 2.0)]),
    ]
    assert check(apart) is None
    found = reference_seconds(replace(study(3), reference_device="a CPU"), apart)
    assert found.words == "those of a CPU: 1 measured, 1 partly computed, 1 computed"
    assert found.worth == "not checked yet: no configuration has been trained both ways"
    assert found.computed == 2


def test_what_the_computation_is_worth_is_said() -> None:
    named = replace(study(3), reference_device="a CPU")
    pair = counted(0, [1], epochs=[epoch(8, 2.0), epoch(8, 0.5, 1.76)])
    found = reference_seconds(named, [pair])
    assert found.worth == (
        "checked on 1 configuration trained both ways: off by 12.0 % in the median "
        "(bias -12.0 %), 12.0 % at the most"
    )
