"""Numbers and lists as the page writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from fastrcaps_search.definition.objective import (
    ACCURACY,
    COUNTS,
    FRACTIONS,
    OBJECTIVES,
    SECONDS,
    TRAINING_SECONDS,
    Objective,
)

NOTHING = "–"
"""What a cell shows where there is no value."""
COMPUTED = "~"
"""Stands before seconds that were not measured on the study's reference device."""


def percent(fraction: float | None) -> str:
    """A fraction as ``97.40 %``, with a space that does not break."""
    if fraction is None or not math.isfinite(fraction):
        return NOTHING
    return f"{100 * fraction:.2f}\u00a0%"


def share(probability: float | None) -> str:
    """A probability as ``91 %``, as the command line has it; an unknown one as ``?``."""
    return "?" if probability is None else f"{100 * probability:.0f}\u00a0%"


def margin(row: Mapping[str, Any], name: str) -> str:
    """How far the 95 % interval of a value reaches: ``± 0.31``; empty where that is not known.

    Of accuracies in per cent, of seconds with as many digits as their mean has.

    Args:
        row: A trial's row of ``trials --json``.
        name: Which of its values.
    """
    spread = row.get("spread", {}).get(name)
    if spread is None:
        return ""
    if name == ACCURACY.name:
        return f"±\u00a0{_not_nothing(100 * spread['margin'], 2)}"
    return f"±\u00a0{_not_nothing(spread['margin'], _decimals(row['values'][name]))}"


def points(fraction: float) -> str:
    """A difference of two fractions in per cent, with its sign: ``-0.31``."""
    return f"{100 * fraction:+.2f}"


def p_value(value: float) -> str:
    """A p-value with two digits, or what it is below."""
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"


def _not_nothing(value: float, decimals: int) -> str:
    """A number that does not look like 0 unless it is."""
    return f"{value:.1g}" if 0 < value < 0.5 * 10**-decimals else f"{value:,.{decimals}f}"


def seconds(value: float | None) -> str:
    """Seconds without the unit, with three digits or all those before the point."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.{_decimals(value)}f}"


def _decimals(seconds: float) -> int:
    return next((digits for limit, digits in ((10, 2), (1000, 1)) if seconds < limit), 0)


def count(value: float | None) -> str:
    """A number of things, with thousands set apart."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def duration(value: float) -> str:
    """Rough time for a person: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if value < 90:
        return f"{value:.0f} s"
    minutes = round(value / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def batches(sizes: Sequence[int]) -> str:
    """Batch sizes of an epoch each as ``1 → 16 → 32``."""
    return " → ".join(f"{size:,}" for size, _ in groupby(sizes))


def value(given: object) -> str:
    """The value of a parameter, or a dash where it does not apply."""
    if given is None:
        return NOTHING
    if isinstance(given, bool):
        return "yes" if given else "no"
    return f"{given:.3g}" if isinstance(given, float) else str(given)


def rank(value: object) -> tuple[float, str]:
    """What sorts the values of a parameter: numbers by size, words by letters."""
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))


def of_row(row: Mapping[str, Any], name: str) -> str:
    """A value of a trial's row of ``trials --json`` without its unit; computed ones are marked."""
    is_computed = name == TRAINING_SECONDS.name and "seconds_basis" in row
    return (COMPUTED if is_computed else "") + without_unit(OBJECTIVES[name], row["values"][name])


def of_objective(objective: Objective, number: float | None) -> str:
    """A value of an objective, with its unit."""
    unit = f"\u00a0{objective.unit}" if objective.unit and number is not None else ""
    return without_unit(objective, number) + unit


def edge(objective: Objective, number: float) -> str:
    """The edge of a box in an objective, with its unit; no part of a count."""
    return of_objective(objective, round(number) if objective.scale.is_whole else number)


def without_unit(objective: Objective, number: float | None) -> str:
    """A value of an objective."""
    if objective.scale in (FRACTIONS, COUNTS, SECONDS) or number is None:
        return {FRACTIONS: percent, COUNTS: count}.get(objective.scale, seconds)(number)
    return f"{number:.3g}"
