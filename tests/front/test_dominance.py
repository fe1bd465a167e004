"""Fronts against the definition of dominance, written out in plain Python."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrcaps_search.front.dominance import front_mask, minimisation_view

NAN = math.nan
INF = math.inf

# Few distinct values, so that ties, duplicates and zeros of both signs are common.
VALUES = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, 7.0, 1e9])
WILD_VALUES = st.one_of(VALUES, st.sampled_from([NAN, INF, -INF]))


def rows_of(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[list[float]]]:
    """Return sets of up to 40 rows of one to four values."""
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(values, min_size=width, max_size=width), min_size=1, max_size=40
        )
    )


def is_finite(row: list[float]) -> bool:
    return all(math.isfinite(value) for value in row)


def dominates(first: list[float], second: list[float]) -> bool:
    pairs = list(zip(first, second, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def brute_front(rows: list[list[float]]) -> list[bool]:
    valid = [row for row in rows if is_finite(row)]
    return [is_finite(row) and not any(dominates(other, row) for other in valid) for row in rows]


TABLE = [
    pytest.param([[1.0, 2.0]], [True], id="single"),
    pytest.param([[1.0, 2.0], [2.0, 1.0]], [True, True], id="trade-off"),
    pytest.param([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [True, False, False], id="chain"),
    pytest.param(
        [[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]], [True, True, False], id="duplicates and a tie"
    ),
    pytest.param([[NAN, 0.0], [1.0, 1.0]], [False, True], id="nan"),
    pytest.param([[-INF, 0.0], [1.0, 1.0]], [False, True], id="minus infinity dominates nothing"),
    pytest.param([[1.0, INF], [2.0, 2.0]], [False, True], id="infinity"),
    pytest.param([[NAN, NAN], [INF, 1.0]], [False, False], id="nothing finite"),
    pytest.param([[3.0], [1.0], [2.0], [1.0]], [False, True, False, True], id="one objective"),
    pytest.param([[0.0, 1.0], [-0.0, 1.0]], [True, True], id="zeros of both signs"),
    pytest.param(
        [[1, 9, 5], [2, 8, 5], [2, 9, 5], [3, 9, 6], [1, 9, 5]],
        [True, True, False, False, True],
        id="three",
    ),
]


@pytest.mark.parametrize(("rows", "expected"), TABLE)
def test_fronts_by_hand(rows: list[list[float]], expected: list[bool]) -> None:
    assert front_mask(rows).tolist() == expected
    assert front_mask(rows).dtype == np.bool_


@settings(deadline=None)
@given(rows_of(WILD_VALUES))
def test_agrees_with_brute_force(rows: list[list[float]]) -> None:
    assert front_mask(rows).tolist() == brute_front(rows)


@settings(deadline=None)
@given(rows_of(WILD_VALUES), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows: list[list[float]], random: Random) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = [rows[index] for index in order]
    assert front_mask(shuffled).tolist() == front_mask(rows)[order].tolist()


@settings(deadline=None)
@given(rows_of(WILD_VALUES))
def test_copies_share_the_fate_of_their_row(rows: list[list[float]]) -> None:
    twice = [*rows, *rows]
    assert front_mask(twice).tolist() == [*front_mask(rows), *front_mask(rows)]


@settings(deadline=None)
@given(rows_of(VALUES))
def test_front_of_finite_rows_is_never_empty(rows: list[list[float]]) -> None:
    assert front_mask(rows).any()


@pytest.mark.parametrize("count", [11, 300, 2500])
def test_nan_rows_evict_nothing_in_large_sets(count: int) -> None:
    generator = np.random.default_rng(5)
    clean = generator.integers(0, 60, size=(count, 3)).astype(float)
    holed = clean.copy()
    # Rows that would dominate everything, were their one missing value compared at all.
    dirty = np.full((count // 3 + 1, 3), -100.0)
    dirty[np.arange(len(dirty)), np.arange(len(dirty)) % 3] = NAN
    both = np.vstack([dirty, holed, dirty])
    expected = np.array(
        [not ((clean <= row).all(axis=1) & (clean < row).any(axis=1)).any() for row in clean]
    )
    assert 0 < expected.sum() < count
    middle = slice(len(dirty), len(dirty) + count)
    assert front_mask(both)[middle].tolist() == expected.tolist()
    assert front_mask(both).sum() == expected.sum()


@pytest.mark.parametrize("empty", [[], np.empty((0, 3))])
def test_empty_gives_empty(empty: object) -> None:
    assert front_mask(empty).tolist() == []  # type: ignore[arg-type]  # both are array-like


def test_front_leaves_its_input_alone() -> None:
    rows = np.array([[3.0, 1.0], [1.0, NAN], [4.0, 4.0]])
    before = rows.copy()
    front_mask(rows)
    np.testing.assert_array_equal(rows, before)


def test_minimisation_view_negates_maximised_columns_only() -> None:
    values = [[0.99, 120.0, 8_215_728], [0.0, 60.0, 6_708_400]]
    view = minimisation_view(values, maximise=[True, False, False])
    assert view.tolist() == [[-0.99, 120.0, 8_215_728.0], [0.0, 60.0, 6_708_400.0]]
    assert view.dtype == np.float64
    assert not np.signbit(view[1, 0])


def test_minimisation_view_keeps_nan_and_takes_none_for_it() -> None:
    view = minimisation_view(np.array([[None, 1.0], [NAN, INF]]), maximise=[True, True])
    np.testing.assert_array_equal(view, [[NAN, -1.0], [NAN, -INF]])


def test_minimisation_view_is_a_copy_even_without_a_maximised_column() -> None:
    values = np.array([[1.0, 2.0]])
    minimisation_view(values, maximise=[False, False])[0, 0] = 9.0
    assert values[0, 0] == 1.0


def test_minimisation_view_of_nothing_has_a_column_per_objective() -> None:
    assert minimisation_view([], maximise=[True, False, False]).shape == (0, 3)


def test_minimisation_view_refuses_other_objectives() -> None:
    with pytest.raises(ValueError, match="must have 3 values, one per objective, got 2"):
        minimisation_view([[1.0, 2.0]], maximise=[True, False, False])


@pytest.mark.parametrize("points", [[1.0, 2.0], [[[1.0]]], [[], []]])
def test_front_refuses_what_is_not_a_matrix(points: object) -> None:
    with pytest.raises(ValueError, match="must be a matrix of one row per trial"):
        front_mask(points)  # type: ignore[arg-type]  # wrong on purpose
