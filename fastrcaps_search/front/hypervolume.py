"""How much of the objective space the front has conquered.

The hypervolume of a set is the volume of the region that some row dominates, cut off at a
reference point (Zitzler and Thiele 1998; computed by moocore, after Fonseca, Paquete and
Lopez-Ibanez 2006). Everything minimises; rows with NaN or an infinity are ignored.

Shapes: n rows (trials), m objectives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.front.dominance import as_rows, finite_rows, front_mask

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MARGIN = 0.1
"""How far beyond the worst value the reference lies, so that the worst rows still count."""


def reference_point(points: ArrayLike) -> NDArray[np.float64]:
    """Return a reference a little worse than every row.

    Args:
        points: [n, m], all objectives minimised.

    Returns:
        [m] float64: the worst finite value of each objective over the finite rows, moved further
        by 10 % of the distance between worst and best; where those are equal by 10 % of the
        worst's magnitude, or by 1 where that is zero.

    Raises:
        ValueError: No row is finite.
    """
    rows = _finite(points)
    if len(rows) == 0:
        raise ValueError(
            "a reference point needs at least one row of finite values, got none: "
            "wait for the first complete trial"
        )
    worst, best = rows.max(axis=0), rows.min(axis=0)
    margin = MARGIN * np.where(worst > best, worst - best, np.abs(worst))
    moved = worst + np.where(margin > 0, margin, 1.0)
    # A margin below the rounding of the worst value must still leave that row inside.
    reference: NDArray[np.float64] = np.maximum(moved, np.nextafter(worst, np.inf))
    return reference


def hypervolume(points: ArrayLike, *, reference: ArrayLike) -> float:
    """Return the volume that the rows dominate inside the reference.

    Args:
        points: [n, m], all objectives minimised.
        reference: [m] finite values; only rows better than it in every objective count.

    Returns:
        The volume, in the product of the objectives' units; 0.0 for nothing inside.

    Raises:
        ValueError: The reference is not m finite values.
    """
    rows = as_rows(points)
    return _volume(rows[finite_rows(rows)], _as_reference(reference, rows))


def hypervolume_fraction(points: ArrayLike, *, reference: ArrayLike) -> float:
    """Return the share of the box between ideal point and reference that the rows dominate.

    Args:
        points: [n, m], all objectives minimised.
        reference: [m] finite values.

    Returns:
        Between 0 and 1; the ideal point is the best value of each objective over the finite rows.
        0.0 where no row is finite or the box has no volume.

    Raises:
        ValueError: The reference is not m finite values.
    """
    limit = _as_reference(reference, as_rows(points))
    rows = _finite(points)
    if len(rows) == 0:
        return 0.0
    ideal = rows.min(axis=0)
    if not (ideal < limit).all():
        return 0.0
    # Measured in a box of side 1, so that neither tiny nor huge units lose digits.
    scaled = (rows - ideal) / (limit - ideal)
    return min(1.0, _volume(scaled, np.ones_like(limit)))


def hypervolume_history(points: ArrayLike, *, reference: ArrayLike) -> NDArray[np.float64]:
    """Return the hypervolume after each row.

    Only the front so far is carried along, and a row that it already covers costs one comparison.

    Args:
        points: [n, m] in the order in which the trials finished, all objectives minimised.
        reference: [m] finite values.

    Returns:
        [n] float64, never falling; a row with NaN or an infinity repeats the value before it.

    Raises:
        ValueError: The reference is not m finite values.
    """
    rows = as_rows(points)
    limit = _as_reference(reference, rows)
    useful = finite_rows(rows) & (rows < limit).all(axis=1)
    front = np.empty((0, rows.shape[1]))
    history = np.zeros(len(rows))
    volume = 0.0
    for index, row in enumerate(rows):
        if useful[index] and not (front <= row).all(axis=1).any():
            front = np.vstack([front, row])
            front = front[front_mask(front)]
            # The larger of both: rounding must not make a growing set shrink.
            volume = max(volume, _volume(front, limit))
        history[index] = volume
    return history


def _volume(rows: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Return the hypervolume of finite rows [n, m] up to a checked reference [m]."""
    if len(rows) == 0:
        return 0.0
    # Imported here: moocore takes about as long to import as the rest of a short command.
    import moocore  # type: ignore[import-untyped]  # it ships no types

    return float(moocore.hypervolume(rows, ref=reference))


def _finite(points: ArrayLike) -> NDArray[np.float64]:
    """Return the rows of [n, m] whose values are all finite."""
    rows = as_rows(points)
    return rows[finite_rows(rows)]


def _as_reference(reference: ArrayLike, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the reference as [m] float64, checked against the rows [n, m]."""
    limit = np.asarray(reference, dtype=np.float64)
    # Without rows there may be no telling how many objectives there are.
    fits = limit.ndim == 1 and (len(rows) == 0 or len(limit) == rows.shape[1])
    if not fits or not np.isfinite(limit).all():
        raise ValueError(
            f"the reference must be {rows.shape[1]} finite values, got {limit.tolist()}: "
            "use reference_point on the same objectives"
        )
    return limit
