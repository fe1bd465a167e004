"""How the front grew, by hand and by counting cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.analysis.summary import summarise
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.report.panels import progress as panel
from fastrcaps_search.report.panels.progress import Progress
from fastrcaps_search.store.records import StudyRecord, Values
from tests.report.views import FAILURE, view_of, with_repeat, with_runs
from tests.triples import box_of, values_of

if TYPE_CHECKING:
    from fastrcaps_search.store.trials import TrialRecord
    from tests.report.conftest import Records

BOX = box_of(accuracy=(0.0, 1.0), training_seconds=(20.0, 5.0), parameters=(200.0, 100.0))


def progress(study: StudyRecord, trials: Sequence[TrialRecord]) -> Progress | None:
    return panel.gather(view_of(study, trials))


ROWS = [(0.9, 10.0, 100.0), (0.8, 5.0, 100.0)]


def test_two_trials_by_hand(records: Records) -> None:
    # The quick trial reaches 0.8 along accuracy and all of the octaves of seconds, the accurate
    # one 0.9 and half of them. The quick one finished first, then a failed one.
    accurate, quick = (records.complete(n, *row) for n, row in enumerate(ROWS))
    found = progress(
        boxed(records),
        [
            replace(accurate, finished_at=300.0),
            replace(quick, finished_at=100.0),
            replace(records.failed(2, FAILURE), finished_at=200.0),
            records.running(3),
        ],
    )
    assert found is not None
    assert found.trials == (1, 2, 0)
    assert found.hypervolumes == pytest.approx((0.8, 0.8, 0.85))


def test_seconds_spent_are_those_of_all_epochs(records: Records) -> None:
    # The best epoch of the first was its second; the failed one had done two epochs of 3 s.
    first = records.complete(0, 0.9, 50.0, 100)
    first = replace(first, runs=(replace(first.runs[0], best_epoch=2),), finished_at=10.0)
    epochs = tuple(records.epoch_record(epoch, 0.1, 3.0) for epoch in (1, 2))
    lost = replace(records.failed(1, FAILURE), epochs=epochs, finished_at=20.0)
    last = replace(records.complete(2, 0.8, 5.0, 100), finished_at=30.0)
    found = progress(boxed(records), [last, lost, first])
    assert found is not None
    assert found.trials == (0, 1, 2)
    assert found.spent_seconds == pytest.approx((50.0, 56.0, 61.0))


def test_trials_of_one_end_come_by_number(records: Records) -> None:
    trials = [replace(trial, finished_at=50.0) for trial in records.trials()]
    found = progress(boxed(records), trials[::-1])
    assert found is not None
    assert found.trials == tuple(range(11))


@pytest.mark.parametrize("step", [1, 3, 7])
def test_every_value_equals_the_cells_that_the_trials_so_far_beat(
    records: Records, step: int
) -> None:
    # Steps that 11 does not divide: other orders of the same eleven trials.
    trials = [
        replace(trial, finished_at=float(step * trial.number % 11)) for trial in records.trials()
    ]
    study = records.study()
    assert study.box is not None
    found = progress(study, trials)
    assert found is not None
    in_order = sorted(trials, key=lambda trial: trial.finished_at or 0.0)
    assert list(found.trials) == [trial.number for trial in in_order]
    expected = [share_of_cells(in_order[:count], study.box) for count in range(1, 12)]
    assert found.hypervolumes == pytest.approx(expected)
    assert found.hypervolumes[-1] == pytest.approx(summarise(study, trials, ()).hypervolume)
    assert list(found.hypervolumes) == sorted(found.hypervolumes)


def share_of_cells(trials: Sequence[TrialRecord], box: Box) -> float:
    """Share of the box that ``trials`` dominate, cell by cell of the grid of all values."""
    rows = costs([trial.values for trial in trials if trial.values is not None])
    best, worst = costs(
        [
            values_of(
                box.edges["accuracy"][place],
                box.edges["training_seconds"][place],
                box.edges["parameters"][place],
            )
            for place in (1, 0)
        ]
    )
    # Beyond the box is as good as its edge.
    rows = [(max(a, best[0]), max(s, best[1]), max(p, best[2])) for a, s, p in rows]
    cuts = [
        sorted({row[column] for row in rows} | {best[column], worst[column]})
        for column in range(3)
    ]
    beaten = whole = 0.0
    for cell in itertools.product(*(itertools.pairwise(cut) for cut in cuts)):
        volume = 1.0
        for low, high in cell:
            volume *= high - low
        whole += volume
        corner = [low for low, _ in cell]
        if any(all(x <= c for x, c in zip(row, corner, strict=True)) for row in rows):
            beaten += volume
    return beaten / whole


def costs(values: Sequence[Values]) -> list[tuple[float, float, float]]:
    return [(-v.accuracy, math.log(v.training_seconds), math.log(v.parameters)) for v in values]


def boxed(records: Records, **keys: int) -> StudyRecord:
    """A study whose box is small enough for figures by hand."""
    return replace(records.study(**keys), box=BOX)


def test_no_progress_before_the_first_complete_trial(records: Records) -> None:
    assert progress(boxed(records), []) is None
    assert progress(boxed(records), [records.running(0)]) is None
    assert progress(boxed(records), [records.failed(0, FAILURE)]) is None
    unboxed = replace(boxed(records), box=None)
    assert progress(unboxed, [records.complete(0, *ROWS[0])]) is None


def test_a_value_that_is_not_finite_adds_nothing(records: Records) -> None:
    odd = records.complete(0, float("nan"), 1.0, 1)
    trials = [odd, *(records.complete(n, *row) for n, row in enumerate(ROWS, start=1))]
    found = progress(boxed(records), trials)
    assert found is not None
    assert found.hypervolumes == pytest.approx((0.0, 0.45, 0.85))


def test_repeats_cost_the_search_nothing(records: Records) -> None:
    first, second = (
        replace(records.complete(number, *row), finished_at=10.0 + number)
        for number, row in enumerate(ROWS)
    )
    begun = [records.epoch_record(1, 0.1, 500.0)]
    repeated = [with_repeat(with_runs(first, [(0.9, 10.0)] * 3), begun), second]
    found = progress(boxed(records), repeated)
    assert found is not None
    assert found.spent_seconds == pytest.approx((10.0, 15.0))
    assert found == progress(boxed(records), [first, second])
    # Three runs of each are the search's own: three times the ten seconds of the first.
    found = progress(boxed(records, runs_per_trial=3), repeated)
    assert found is not None
    assert found.spent_seconds == pytest.approx((30.0, 35.0))
