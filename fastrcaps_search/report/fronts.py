"""The front under each measure of time, and what a study attains in each pair of objectives."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from fastrcaps_search.definition.objective import COMMON, objectives
from fastrcaps_search.front.dominance import front_mask, minimisation_view
from fastrcaps_search.report.time_axis import TimeAxis

ACCURACY, TIME, PARAMETERS = range(len(COMMON))
"""Columns of a row."""

MAXIMISE = tuple(objective.maximise for objective in objectives(COMMON))

Row = tuple[float, float, float]
"""Accuracy, time in the measure at hand, parameters."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two of the objectives: columns along x and y, and what the pair is called."""

    x: int
    y: int
    name: str
    title: str


PAIRS = (
    Pair(TIME, ACCURACY, "projection-time-accuracy", "Accuracy by training time"),
    Pair(PARAMETERS, ACCURACY, "projection-parameters-accuracy", "Accuracy by parameters"),
    Pair(TIME, PARAMETERS, "projection-time-parameters", "Parameters by training time"),
)


@dataclass(frozen=True, slots=True)
class Front:
    """The front in one measure of time.

    Attributes:
        axis: The measure.
        rows: Values by number of the feasible trials that have them, in this measure.
        numbers: Trials that no other dominates, by falling accuracy, then time, then number.
        attained: For each of ``PAIRS`` the corners, by x, of what is attained in it alone.
        infeasible: Values of the infeasible trials, which no axis goes by.
    """

    axis: TimeAxis
    rows: Mapping[int, Row]
    numbers: tuple[int, ...]
    attained: tuple[tuple[tuple[float, float], ...], ...]
    infeasible: Mapping[int, Row] = field(default_factory=dict)


def fronts(
    rows: Mapping[TimeAxis, Mapping[int, Row]], infeasible: Container[int] = ()
) -> Mapping[TimeAxis, Front]:
    """The front of each measure in which some feasible trial has finite values.

    Args:
        rows: Values by number in each measure.
        infeasible: Numbers of the infeasible trials.
    """
    return {
        axis: _front(axis, kept, {n: row for n, row in found.items() if n not in kept})
        for axis, found in rows.items()
        if (kept := {n: row for n, row in found.items() if n not in infeasible})
    }


def _front(axis: TimeAxis, rows: Mapping[int, Row], infeasible: Mapping[int, Row]) -> Front:
    values = list(rows.values())
    mask = front_mask(minimisation_view(values, maximise=MAXIMISE))
    numbers = [number for number, on in zip(rows, mask, strict=True) if on]
    numbers.sort(key=lambda number: (-rows[number][ACCURACY], rows[number][TIME], number))
    attained = tuple(_attained(values, pair) for pair in PAIRS)
    return Front(axis, rows, tuple(numbers), attained, infeasible)


def _attained(rows: Sequence[Row], pair: Pair) -> tuple[tuple[float, float], ...]:
    """Distinct places that nothing dominates in this pair alone, by x."""
    places = [(row[pair.x], row[pair.y]) for row in rows]
    maximise = (MAXIMISE[pair.x], MAXIMISE[pair.y])
    mask = front_mask(minimisation_view(places, maximise=maximise))
    return tuple(sorted({place for place, on in zip(places, mask, strict=True) if on}))
