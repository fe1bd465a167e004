"""How far repeated runs scatter, and how surely their mean is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

CONFIDENCE = 0.95
"""Of the intervals of a mean: the share of them that cover the true mean."""

_ROUNDS = 60
"""Most steps of the root search; Newton's alone settle in about ten."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What two or more runs say about one value.

    Attributes:
        count: Runs.
        mean: Their arithmetic mean.
        deviation: Sample standard deviation, with n - 1 in the divisor.
        margin: Half the width of the 95 % interval of the mean, which is ``mean - margin`` to
            ``mean + margin``: Student's t quantile times ``deviation / sqrt(count)``.
    """

    count: int
    mean: float
    deviation: float
    margin: float


def spread(values: Sequence[float]) -> Spread | None:
    """Return mean, deviation and margin of repeated measurements.

    Args:
        values: One value per run.

    Returns:
        None for fewer than two values, from which no scatter can be told.

    Raises:
        ValueError: A value is NaN or infinite.
    """
    for value in values:
        if not math.isfinite(value):
            raise ValueError(
                f"values of runs must be finite numbers, got {value!r}: leave out diverged runs"
            )
    count = len(values)
    if count < 2:
        return None
    deviation = math.sqrt(math.fsum(gap * gap for gap in deviations(values)) / (count - 1))
    quantile = t_quantile(count - 1, 0.5 + CONFIDENCE / 2)
    return Spread(count, fmean(values), deviation, quantile * deviation / math.sqrt(count))


def deviations(values: Sequence[float]) -> list[float]:
    """Return by how much each of one or more finite values is above their mean.

    Taken from the first value rather than from the rounded mean, so that equal values have
    deviations of exactly zero.
    """
    gaps = [value - values[0] for value in values]
    centre = fmean(gaps)
    return [gap - centre for gap in gaps]


def t_quantile(degrees: int, probability: float = 0.975) -> float:
    """Return the value below which Student's t lies with this probability.

    Args:
        degrees: Degrees of freedom, a whole number from 1 on.
        probability: Between 0 and 1, both excluded.

    Returns:
        The quantile, to about 1e-10 of its value for probabilities of 1e-6 to 1 - 1e-6.

    Raises:
        ValueError: No such distribution, or no such probability.
    """
    if not degrees >= 1 or degrees % 1:
        raise ValueError(
            f"degrees must be a whole number from 1 on, got {degrees!r}: "
            "pass the number of runs less the number of means taken from them"
        )
    if not 0 < probability < 1:
        raise ValueError(
            f"probability must lie between 0 and 1, got {probability!r}: pass 0.975 for a 95 % "
            "interval"
        )
    if probability == 0.5:
        return 0.0
    tail = min(probability, 1 - probability)
    angle = _angle_between(int(degrees), 1 - 2 * tail)
    return math.copysign(math.sqrt(degrees) * math.tan(angle), probability - 0.5)


def _angle_between(degrees: int, share: float) -> float:
    """Return the angle at which :func:`_central_share` is the share.

    Newton's steps, and bisection wherever one of them leaves the bracket.
    """
    low, high = 0.0, math.pi / 2
    angle = min(share, 1.0) * high
    slope_at_zero = _density_factor(degrees)
    for _ in range(_ROUNDS):
        excess = _central_share(degrees, angle) - share
        low, high = (low, angle) if excess > 0 else (angle, high)
        slope = slope_at_zero * math.cos(angle) ** (degrees - 1)
        following = angle - excess / slope if slope > 0 else low
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - angle) <= 1e-15 * angle:
            break
        angle = following
    return angle


def _density_factor(degrees: int) -> float:
    """Return the slope of the central share at angle zero."""
    logarithm = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    return 2 / math.sqrt(math.pi) * math.exp(logarithm)


def _central_share(degrees: int, angle: float) -> float:
    """Return the probability that |t| is below ``sqrt(degrees) * tan(angle)``.

    Abramowitz and Stegun (1964), Handbook of Mathematical Functions, equations 26.7.3 (odd
    degrees) and 26.7.4 (even degrees): finite sums, exact for whole degrees.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2 == 1
    term = sine * cosine if odd else sine
    terms = []
    for index in range(2 + odd, degrees + 1, 2):
        terms.append(term)
        term *= cosine * cosine * (index - 1) / index
    total = math.fsum(terms)
    return 2 / math.pi * (angle + total) if odd else total
