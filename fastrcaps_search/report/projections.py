"""Pairs of objectives, and what a study attains in each pair alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastrcaps_search.definition.objective import (
    ACCURACY,
    OBJECTIVES,
    PARAMETERS,
    TRAINING_SECONDS,
    Objective,
)
from fastrcaps_search.front.dominance import front_mask, minimisation_view
from fastrcaps_search.store.records import Values

PAIRS = (
    (TRAINING_SECONDS, ACCURACY),
    (PARAMETERS, ACCURACY),
    (TRAINING_SECONDS, PARAMETERS),
)
"""Objectives along x and y of each projection."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Two of the objectives.

    Attributes:
        x: Objective along x, minimised.
        y: Objective along y.
        attained: Corners, by x, of what the study attains in these two objectives alone.
    """

    x: Objective
    y: Objective
    attained: tuple[tuple[float, float], ...]


def projections(values: Sequence[Values]) -> tuple[Projection, ...]:
    """The three projections of one or more values; none of none."""
    if not values:
        return ()
    return tuple(Projection(x, y, _attained(values, x, y)) for x, y in PAIRS)


def _attained(
    values: Sequence[Values], x: Objective, y: Objective
) -> tuple[tuple[float, float], ...]:
    """Distinct values that nothing dominates in ``x`` and ``y`` alone, by ``x``."""
    columns = [OBJECTIVES.index(objective) for objective in (x, y)]
    rows = [tuple(value.as_tuple()[column] for column in columns) for value in values]
    mask = front_mask(minimisation_view(rows, maximise=(x.maximise, y.maximise)))
    return tuple(sorted({(row[0], row[1]) for row, on in zip(rows, mask, strict=True) if on}))
