"""How far repeated runs scatter, and what is known of each trial from its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

CONFIDENCE = 0.95
"""Of the intervals of a mean: the share of them that cover the true mean."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the runs of a trial scatter in one of its values.

    Attributes:
        deviation: Sample standard deviation, with n - 1 in the divisor; ``None`` for one run.
        low: Lower end of the 95 % interval, within what is possible: of the mean, or of the
            estimate.
        high: The upper end.
    """

    deviation: float | None
    low: float
    high: float

    def reach(self, value: float) -> float:
        """From the value to the farther of these ends."""
        return max(abs(self.low - value), abs(self.high - value))


def spread(values: Sequence[float], *, most: float = math.inf) -> Spread | None:
    """Return deviation and interval of repeated measurements.

    The interval is the mean plus and minus Student's t quantile times ``deviation / sqrt(n)``.

    Args:
        values: One value per run, from 0 to ``most``.
        most: The largest that is possible.

    Returns:
        None for fewer than two values, from which no scatter can be told, and for NaN or an
        infinity.
    """
    count = len(values)
    if count < 2 or not all(map(math.isfinite, values)):
        return None
    mean = fmean(values)
    deviation = math.sqrt(math.fsum(gap * gap for gap in deviations(values)) / (count - 1))
    margin = t_quantile(count - 1) * deviation / math.sqrt(count)
    return Spread(deviation, max(mean - margin, 0.0), min(mean + margin, most))


def deviations(values: Sequence[float]) -> list[float]:
    """Return by how much each of one or more finite values is above their mean.

    Taken from the first value rather than from the rounded mean, so that equal values have
    deviations of exactly zero.
    """
    gaps = [value - values[0] for value in values]
    centre = fmean(gaps)
    return [gap - centre for gap in gaps]


@cache
def t_quantile(degrees: int) -> float:
    """Return the value above which Student's t lies with a probability of 2.5 %.

    Args:
        degrees: Degrees of freedom, a whole number from 1 on.

    Returns:
        The quantile, to about 1e-10 of its value: by halving the angle of its share.

    Raises:
        ValueError: No such distribution.
    """
    if not degrees >= 1 or degrees % 1:
        raise ValueError(
            f"degrees must be a whole number from 1 on, got {degrees!r}: "
            "pass the number of runs less the number of means taken from them"
        )
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        is_above = _central_share(degrees, middle) > CONFIDENCE
        low, high = (low, middle) if is_above else (middle, high)
    return math.sqrt(degrees) * math.tan(high)


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


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of one trial.

    Attributes:
        accuracies: Of each run, fractions.
        seconds: Training seconds of each run, in the same order.
        parameters: Learned parameters, the same in every run.
        others: Means in further objectives, less is better.

    Raises:
        ValueError: No run, not as many seconds as accuracies, or a finite accuracy or number of
            seconds that cannot be. NaN and infinities are allowed: such a trial is on no front.
    """

    accuracies: tuple[float, ...]
    seconds: tuple[float, ...]
    parameters: float
    others: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.accuracies or len(self.accuracies) != len(self.seconds):
            raise ValueError(
                "a sample must have one accuracy and one number of seconds per run, of at least "
                f"one run, got {len(self.accuracies)} and {len(self.seconds)}: pass the runs of "
                "one trial"
            )
        for accuracy in self.accuracies:
            if math.isfinite(accuracy) and not 0 <= accuracy <= 1:
                raise ValueError(
                    f"an accuracy must be a fraction from 0 to 1, got {accuracy!r}: "
                    "divide percent by 100"
                )
        for seconds in self.seconds:
            if math.isfinite(seconds) and seconds <= 0:
                raise ValueError(
                    f"training seconds must be above 0, got {seconds!r}: leave out runs that "
                    "trained nothing"
                )

    @property
    def finite(self) -> bool:
        """Whether every value is a finite number."""
        return all(map(math.isfinite, (*self.accuracies, *self.seconds, *self.values[2:])))

    @property
    def values(self) -> tuple[float, ...]:
        """Mean accuracy, mean training seconds, parameters and the others."""
        return fmean(self.accuracies), fmean(self.seconds), self.parameters, *self.others


@dataclass(frozen=True, slots=True)
class PooledSpread:
    """How runs of one trial scatter, over all repeated trials.

    Attributes:
        accuracy: Sum of the squared deviations of accuracies from their trial's mean.
        log_seconds: That of the natural logarithms of training seconds.
        degrees: Degrees of freedom: the runs of repeated trials less one per trial.
    """

    accuracy: float
    log_seconds: float
    degrees: int


def pooled_spread(samples: Sequence[Sample]) -> PooledSpread | None:
    """Return the scatter of runs within trials, pooled over the trials.

    Args:
        samples: One per trial. Those of one run, or with NaN or an infinity, say nothing.

    Returns:
        None where no trial has two runs.
    """
    known = [sample for sample in samples if len(sample.seconds) > 1 and sample.finite]
    if not known:
        return None
    logarithms = [[math.log(seconds) for seconds in sample.seconds] for sample in known]
    return PooledSpread(
        accuracy=_squares(sample.accuracies for sample in known),
        log_seconds=_squares(logarithms),
        degrees=sum(len(sample.seconds) - 1 for sample in known),
    )


def _squares(columns: Iterable[Sequence[float]]) -> float:
    return math.fsum(gap * gap for column in columns for gap in deviations(column))
