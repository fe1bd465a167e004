"""What the runs of a study say of the true means of each trial, and of who is on the front.

Trials on or near the front were picked for the luck of their runs, so the plain means of their
accuracies flatter them. Here the true accuracies have a prior that is fitted to all trials of the
study (:mod:`fastrcaps_search.front.groups`), and what is said of a trial is the posterior given
its runs: each mean is drawn towards those of its group by the share of noise in it. A posterior
given all that was measured, the trials that were not picked included, does not depend on how the
picking went (Gelman et al. 2013, Bayesian Data Analysis, section 8.2): no run has to be left out.

Seconds keep their means: as a rule they differ between trials by far more than from run to run,
so that few trials are picked for lucky ones, and a prior gains nothing. How far runs scatter is
pooled over all repeated trials, as if it were the same for each: in log seconds, because a later
best epoch or a slower machine makes a share of the time, not a number of seconds.

``python -m tests.benchmarks.selection_bias`` measures bias and intervals on studies whose truth is
known.

The true means are drawn many times from their posterior, and the share of draws in which a trial
is on the front is its probability.

What the draws do not know: runs of two trials that share a seed may scatter together, which makes
their difference surer than is said here; nor that accuracy and seconds of a run scatter together.
From one to three repeats the scatter is a guess: there, what is said to be at 0.9 may be at 0.8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.front.dominance import front_mask
from fastrcaps_search.front.groups import (
    ColumnPosterior,
    column_posterior,
    fits_prior,
    own_posterior,
)
from fastrcaps_search.front.spread import CONFIDENCE, Sample, pooled_spread

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
        value: Posterior mean.
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
        points: [n, m] means of the runs, minimised; seconds as logarithms where they scatter.
        accuracy: Posterior of accuracies; ``None`` where runs do not scatter in them.
        seconds: Posterior of log seconds; ``None`` likewise.
        has_prior: Whether enough is known for one, of accuracies; else the means of the runs say
            it all.
    """

    points: Array
    accuracy: ColumnPosterior | None
    seconds: ColumnPosterior | None
    has_prior: bool

    def restricted(self, rows: NDArray[np.int64]) -> TrueMeans:
        """Return the same of some of the trials; what the others said of the study stays."""
        return replace(
            self,
            points=self.points[rows],
            accuracy=None if self.accuracy is None else self.accuracy.restricted(rows),
            seconds=None if self.seconds is None else self.seconds.restricted(rows),
        )

    def drawn(self, generator: np.random.Generator) -> Array:
        """Return [n, m] true means, minimised."""
        means = self.points.copy()
        if self.accuracy is not None:
            means[:, 0] = -self.accuracy.drawn(generator)
        if self.seconds is not None:
            means[:, 1] = self.seconds.drawn(generator)
        return means

    def accuracies(self) -> list[Estimate]:
        """Accuracy of each trial."""
        means = -self.points[:, 0]
        # As gaps from the means, so that of what is not moved only digits are cut.
        gaps: tuple[Array, ...] = (np.zeros(len(means)),) * 3
        if self.accuracy is not None:
            weights, centres, variances = self.accuracy.marginal()
            gaps = _summed(weights, centres - means, variances)
        columns = (_rounded(np.clip(means + gap, 0.0, 1.0)) for gap in gaps)
        return [Estimate(*row) for row in zip(*columns, strict=True)]


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


def in_order(samples: Sequence[Sample]) -> list[int]:
    """One order for all ways to list the finite ones of trials: that of seconds."""

    def key(index: int) -> tuple[object, ...]:
        accuracy, seconds, *others = samples[index].values
        return seconds, -accuracy, *others, samples[index].seconds, samples[index].accuracies

    return sorted((index for index, one in enumerate(samples) if one.finite), key=key)


# Front, rows, choice and page ask for the same trials one after the other.
@functools.lru_cache(maxsize=4)
def _fitted(samples: tuple[Sample, ...]) -> TrueMeans | None:
    spread = pooled_spread(samples)
    if spread is None:
        return None
    points = np.array([one.values for one in samples])
    points[:, 0] = 0.0 - points[:, 0]
    runs = np.array([float(len(one.seconds)) for one in samples])
    has_prior = fits_prior(len(samples), spread.degrees)
    accuracy, seconds = None, None
    if spread.accuracy > 0:
        posterior = column_posterior if has_prior else own_posterior
        accuracy = posterior(-points[:, 0], runs, spread.accuracy, spread.degrees)
    if spread.log_seconds > 0:
        # Only where noise is added: two different times may have the same logarithm.
        points[:, 1] = np.log(points[:, 1])
        seconds = own_posterior(points[:, 1], runs, spread.log_seconds, spread.degrees)
    return TrueMeans(points, accuracy, seconds, has_prior)


def _summed(weights: Array, means: Array, variances: Array) -> tuple[Array, Array, Array]:
    """Mean and the ends of the 95 % interval, [n] each, of mixtures [M, n] of normals."""
    tail = (1 - CONFIDENCE) / 2
    deviations = np.sqrt(variances)
    low, high = (_quantile(weights, means, deviations, part) for part in (tail, 1 - tail))
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


NEAR = 0.1
"""From this probability of being on the front on, a trial counts as near it."""

_ENOUGH = 300
"""Draws after which a trial that was on no front is left out of the remaining ones.

Its probability is below 0.01 with 95 % confidence (rule of three), and it does not matter to the
others: whatever it dominates in a draw where it is not on the front itself, a trial on that front
dominates too. This is most of the work of studies of thousands of trials.
"""


# Rows, remaining work and page ask for the same trials one after the other.
@functools.lru_cache(maxsize=4)
def front_probabilities(
    samples: tuple[Sample, ...], *, draws: int = 2000
) -> tuple[float, ...] | None:
    """Return for each trial the probability that it is on the front of the true means.

    In each draw the true means come from their posterior. Parameters are exact. The standard error
    from drawing is at most ``0.5 / sqrt(draws)``.

    Args:
        samples: One per trial, in any order; the result does not depend on it.
        draws: How many sets of true means are drawn, at least 1.

    Returns:
        One probability per sample, in their order. 0 for a trial with NaN or an infinity, which
        changes no other's. Where repeated runs were all equal, 1 on the front and 0 behind it.
        None where no trial has two runs: nothing says how far runs scatter.

    Raises:
        ValueError: ``draws`` is below 1.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}: leave it out for 2000")
    # So that each trial always gets the same noise; and moocore is fastest on rows nearly in the
    # order of a measured column.
    order = in_order(samples)
    means = true_means([samples[index] for index in order])
    if means is None:
        return None
    generator = np.random.default_rng(0)
    counts, rows = np.zeros(len(order), dtype=np.int64), np.arange(len(order))
    for draw in range(draws):
        if draw == _ENOUGH:
            rows = np.flatnonzero(counts)
            means = means.restricted(rows)
        counts[rows] += front_mask(means.drawn(generator))
    probabilities = np.zeros(len(samples))
    probabilities[order] = counts / draws
    return tuple(probabilities.tolist())
