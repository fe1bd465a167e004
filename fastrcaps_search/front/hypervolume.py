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


def _as_reference(reference: ArrayLike, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the reference as [m] float64, checked against the rows [n, m]."""
    limit = np.asarray(reference, dtype=np.float64)
    # Without rows there may be no telling how many objectives there are.
    fits = limit.ndim == 1 and (len(rows) == 0 or len(limit) == rows.shape[1])
    if not fits or not np.isfinite(limit).all():
        raise ValueError(
            f"the reference must be {rows.shape[1]} finite values, got {limit.tolist()}: "
            "name one for each objective"
        )
    return limit
