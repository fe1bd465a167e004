"""Axes of the figures: ranges that suit one trial as well as many, and ticks one can read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastrcaps_search.definition.objective import COUNTS, FRACTIONS, TRAINING_SECONDS, Objective
from fastrcaps_search.report.fronts import TimeAxis
from fastrcaps_search.report.plots import GRID, MUTED, label

PADDING = 0.09
"""Empty share of the span at each end of an axis."""


def plain(title: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - Plotly's own values
    """An axis in the report's colours."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"color": MUTED.light}},
        "tickfont": {"color": MUTED.light},
        "gridcolor": GRID.light,
        "linecolor": GRID.light,
        "zeroline": False,
        "automargin": True,
        **more,
    }


def of(objective: Objective, axis: TimeAxis, values: Sequence[float]) -> dict[str, Any]:
    """The axis of an objective over its finite values, training time in a measure."""
    if objective is TRAINING_SECONDS:
        return time(axis, values)
    if objective.scale is FRACTIONS:
        return fraction(objective.label, values)
    if objective.scale is COUNTS:
        shown = {"tickformat": "~s", "nticks": 6, "tickangle": 0}
        return plain(objective.label, range=limits(values), **shown)
    return measured(objective.label, objective.unit, values)


def fraction(title: str, values: Sequence[float]) -> dict[str, Any]:
    """The axis of one or more finite fractions."""
    low, high = limits(values)
    # Room above 100 % for the marker, not for values that cannot be.
    high = min(high, 1 + PADDING * (1 - min(values)) + 1e-3)
    return plain(title, range=[low, high], tickformat=decimals(high - low))


def time(axis: TimeAxis, values: Sequence[float]) -> dict[str, Any]:
    """The axis of a measure of time over finite values: on a log scale, but for epochs."""
    if axis is TimeAxis.EPOCHS:
        return plain(axis.words, range=limits(values), nticks=8, tickangle=0)
    title = axis.words.removesuffix(" (s)")
    return measured(title, "" if title == axis.words else "s", values)


def measured(title: str, unit: str, values: Sequence[float]) -> dict[str, Any]:
    """The axis of measured values: on a log scale where all are above 0."""
    if min(values) > 0:
        scale = ", ".join(filter(None, (unit, "log scale")))
        return plain(f"{title} ({scale})", **logarithmic(values))
    return plain(f"{title} ({unit})" if unit else title, range=limits(values))


def limits(values: Sequence[float]) -> list[float]:
    """The span with padding; a single value stands in the middle."""
    low, high = min(values), max(values)
    pad = PADDING * (high - low) or 0.05 * abs(high) or 0.05
    return [low - pad, high + pad]


def ends(axis: Mapping[str, Any]) -> list[float]:
    """The values at both ends of an axis."""
    return [10**end if axis.get("type") == "log" else end for end in axis["range"]]


def within(axis: Mapping[str, Any], value: float) -> float:
    """The place on an axis that is nearest to a value."""
    low, high = ends(axis)
    return min(max(value, low), high)


def decimals(span: float) -> str:
    """Format of a fraction as percent with as many digits as the span needs."""
    needed = next((digits for limit, digits in ((0.1, 0), (0.01, 1)) if span >= limit), 2)
    return f".{needed}%"


def logarithmic(values: Sequence[float]) -> dict[str, Any]:
    """Range and ticks of a log axis over positive values.

    Plotly's own ticks say little over less than a decade, which a study's seconds often span.
    """
    low, high = limits([math.log10(value) for value in values])
    if min(values) == max(values):
        low, high = low - 0.1, high + 0.1
    ticks = _ticks(10**low, 10**high)
    return {"type": "log", "range": [low, high], "tickangle": 0, **named(ticks, map(_tick, ticks))}


def powers_of_two(values: Sequence[int]) -> dict[str, Any]:
    """A log axis with ticks at powers of two, for batch sizes."""
    top = math.ceil(math.log2(max(values)))
    ticks = [2**power for power in range(0, top + 1, max(1, math.ceil(top / 8)))]
    ends = [math.log10(0.8), math.log10(2**top * 1.35)]
    return {"type": "log", "range": ends, **named(ticks, map("{:,}".format, ticks))}


def whole(last: float) -> dict[str, Any]:
    """Ticks at whole epochs only: Plotly would halve the steps of a short training."""
    return {"tick0": 0, "dtick": 1 if last <= 12 else None}


def side_by_side(number: int, gap: float) -> list[tuple[str, list[float]]]:
    """How the names of axes end, and which part of the width is theirs, for figures in a row.

    Args:
        number: How many.
        gap: Between two of them, as a share of the width.
    """
    width = (1 + gap) / number - gap
    lefts = [place * (width + gap) for place in range(number)]
    return [(str(n) if n > 1 else "", [left, left + width]) for n, left in enumerate(lefts, 1)]


def named(places: Iterable[float], names: Iterable[str]) -> dict[str, Any]:
    """Ticks with names of their own."""
    return {"tickmode": "array", "tickvals": list(places), "ticktext": list(names)}


def rows(names: Sequence[str]) -> dict[str, Any]:
    """A vertical axis of named rows, the first at the bottom."""
    ticks = named(range(len(names)), map(label, names))
    return plain("", **ticks, range=[-0.6, len(names) - 0.4], showgrid=False, fixedrange=True)


def _tick(value: float) -> str:
    """A tick's number, in thousands or millions where it would be long."""
    for least, unit, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{value / unit:,.10g}{suffix}"
    return f"{value:,.10g}"


def _ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers between ``low`` and ``high``."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5)):
        ticks = [
            float(f"{digit}e{decade}")
            for decade in decades
            for digit in digits
            if low <= digit * 10.0**decade <= high
        ]
        if len(ticks) >= 3:
            return ticks[:: math.ceil(len(ticks) / 6)]
    # Multiples of a round step, which is less than two sixths of the span.
    raw = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]
