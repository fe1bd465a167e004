"""Hypervolume against counting unit cells and against inclusion-exclusion."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastrcaps_search.front.hypervolume import (
    hypervolume,
    hypervolume_history,
)

NAN = math.nan
INF = math.inf
SIDE = 5

GRID_VALUES = st.integers(0, SIDE + 1).map(float)
FLOATS = st.floats(-50.0, 50.0, allow_subnormal=False)


def rows_of(
    values: st.SearchStrategy[float], *, smallest: int = 0, largest: int = 25
) -> st.SearchStrategy[list[list[float]]]:
    """Return sets of rows of three values."""
    return st.lists(st.lists(values, min_size=3, max_size=3), min_size=smallest, max_size=largest)


def counted(rows: list[list[float]], *, width: int = 3) -> int:
    """Count the unit cells of the grid [0, SIDE]^width that some finite row dominates."""
    valid = [row for row in rows if all(math.isfinite(value) for value in row)]
    cells = itertools.product(range(SIDE), repeat=width)
    return sum(
        any(all(a <= b for a, b in zip(row, cell, strict=True)) for row in valid) for cell in cells
    )


def included_and_excluded(rows: list[list[float]], reference: list[float]) -> float:
    """Add the boxes of single rows, take away those of pairs, add those of triples, ..."""
    total = 0.0
    for size in range(1, len(rows) + 1):
        for subset in itertools.combinations(rows, size):
            corner = [max(column) for column in zip(*subset, strict=True)]
            sides = [max(0.0, r - c) for r, c in zip(reference, corner, strict=True)]
            total += (-1) ** (size + 1) * math.prod(sides)
    return total


def with_holes(rows: list[list[float]]) -> list[list[float]]:
    """Put rows that are not finite, but good otherwise, before, between and after the rows."""
    holes = [[NAN, -99.0, -99.0], [-99.0, -INF, -99.0], [INF, -99.0, NAN]]
    middle = len(rows) // 2
    return [*holes, *rows[:middle], *holes, *rows[middle:], *holes]


def moved(rows: list[list[float]], reference: list[float]) -> NDArray[np.float64]:
    """Rows of which the reference is moved to 1, which changes no volume."""
    found = np.array(rows, dtype=np.float64).reshape(-1, len(reference))
    return np.add(found - reference, 1.0)


def test_by_hand() -> None:
    # Boxes 3x1 and 1x3 up to (1, 1), sharing 1x1.
    assert hypervolume([[-2.0, 0.0], [0.0, -2.0]]) == 5.0


@settings(deadline=None)
@given(rows_of(GRID_VALUES))
def test_equals_the_count_of_dominated_cells(rows: list[list[float]]) -> None:
    expected = counted(rows)
    assert hypervolume(moved(rows, [SIDE] * 3)) == expected
    assert hypervolume(moved(with_holes(rows), [SIDE] * 3)) == expected


@settings(deadline=None)
@given(st.lists(st.lists(GRID_VALUES, min_size=2, max_size=2), min_size=1, max_size=25))
def test_equals_the_count_of_dominated_cells_in_two_objectives(rows: list[list[float]]) -> None:
    assert hypervolume(moved(rows, [SIDE] * 2)) == counted(rows, width=2)


@settings(deadline=None)
@given(rows_of(FLOATS, smallest=1, largest=6))
def test_equals_inclusion_and_exclusion(rows: list[list[float]]) -> None:
    reference = [20.0, 30.0, 40.0]
    expected = included_and_excluded(rows, reference)
    found = hypervolume(moved(rows, reference))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-6)


@settings(deadline=None)
@given(rows_of(FLOATS, smallest=1), st.randoms(use_true_random=False))
def test_order_and_copies_do_not_matter(rows: list[list[float]], random: Random) -> None:
    shuffled = [*rows, *rows]
    random.shuffle(shuffled)
    reference = [20.0, 30.0, 40.0]
    expected = hypervolume(moved(rows, reference))
    assert hypervolume(moved(shuffled, reference)) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(rows_of(FLOATS))
def test_history_is_the_volume_of_every_beginning(rows: list[list[float]]) -> None:
    holed = moved(with_holes(rows), [20.0, 30.0, 40.0])
    history = hypervolume_history(holed)
    expected = [hypervolume(holed[: count + 1]) for count in range(len(holed))]
    assert history.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert (np.diff(history) >= 0).all()


def test_history_by_hand() -> None:
    rows: list[list[float]] = [[NAN, 0], [4, 0], [3, 3], [1, 3], [3, 1], [3, 1], [3, 2]]
    rows += [[INF, 0], [0, 0]]
    history = hypervolume_history(moved(rows, [4, 4]))
    assert history.tolist() == [0, 0, 1, 3, 5, 5, 5, 5, 16]


def test_single_row_is_a_box() -> None:
    assert hypervolume(moved([[-1.0, 2.0, 3.0]], [1.0, 5.0, 7.0])) == 2.0 * 3.0 * 4.0


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="empty"),
        pytest.param([[NAN, 0.0]], id="nan"),
        pytest.param([[-INF, 0.0]], id="infinite"),
        pytest.param([[1.0, 0.0]], id="on the edge"),
        pytest.param([[9.0, 0.0], [0.0, 9.0]], id="outside"),
    ],
)
def test_nothing_inside_is_zero(rows: list[list[float]]) -> None:
    assert hypervolume(rows) == 0.0
    assert hypervolume_history(rows).tolist() == [0.0] * len(rows)
