"""McNemar's test and the interval of a paired difference, by hand, by scipy and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.front.paired import Paired


def packed(bits: list[bool]) -> bytes:
    return np.packbits(np.array(bits, dtype=bool)).tobytes()


def test_by_hand() -> None:
    # Right by the first alone: images 0, 2 and 8; by the second alone: image 9.
    first = packed([True, True, True, False, True, False, True, True, True, False])
    second = packed([False, True, False, False, True, False, True, True, False, True])
    found = Paired.of(first, second, images=10)
    assert found == Paired(images=10, first_only=3, second_only=1)
    assert found.difference == pytest.approx(0.2)
    # Of four images three or more, or one or fewer: (1 + 4) x 2 of 16.
    assert found.p_value == 10 / 16
    # 3.5 and 1.5 of 12: 2/12, give or take 1.96 x sqrt(5 - 4/12) / 12.
    half = 1.959963984540054 * math.sqrt(5 - 4 / 12) / 12
    assert found.interval == pytest.approx((1 / 6 - half, 1 / 6 + half))


def test_the_order_only_turns_the_sign() -> None:
    found, turned = Paired(500, 9, 2), Paired(500, 2, 9)
    assert turned.difference == -found.difference
    assert turned.interval == pytest.approx((-found.interval[1], -found.interval[0]))
    assert turned.p_value == found.p_value


def test_equal_networks_differ_in_nothing() -> None:
    found = Paired.of(b"\xff\xf0", b"\xff\xf0", images=12)
    assert (found.first_only, found.second_only, found.difference) == (0, 0, 0.0)
    assert found.p_value == 1.0
    low, high = found.interval
    assert low == -high < 0.0


@given(st.integers(0, 400), st.integers(0, 400))
def test_p_value_is_that_of_scipy(first: int, second: int) -> None:
    found = Paired(10_000, first, second).p_value
    if first + second == 0:
        assert found == 1.0
        return
    expected = stats.binomtest(first, first + second, 0.5).pvalue
    assert found == pytest.approx(expected, rel=1e-9)


def test_p_values_of_very_different_networks() -> None:
    assert Paired(10_000, 9_000, 20).p_value == 0.0
    assert Paired(10_000, 1_000, 0).p_value == pytest.approx(2.0**-999)


@pytest.mark.parametrize("images", [500, 5_000])
@pytest.mark.parametrize(
    ("first_only", "second_only"),
    # Of networks that are nearly perfect, good, and one of which is much better.
    [(0.002, 0.002), (0.01, 0.004), (0.02, 0.02), (0.1, 0.02)],
)
def test_the_interval_holds_the_true_difference(
    images: int, first_only: float, second_only: float
) -> None:
    shares = [first_only, second_only, 1 - first_only - second_only]
    drawn = np.random.default_rng(1).multinomial(images, shares, 2_000)
    true = first_only - second_only
    held = 0
    for first, second, _ in drawn.tolist():
        low, high = Paired(images, first, second).interval
        held += low <= true <= high
    # 95 % less three standard errors of 2,000 draws; never so wide as to say nothing.
    assert held / 2_000 >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 2_000)
    if images * (first_only + second_only) > 20:
        assert held / 2_000 <= 0.98


@pytest.mark.parametrize(("first", "images"), [(b"", 0), (b"\x00", 9), (b"\x00\x00", 8)])
def test_hits_of_other_images_are_refused(first: bytes, images: int) -> None:
    with pytest.raises(ValueError, match=r"hits must be \d bytes for \d images"):
        Paired.of(first, first, images=images)
