"""Axes of the figures: ranges that suit one trial as well as many, and ticks one can read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fastrcaps_search.definition.objective import (
    ACCURACY,
    PARAMETERS,
    TRAINING_SECONDS,
    Objective,
)
from fastrcaps_search.report.marks import GRID, MUTED

PADDING = 0.09
"""Empty share of the span at each end of an axis."""

TITLES = {
    ACCURACY: "accuracy",
    TRAINING_SECONDS: "training time (s, log scale)",
    PARAMETERS: "learned parameters",
}


def plain(title: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - Plotly's own values
    """An axis in the report's colours."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"color": MUTED.light}},
        "tickfont": {"color": MUTED.light},
        "gridcolor": GRID.light,
        "linecolor": GRID.light,
        "zeroline": False,
        **more,
    }


def of(objective: Objective, values: Sequence[float]) -> dict[str, Any]:
    """The axis of an objective over one or more finite values; seconds are on a log scale."""
    title = TITLES[objective]
    low, high = limits(values)
    if objective is ACCURACY:
        # Room above 100 % for the marker, not for values that cannot be.
        high = min(high, 1 + PADDING * (1 - min(values)) + 1e-3)
        return plain(title, range=[low, high], tickformat=decimals(high - low))
    if objective is PARAMETERS:
        return plain(title, range=[low, high], tickformat="~s", nticks=6, tickangle=0)
    if min(values) > 0:
        return plain(title, **logarithmic(values))
    return plain("training time (s)", range=[low, high])


def limits(values: Sequence[float]) -> tuple[float, float]:
    """The span with padding; a single value stands in the middle."""
    low, high = min(values), max(values)
    pad = PADDING * (high - low) or 0.05 * abs(high) or 0.05
    return low - pad, high + pad


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
    return {
        "type": "log",
        "range": [low, high],
        "tickmode": "array",
        "tickangle": 0,
        "tickvals": ticks,
        "ticktext": [f"{tick:,.10g}" for tick in ticks],
    }


def powers_of_two(values: Sequence[int]) -> dict[str, Any]:
    """A log axis with ticks at powers of two, for batch sizes."""
    top = math.ceil(math.log2(max(values)))
    ticks = [2**power for power in range(0, top + 1, max(1, math.ceil(top / 8)))]
    return {
        "type": "log",
        "range": [math.log10(0.8), math.log10(2**top * 1.35)],
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [f"{tick:,}" for tick in ticks],
    }


def _ticks(low: float, high: float) -> list[float]:
    """Three to about six round numbers between ``low`` and ``high``."""
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
    raw = (high - low) / 5.5
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]
