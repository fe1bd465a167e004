"""Learning curves one by one, and as a band where they are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fastrcaps_search.report.panels import learning
from fastrcaps_search.report.panels.learning import MOST_FAINT_LINES, Curves, learning_curves
from fastrcaps_search.report.plots import MUTED
from fastrcaps_search.report.trials import MOST_SHOWN
from tests.report.views import FAILURE, many, view_of, with_repeat

if TYPE_CHECKING:
    from fastrcaps_search.report.plots import Trace
    from fastrcaps_search.store.trials import TrialRecord
    from tests.report.conftest import Records


def curves_of(records: Records, trials: Sequence[TrialRecord]) -> Curves:
    found = learning.gather(view_of(records.study(), trials))
    assert found is not None
    return found


def band_of(curves: Curves) -> list[Trace]:
    """Lowest, highest, both quartiles and the median, as they are drawn."""
    lines: list[Trace] = learning_curves(curves)["data"]
    return lines[:5]


def ending(records: Records, number: int, accuracies: Sequence[float]) -> TrialRecord:
    """A trial that loses to any with more than no accuracy, with these epochs."""
    epochs = tuple(
        records.epoch_record(epoch, accuracy, 1.0)
        for epoch, accuracy in enumerate(accuracies, start=1)
    )
    return replace(records.complete(number, 0.0, 500.0, 500.0), epochs=epochs)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A band of more than two runs."""
    monkeypatch.setattr(learning, "MOST_FAINT_LINES", 2)


def test_curves_are_those_of_each_run(records: Records) -> None:
    trial = records.running(0)
    second = replace(records.epoch_record(1, float("nan"), 9.0), run=1)
    found = curves_of(records, [replace(trial, epochs=(second, *trial.epochs[::-1]))])
    assert (found.front, found.has_band) == ([], False)
    # 0.9 less 0.6 * 0.3, then 0.9 less 0.6 * 0.09.
    assert [line.run for line in found.others] == [0, 1]
    assert found.others[0].accuracies == pytest.approx({1: 0.72, 2: 0.846})
    assert found.others[1].accuracies == {1: None}


def test_the_front_comes_in_its_order_and_the_others_by_number(records: Records) -> None:
    found = curves_of(records, records.trials())
    assert [line.trial.number for line in found.front] == records.front
    assert [line.trial.number for line in found.others] == [0, 1, 3, 4, 6, 10]


def test_before_the_first_epoch_there_are_none(records: Records) -> None:
    assert learning.gather(view_of(records.study(), [])) is None
    assert learning.gather(view_of(records.study(), [records.failed(0, FAILURE)])) is None
    assert learning.gather(view_of(records.study(), [records.running(0, epochs=0)])) is None


def test_quantiles_of_a_band_by_hand(records: Records, few: None) -> None:
    front = records.complete(0, 0.9, 5.0, 5.0)
    others = [
        ending(records, 1, [0.1, 0.2]),
        ending(records, 2, [0.5]),
        ending(records, 3, [0.3, float("nan")]),
        ending(records, 4, [0.4, 0.6]),
        ending(records, 5, [0.2]),
    ]
    found = curves_of(records, [front, *others])
    assert [line.trial.number for line in found.front] == [0]
    assert found.has_band
    levels = band_of(found)
    assert {tuple(level["x"]) for level in levels} == {(1, 2)}
    expected = [[0.1, 0.2], [0.5, 0.6], [0.2, 0.3], [0.4, 0.5], [0.3, 0.4]]
    assert np.array([level["y"] for level in levels]) == pytest.approx(np.array(expected))
    assert "median of 5 other runs" in levels[-1]["hovertemplate"]


def test_a_band_of_many_is_numpys(records: Records) -> None:
    trials = many(records, 200)
    found = curves_of(records, trials)
    shown = {line.trial.number for line in found.front}
    rest = [trial for trial in trials if trial.number not in shown]
    assert len(found.others) == len(rest) > MOST_FAINT_LINES
    table = np.array([[epoch.metrics.accuracy for epoch in trial.epochs] for trial in rest])
    expected = np.percentile(table, [0, 100, 25, 75, 50], axis=0)
    levels = band_of(found)
    assert np.array([level["y"] for level in levels]) == pytest.approx(expected)
    assert {tuple(level["x"]) for level in levels} == {(1, 2, 3, 4, 5)}


def test_at_the_limit_lines_are_still_lines(records: Records) -> None:
    others = [ending(records, n, [0.1]) for n in range(1, MOST_FAINT_LINES + 2)]
    front = records.complete(0, 0.9, 5.0, 5.0)
    assert not curves_of(records, [front, *others[:-1]]).has_band
    assert curves_of(records, [front, *others]).has_band


def test_only_the_first_of_a_long_front_are_strong(records: Records) -> None:
    trials = [records.complete(n, 0.9, 9.0, 9.0) for n in range(MOST_SHOWN + 3)]
    found = curves_of(records, trials)
    assert [line.trial.number for line in found.front] == list(range(MOST_SHOWN))
    assert [line.trial.number for line in found.others] == [24, 25, 26]


def test_a_band_without_one_finite_accuracy_can_be_drawn(records: Records, few: None) -> None:
    front = records.complete(0, 0.9, 5.0, 5.0)
    others = [ending(records, n, [float("nan")]) for n in range(3, 9)]
    found = curves_of(records, [front, *others])
    assert found.has_band
    assert {tuple(level["x"]) for level in band_of(found)} == {()}
    assert learning_curves(found)["layout"]["yaxis"]["title"]["text"] == "accuracy"


def test_lines_of_a_band_are_drawn_muted_and_those_of_the_front_in_their_colour(
    records: Records, few: None
) -> None:
    front = records.complete(0, 0.9, 5.0, 5.0)
    others = [ending(records, n, [0.1 * n, 0.2]) for n in range(1, 5)]
    data = learning_curves(curves_of(records, [front, *others]))["data"]
    assert [trace.get("customdata") for trace in data] == [None] * 5 + [[0] * 5]
    assert data[4]["line"]["color"] == MUTED.light
    assert data[4]["y"] == pytest.approx([0.25, 0.2])
    assert "median of 4 other runs" in data[4]["hovertemplate"]
    assert data[5]["opacity"] == 1.0


def test_a_repeat_under_way_is_a_line_of_its_own(records: Records) -> None:
    begun = [records.epoch_record(1, 0.3, 9.0)]
    trial = with_repeat(records.complete(0, 0.9, 5.0, 5.0), begun)
    found = curves_of(records, [trial])
    assert [(line.run, list(line.accuracies)) for line in found.front] == [
        (0, [1, 2, 3, 4, 5]),
        (1, [1]),
    ]
    assert found.front[0].accuracies[5] == 0.9
