"""Axes: right for one value as for many, with ticks that one can read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrcaps_search.definition.objective import PARAMETERS
from fastrcaps_search.report import axes
from fastrcaps_search.report.fronts import TimeAxis


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([62.3, 171.0], [75, 100, 125, 150, 175]),
        ([3.0, 900.0], [10, 100, 1000]),
        ([30.0, 2000.0], [30, 100, 300, 1000]),
    ],
)
def test_ticks_of_seconds_are_round(values: list[float], ticks: list[float]) -> None:
    axis = axes.time(TimeAxis.SECONDS, values)
    assert axis["type"] == "log"
    assert axis["tickvals"] == ticks
    low, high = (10**edge for edge in axis["range"])
    assert low < min(values) < max(values) < high
    assert all(low <= tick <= high for tick in axis["tickvals"])


def test_large_ticks_are_told_in_thousands_and_millions() -> None:
    axis = axes.time(TimeAxis.SAMPLES, [9_000.0, 20_000_000.0])
    assert axis["tickvals"] == [10_000, 100_000, 1_000_000, 10_000_000]
    assert axis["ticktext"] == ["10k", "100k", "1M", "10M"]


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=5))
def test_a_log_axis_holds_its_values_and_three_to_eight_ticks(values: list[float]) -> None:
    axis = axes.logarithmic(values)
    low, high = axis["range"]
    assert low < math.log10(min(values)) <= math.log10(max(values)) < high
    assert 3 <= len(axis["tickvals"]) <= 7
    assert axis["tickvals"] == sorted(set(axis["tickvals"]))
    assert all(low <= math.log10(tick) <= high for tick in axis["tickvals"])
    assert len(axis["ticktext"]) == len(axis["tickvals"])


@pytest.mark.parametrize("value", [1e-3, 0.5, 80.0, 123_456.0])
def test_a_single_value_stands_inside_its_axis(value: float) -> None:
    found = [axes.time(axis, [value]) for axis in TimeAxis]
    for axis in (*found, axes.of(PARAMETERS, TimeAxis.SECONDS, [value])):
        low, high = axis["range"]
        if axis.get("type") == "log":
            low, high = 10**low, 10**high
        assert low < value < high


@pytest.mark.parametrize("values", [[1.0], [0.0], [0.5, 1.0], [0.9712, 0.9714]])
def test_accuracy_stays_near_what_can_be(values: list[float]) -> None:
    low, high = axes.fraction("accuracy", values)["range"]
    assert low < min(values) <= max(values) < high
    assert high <= 1.1


@pytest.mark.parametrize(
    ("values", "form"), [([0.1, 0.9], ".0%"), ([0.91, 0.97], ".1%"), ([0.9712, 0.9714], ".2%")]
)
def test_accuracy_has_the_digits_that_it_needs(values: list[float], form: str) -> None:
    assert axes.fraction("accuracy", values)["tickformat"] == form


def test_titles_name_the_measure_and_its_scale() -> None:
    found = {axis: axes.time(axis, [2.0, 3.0]) for axis in TimeAxis}
    assert {str(axis): one["title"]["text"] for axis, one in found.items()} == {
        "seconds": "training time (s, log scale)",
        "epochs": "epochs",
        "samples": "training images seen (log scale)",
        "steps": "optimiser steps (log scale)",
        "paper": "epochs × mean seconds per epoch (s, log scale)",
    }
    assert "type" not in found[TimeAxis.EPOCHS]


def test_seconds_of_zero_get_a_linear_axis() -> None:
    axis = axes.time(TimeAxis.SECONDS, [0.0, 3.0])
    assert "type" not in axis
    assert axis["title"]["text"] == "training time (s)"


@pytest.mark.parametrize(
    ("sizes", "ticks"), [([1, 16], [1, 2, 4, 8, 16]), ([1], [1]), ([3], [1, 2, 4])]
)
def test_batch_sizes_have_powers_of_two(sizes: list[int], ticks: list[int]) -> None:
    axis = axes.powers_of_two(sizes)
    assert axis["tickvals"] == ticks
    low, high = (10**edge for edge in axis["range"])
    assert low < min(sizes) <= max(sizes) < high


def test_large_batches_have_few_ticks() -> None:
    axis = axes.powers_of_two([1, 65_536])
    assert axis["ticktext"] == ["1", "4", "16", "64", "256", "1,024", "4,096", "16,384", "65,536"]


def test_short_trainings_have_ticks_at_whole_epochs() -> None:
    assert axes.whole(5)["dtick"] == 1
    assert axes.whole(100)["dtick"] is None


def test_rows_are_named_and_escaped() -> None:
    axis = axes.rows(["a<b>", "c"])
    assert axis["ticktext"] == ["a&lt;b&gt;", "c"]
    assert axis["range"] == [-0.6, 1.6]
