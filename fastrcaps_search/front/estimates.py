"""What the runs of the whole study say of the true means of each trial.

Trials on or near the front were picked for the luck of their runs, so the plain means of their
runs flatter them. Here the true means have a prior that is fitted to all trials of the study, and
what is said of a trial is the posterior given its runs. A posterior given all that was measured,
the trials that were not picked included, does not depend on how the picking went (Gelman et al.
2013, Bayesian Data Analysis, section 8.2): no run has to be left out.

The columns are log seconds, and accuracy less the part of its noise that goes with that of log
seconds: log, because a later best epoch or a slower machine makes a share of the time, not a
number of seconds; with its part, because a run whose best epoch comes later is both longer and
more accurate. How far runs scatter is pooled over all repeated trials, which assumes that it is
about the same for each. The prior of each column is that of :mod:`fastrcaps_search.front.groups`;
that of accuracies follows a line in log seconds.

``python -m tests.benchmarks.selection_bias`` measures bias and intervals on studies whose truth is
known.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.front.dominance import minimisation_view
from fastrcaps_search.front.groups import ColumnPosterior, column_posterior, fits_prior
from fastrcaps_search.front.samples import Sample, pooled_spread
from fastrcaps_search.front.spread import CONFIDENCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


DIGITS = 9
"""Significant digits of an estimate. The last bits differ between processors (numpy with and
without AVX-512), and bounds copied from a page must find the same trial on another machine."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The true mean of one value of one trial, to ``DIGITS``.

    Attributes:
        value: Posterior mean; for seconds the mean of the runs, moved by that of the logarithm.
        low: 2.5 % quantile of the posterior.
        high: 97.5 % quantile.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class TrueMeans:
    """Posterior of the true means of n trials.

    Attributes:
        points: [n, 3] means of the runs, minimised; seconds as logarithms where they scatter.
        natural_seconds: [n] means of the runs, not as logarithms.
        seconds: Posterior of log seconds; ``None`` where runs do not scatter in them.
        accuracy: Posterior of accuracies less ``share`` times log seconds; ``None`` likewise.
        share: Accuracy that comes with a log second by chance.
    """

    points: Array
    natural_seconds: Array
    seconds: ColumnPosterior | None
    accuracy: ColumnPosterior | None
    share: float

    def restricted(self, rows: NDArray[np.int64]) -> TrueMeans:
        """Return the same of some of the trials; what the others said of the study stays."""
        return replace(
            self,
            points=self.points[rows],
            natural_seconds=self.natural_seconds[rows],
            seconds=None if self.seconds is None else self.seconds.restricted(rows),
            accuracy=None if self.accuracy is None else self.accuracy.restricted(rows),
        )

    def drawn(self, generator: np.random.Generator) -> Array:
        """Return [n, 3] true means, minimised."""
        means = self.points.copy()
        if self.seconds is not None:
            means[:, 1] = self.seconds.drawn(generator)
        if self.accuracy is not None:
            means[:, 0] = -self.accuracy.drawn(generator)
            if self.share:
                means[:, 0] -= self.share * means[:, 1]
        return means

    def estimates(self) -> tuple[list[Estimate], list[Estimate]]:
        """Accuracy and training seconds of each trial.

        As gaps from the means of the runs, so that of what is not moved only digits are cut.
        """
        accuracies, nothing = -self.points[:, 0], np.zeros(len(self.points))
        times = (nothing, nothing, nothing)
        more = nothing
        if self.seconds is not None:
            weights, gaps, variances = self.seconds.marginal()
            gaps = gaps - self.points[:, 1]
            times = _summed(weights, gaps, variances)
            more = (weights * (variances + gaps**2)).sum(axis=0) - times[0] ** 2
        fractions = (nothing, nothing, nothing)
        if self.accuracy is not None:
            weights, gaps, variances = self.accuracy.marginal()
            observed = accuracies - (self.share * self.points[:, 1] if self.share else 0.0)
            gaps = gaps - observed + self.share * times[0]
            fractions = _summed(weights, gaps, variances + self.share**2 * more)
        columns = [_rounded(np.clip(accuracies + part, 0.0, 1.0)) for part in fractions]
        columns += [_rounded(self.natural_seconds * np.exp(part)) for part in times]
        # Of few trials the line may say more than was ever measured.
        for place, means in ((0, accuracies), (len(fractions), self.natural_seconds)):
            value, low, high = columns[place : place + 3]
            value = _rounded(np.clip(value, means.min(), means.max()))
            low, high = np.minimum(low, value).tolist(), np.maximum(high, value).tolist()
            columns[place : place + 3] = value, low, high
        rows = list(zip(*columns, strict=True))
        return [Estimate(*row[:3]) for row in rows], [Estimate(*row[3:]) for row in rows]


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]


