"""Which trials are on the front.

Directions flip once, in :func:`minimisation_view`; everything below it minimises. A row
dominates another when it is no worse in every objective and better in at least one (Deb et al.
2002, NSGA-II, section III-A). Rows with NaN or an infinity are set aside before anything is
compared, so they are never on the front and never push a valid row off it, however many there are.

Shapes: n rows (trials), m objectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def minimisation_view(values: ArrayLike, *, maximise: Sequence[bool]) -> NDArray[np.float64]:
    """Return the values with every maximised objective negated.

    Args:
        values: [n, m] values as measured; None and NaN stay NaN. An empty list is n = 0.
        maximise: For each of the m objectives, whether larger is better.

    Returns:
        [n, m] float64, a copy, in which smaller is better everywhere.

    Raises:
        ValueError: The number of columns is not that of ``maximise``.
    """
    rows = as_rows(values, objectives=len(maximise))
    # Subtracting from zero rather than negating keeps a plain 0.0 for a zero value.
    return np.where(np.asarray(maximise, dtype=bool), 0.0 - rows, rows)


def front_mask(points: ArrayLike) -> NDArray[np.bool_]:
    """Return True for the rows that no other row dominates.

    Args:
        points: [n, m], all objectives minimised.

    Returns:
        [n] bool. Every copy of a front row is on the front. Rows with NaN or an infinity are
        False and dominate nothing. Empty for n = 0.
    """
    # Imported here: moocore takes about as long to import as the rest of a short command.
    import moocore  # type: ignore[import-untyped]  # it ships no types

    rows = as_rows(points)
    mask = finite_rows(rows)
    if mask.any():
        mask[mask] = moocore.is_nondominated(rows[mask], keep_weakly=True)
    return mask


def as_rows(points: ArrayLike, *, objectives: int | None = None) -> NDArray[np.float64]:
    """Return the points as a float64 matrix of one row per trial.

    Args:
        points: [n, m], or an empty list for n = 0.
        objectives: The m that must hold, where it is known.

    Returns:
        [n, m] float64; shares memory with ``points`` where it already is one.

    Raises:
        ValueError: Not a matrix, no column, or not ``objectives`` columns.
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim == 1 and rows.size == 0:
        rows = rows.reshape(0, 1 if objectives is None else objectives)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(
            f"points must be a matrix of one row per trial, got shape {rows.shape}: "
            "pass a list of rows of equal length"
        )
    if objectives is not None and rows.shape[1] != objectives:
        raise ValueError(
            f"each row must have {objectives} values, one per objective, got {rows.shape[1]}: "
            "pass the values and the directions of the same objectives"
        )
    return rows


def finite_rows(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return [n] bool, True where every value of a row of [n, m] is a finite number."""
    finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(rows), axis=1)
    return finite
