"""Quantiles against closed forms and scipy; intervals against what they promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.front.spread import Spread, deviations, spread, t_quantile

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("degrees", [*range(1, 201), 10_000])
def test_the_quantile_is_that_of_scipy(degrees: int) -> None:
    assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-9)


def test_the_quantile_of_one_two_and_four_degrees_has_a_closed_form() -> None:
    square = 4 * 0.975 * 0.025
    angle = math.cos(math.acos(math.sqrt(square)) / 3) / math.sqrt(square)
    assert t_quantile(1) == pytest.approx(math.tan(math.pi * 0.475))
    assert t_quantile(1) == pytest.approx(12.706204736174694, rel=1e-12)
    assert t_quantile(2) == pytest.approx(2 * 0.475 * math.sqrt(2 / square))
    assert t_quantile(4) == pytest.approx(2 * math.sqrt(angle - 1))


@pytest.mark.parametrize("degrees", [0, -1, 1.5, NAN])
def test_degrees_are_a_whole_number(degrees: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=r"^degrees must be a whole number from 1 on, got "):
        t_quantile(degrees)


def test_two_and_three_runs_by_hand() -> None:
    # Deviation of 0.9 and 0.92: half the gap times sqrt 2. Margin: 12.706 times half the gap.
    found = spread([0.90, 0.92])
    assert found is not None
    assert found.deviation == pytest.approx(0.01 * math.sqrt(2))
    margin = 12.7062047361747 * 0.01
    assert (found.low, found.high) == pytest.approx((0.91 - margin, 0.91 + margin))
    # 1, 2, 6: mean 3, squares 4 + 1 + 9 = 14 over 2.
    found = spread((1, 2, 6))
    assert found is not None
    assert found.deviation == pytest.approx(math.sqrt(7))
    margin = 4.302652729749464 * math.sqrt(7 / 3)
    assert (found.low, found.high) == pytest.approx((0.0, 3 + margin))
    assert found.reach(3.0) == pytest.approx(margin)


def test_the_ends_are_within_what_is_possible() -> None:
    for most, high in ((math.inf, 0.91 + 12.7062047361747 * 0.01), (1.0, 1.0)):
        found = spread([0.90, 0.92], most=most)
        assert found is not None
        assert found.high == pytest.approx(high)
    found = Spread(None, 0.25, 1.0)
    assert (found.reach(0.5), found.reach(0.875)) == (0.5, 0.625)


@pytest.mark.parametrize("count", [2, 3, 5, 30])
def test_the_interval_is_that_of_scipy(count: int) -> None:
    values = np.random.default_rng(count).normal(40.0, 3.0, count).tolist()
    found = spread(values)
    assert found is not None
    assert found.deviation == pytest.approx(np.std(values, ddof=1))
    low, high = stats.t.interval(
        0.95, count - 1, loc=np.mean(values), scale=stats.sem(values, ddof=1)
    )
    assert (found.low, found.high) == pytest.approx((max(low, 0.0), high))


@pytest.mark.parametrize("values", [[], [0.9], [NAN], [0.5, INF], [-INF, 1.0, 2.0]])
def test_one_run_and_runs_that_are_not_finite_have_no_spread(values: list[float]) -> None:
    assert spread(values) is None


@pytest.mark.parametrize("values", [[0.1] * 3, [1 / 3] * 7, [1e300] * 2])
def test_equal_runs_have_no_spread_to_the_bit(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    assert (found.deviation, found.high - found.low) == (0.0, 0.0)
    assert deviations(values) == [0.0] * len(values)


def test_deviations_are_taken_from_the_mean() -> None:
    assert deviations([1.0, 2.0, 6.0]) == [-2.0, -1.0, 3.0]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_intervals_cover_the_true_mean_as_often_as_they_say(count: int) -> None:
    samples = np.random.default_rng(6).normal(0.97, 0.004, (4000, count)).tolist()
    found = [spread(sample) for sample in samples]
    covered = sum(one is not None and one.low <= 0.97 <= one.high for one in found)
    assert 0.94 <= covered / 4000 <= 0.96