def true_means(samples: Sequence[Sample]) -> TrueMeans | None:
    """Return the posterior of the true means.

    Args:
        samples: One per trial, finite, in any order: the result is the same to the last bit.

    Returns:
        None where no trial has two runs: nothing says how far runs scatter.
    """
    order = in_order(samples)
    found = _fitted(tuple(samples[index] for index in order))
    return None if found is None else found.restricted(np.argsort(order))


def known_means(samples: Sequence[Sample]) -> TrueMeans | None:
    """Return the same where there is a prior; else None, for the means of the runs say it all."""
    spread = pooled_spread(samples)
    fits = spread is not None and fits_prior(len(samples), spread.degrees)
    return true_means(samples) if fits else None


def in_order(samples: Sequence[Sample]) -> list[int]:
    """One order for all ways to list the trials: that of seconds."""

    def key(index: int) -> tuple[object, ...]:
        accuracy, seconds, parameters = samples[index].values
        return seconds, -accuracy, parameters, samples[index].seconds, samples[index].accuracies

    return sorted(range(len(samples)), key=key)


# Front, rows, choice and page ask for the same trials one after the other.
@functools.lru_cache(maxsize=4)
def _fitted(samples: tuple[Sample, ...]) -> TrueMeans | None:
    spread = pooled_spread(samples)
    if spread is None:
        return None
    points = minimisation_view([one.values for one in samples], maximise=(True, False, False))
    runs = np.array([float(len(one.seconds)) for one in samples])
    natural = points[:, 1].copy()
    logarithms = np.log(natural)
    degrees, squares = spread.degrees, spread.covariance * spread.degrees
    seconds, share = None, 0.0
    if squares[1, 1] > 0:
        # Only where noise is added: two different times may have the same logarithm.
        points[:, 1] = logarithms
        seconds = column_posterior(
            logarithms, runs, float(squares[1, 1]), degrees, np.zeros(len(runs))
        )
        share = float(squares[0, 1] / squares[1, 1])
        weights, means, _ = seconds.marginal()
        logarithms = (weights * means).sum(axis=0)
    accuracy = None
    own = float(squares[0, 0] - share * squares[0, 1])
    if own > 0:
        column = -points[:, 0] - (share * points[:, 1] if share else 0.0)
        accuracy = column_posterior(column, runs, own, degrees, logarithms)
    return TrueMeans(points, natural, seconds, accuracy, share)


def _summed(weights: Array, means: Array, variances: Array) -> tuple[Array, Array, Array]:
    """Mean and the ends of the 95 % interval, [n] each, of mixtures [M, n] of normals."""
    tail = (1 - CONFIDENCE) / 2
    ends = (_quantile(weights, means, np.sqrt(variances), part) for part in (tail, 1 - tail))
    low, high = ends
    return (weights * means).sum(axis=0), low, high


def _quantile(weights: Array, means: Array, deviations: Array, share: float) -> Array:
    """Return [n] below which this share of each mixture [M, n] of normals lies, by halving."""
    low = (means - 9 * deviations).min(axis=0)
    high = (means + 9 * deviations).max(axis=0)
    for _ in range(40):
        middle = (low + high) / 2
        below = (weights * _normal_share((middle - means) / deviations)).sum(axis=0)
        low, high = np.where(below < share, middle, low), np.where(below < share, high, middle)
    return np.asarray((low + high) / 2)


def _normal_share(gaps: Array) -> Array:
    """Normal distribution function, to 1e-7 (Abramowitz and Stegun 1964, equation 26.2.17)."""
    size = np.minimum(np.abs(gaps), 38.0)
    t = 1 / (1 + 0.2316419 * size)
    series = 0.31938153 + t * (
        -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
    )
    tail = t * series * np.exp(-(size**2) / 2) / math.sqrt(2 * math.pi)
    return np.where(gaps > 0, 1 - tail, tail)
