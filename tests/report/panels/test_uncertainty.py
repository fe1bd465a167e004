"""Intervals of accuracies against SciPy's, counts and ranges by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.report.page import page, section_markup
from fastrcaps_search.report.panels import uncertainty
from fastrcaps_search.report.panels.uncertainty import intervals, wilson
from fastrcaps_search.report.sections import sections
from fastrcaps_search.report.trials import MOST_SHOWN, ranges
from tests.report.views import stored_of, view_of, with_runs

if TYPE_CHECKING:
    from tests.report.conftest import Records


def by_scipy(right: int, images: int) -> tuple[float, float]:
    interval = binomtest(right, images).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_wilsons(counted: tuple[int, int]) -> None:
    right, images = counted
    assert wilson(right / images, images) == pytest.approx(by_scipy(right, images), abs=1e-12)


@pytest.mark.parametrize(("right", "images"), [(0, 1), (1, 1), (0, 500), (500, 500)])
def test_the_interval_stays_a_fraction(right: int, images: int) -> None:
    low, high = wilson(right / images, images)
    assert 0.0 <= low < high <= 1.0


@pytest.mark.parametrize(
    ("fraction", "images"), [(1.01, 10), (-0.1, 10), (0.5, 0), (float("nan"), 5)]
)
def test_no_interval_of_what_is_no_fraction(fraction: float, images: int) -> None:
    with pytest.raises(ValueError, match="needs a fraction of at least one image, got"):
        wilson(fraction, images)


def test_how_sure_a_front_is(records: Records) -> None:
    found = uncertainty.gather(view_of(records.study(), records.trials()))
    assert found is not None
    assert [row.trial.number for row in found.rows] == records.front
    assert [row.accuracy for row in found.rows] == [0.970, 0.962, 0.948, 0.944, 0.921]
    expected = [by_scipy(right, 500) for right in (485, 481, 474, 472)]
    for row, interval in zip(found.rows, expected, strict=False):
        assert row.interval == pytest.approx(interval)
    assert (found.largest_runs, found.fewest_runs) == (1, 1)


def test_the_test_set_has_its_own_number_of_images(records: Records) -> None:
    study = records.study(data_set="fashion-mnist", evaluate_on="test")
    said = page(view_of(study, records.trials()))
    assert "Read off the 10,000 images of the test set, each accuracy" in said


def test_runs_are_counted_and_told(records: Records) -> None:
    first, second = records.trials()[5], records.trials()[8]
    first = with_runs(first, [(0.95, 90.0), (0.99, 98.0)])
    found = uncertainty.gather(view_of(records.study(runs_per_trial=2), [first, second]))
    assert found is not None
    assert (found.largest_runs, found.fewest_runs) == (2, 1)
    assert [row.runs for row in found.rows] == [(0.95, 0.99), (0.944,)]


def test_nothing_is_sure_of_nothing(records: Records) -> None:
    assert uncertainty.gather(view_of(records.study(), [])) is None
    assert uncertainty.gather(view_of(records.study(), [records.running(0)])) is None


def test_a_long_front_is_cut_but_counted_whole(records: Records) -> None:
    trials = [records.complete(n, 0.9, 10.0, 5) for n in range(MOST_SHOWN + 6)]
    found = uncertainty.gather(view_of(records.study(), trials))
    assert found is not None
    assert len(found.rows) == MOST_SHOWN


def test_ranges_are_the_ends_of_several_runs(records: Records) -> None:
    trial = with_runs(records.trials()[0], [(0.95, 90.0), (0.91, 98.0), (0.93, 95.0)])
    assert ranges(trial.runs) == {"accuracy": (0.91, 0.95), "training_seconds": (90.0, 98.0)}
    assert ranges(trial.runs[:1]) == {}
    unfinished = replace(trial.runs[1], accuracy=None, training_seconds=None)
    assert ranges([trial.runs[0], unfinished]) == {}
    assert ranges([]) == {}


def test_the_mean_over_runs_has_an_interval_of_its_own(records: Records) -> None:
    found = uncertainty.gather(stored_of("repeated", records))
    assert found is not None
    rows = {row.trial.number: row for row in found.rows}
    # Five runs of 96.8 to 97.2 %: deviation sqrt(10 / 4) per mille, t of 4 degrees 2.776445;
    # two that are 0.2 points off their mean: t of 1 degree 12.706205.
    for number, mean, margin in (
        (5, 0.970, 2.776445 * 0.001 * math.sqrt(2.5 / 5)),
        (2, 0.962, 12.706205 * 0.002),
        (9, 0.948, 12.706205 * 0.002),
    ):
        expected = (mean - margin, mean + margin)
        assert rows[number].mean_interval == pytest.approx(expected, abs=1e-7)
    assert (rows[7].mean_interval, rows[8].mean_interval) == (None, None)
    # A repeat that is under way or failed is no run with a result.
    counts = {number: len(row.runs) for number, row in rows.items()}
    assert counts == {5: 5, 2: 2, 9: 2, 8: 1, 7: 1}
    assert (found.fewest_runs, found.largest_runs, found.repeated) == (1, 5, 3)


def test_the_images_say_how_sure_the_runs_are_and_nothing_of_an_estimate(
    records: Records,
) -> None:
    stored = stored_of("repeated", records)
    found = uncertainty.gather(
        view_of(stored.study, estimated(stored.records, study=stored.study))
    )
    assert found is not None
    by_number = {row.trial.number: row for row in found.rows}
    # The mean of two runs is 481 of 500 images.
    row = by_number[2]
    assert row.measured == pytest.approx(0.962)
    assert row.accuracy != pytest.approx(0.962, abs=1e-5)
    assert row.interval == pytest.approx(by_scipy(481, 500))
    bars, thin = intervals(found)["data"][:2]
    place = bars["customdata"].index(2)
    assert bars["x"][place] == row.measured
    assert bars["x"][place] + bars["error_x"]["array"][place] == pytest.approx(row.interval[1])
    assert thin["x"][place] == row.accuracy
    assert row.mean_interval is not None
    assert thin["x"][place] - thin["error_x"]["arrayminus"][place] == pytest.approx(
        row.mean_interval[0]
    )


def test_an_interval_of_a_mean_stays_a_fraction(records: Records) -> None:
    trial = with_runs(records.complete(0, 0.95, 9.0, 9.0), [(0.9, 9.0), (1.0, 9.0)])
    found = uncertainty.gather(view_of(records.study(), [trial]))
    assert found is not None
    # 0.95 give or take 0.64.
    interval = found.rows[0].mean_interval
    assert interval is not None
    assert interval[0] == pytest.approx(0.95 - 12.706205 * 0.05, abs=1e-7)
    assert interval[1] == 1.0


def test_trials_that_may_belong_to_the_front_are_named(records: Records) -> None:
    view = stored_of("repeated", records)
    found = uncertainty.gather(view)
    assert found is not None
    sure = view.front_probabilities
    behind = {n: sure[n] for n in sure if n not in records.front}
    expected = sorted((n for n in behind if behind[n] >= 0.1), key=lambda n: -behind[n])
    assert [trial.number for trial in found.near] == expected == [1]
    plain = uncertainty.gather(view_of(records.study(), records.trials()))
    assert plain is not None
    assert (plain.near, plain.repeated) == ([], 0)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "Trial 0 (25 %) is"),
        (2, "Trial 0 (25 %) and trial 1 (25 %) are"),
        (3, "Trial 0 (25 %), trial 1 (25 %) and trial 2 (25 %) are"),
        (
            9,
            "Trial 0 (25 %), trial 1 (25 %), trial 2 (25 %), trial 3 (25 %), trial 4 (25 %), "
            "trial 5 (25 %) and 3 more are",
        ),
    ],
)
def test_trials_near_the_front_are_listed_in_words(
    records: Records, number: int, words: str
) -> None:
    view = stored_of("repeated", records)
    found = uncertainty.gather(view)
    assert found is not None
    near = [replace(trial, front_probability=0.25) for trial in view.trials[:number]]
    found = replace(found, near=near)
    (told,) = (section for section in sections(view) if section.panel is uncertainty.PANEL)
    said = section_markup(replace(told, info=found), view).replace("\u00a0", " ")
    assert f" {words} not on the front but may belong there." in said
