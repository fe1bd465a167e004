"""How surely each trial is on the front, given that its values are means of a few runs.

The values of a trial are means over runs that differ by chance. Here the true means are drawn many
times from what the runs say about them, and the share of draws in which a trial is on the front
is its probability.

A handful of runs of one trial says little about how far runs scatter, and two runs hardly
anything: drawing from the runs themselves (a bootstrap) takes the two values for all that can
happen and is far too sure. So the scatter is pooled over all repeated trials of the study, which
assumes that it is about the same for each. It is pooled as a covariance of accuracy and log
seconds: log, because a later best epoch or a slower machine makes a share of the time, not a
number of seconds; a covariance, because a run whose best epoch comes later is both longer and more
accurate.

The observed means lie further apart than the true ones, by the same noise, so drawing around them
as they are spreads them twice: on synthetic fronts where noise was as large as the gaps between
trials, 70 to 80 % of the trials said to be at 0.5 were on the front. So the means are first drawn
together by the share of their variance that is noise (empirical Bayes: Efron and Morris 1972,
"Empirical Bayes on vector observations: an extension of Stein's method", Biometrika 59(2)). With
more runs, or trials further apart, that share goes to 0.

What the draws do not know: runs of two trials that share a seed may scatter together, which makes
their difference surer than is said here. And from one or two repeated trials of two runs the
scatter is a guess: there, trials said to be at 0.9 may be at 0.8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.front.dominance import front_mask, minimisation_view
from fastrcaps_search.front.spread import deviations

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR = 0.1
"""From this probability of being on the front on, a trial counts as near it."""

_LEAST_SHARE = 0.05
"""Of the variance between observed means: what is taken for true however large the noise is."""

_ENOUGH = 300
"""Draws after which a trial that was on no front is left out of the remaining ones.

Its probability is below 0.01 with 95 % confidence (rule of three), and it does not matter to the
others: whatever it dominates in a draw where it is not on the front itself, a trial on that front
dominates too. This is most of the work of studies of thousands of trials.
"""

_LEAST_SQUARE = 1e-12
"""Of a chi-squared draw; smaller ones come once in a million and would only overflow."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of one trial.

    Attributes:
        accuracies: Of each run, fractions.
        seconds: Training seconds of each run, in the same order.
        parameters: Learned parameters, the same in every run.

    Raises:
        ValueError: No run, not as many seconds as accuracies, or a finite accuracy or number of
            seconds that cannot be. NaN and infinities are allowed: such a trial is on no front.
    """

    accuracies: tuple[float, ...]
    seconds: tuple[float, ...]
    parameters: float

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
        return all(map(math.isfinite, (*self.accuracies, *self.seconds, self.parameters)))

    @property
    def values(self) -> tuple[float, float, float]:
        """Mean accuracy, mean training seconds and parameters, as the trial's values are."""
        return fmean(self.accuracies), fmean(self.seconds), self.parameters


@dataclass(frozen=True, slots=True, eq=False)
class PooledSpread:
    """How runs of one trial scatter, over all repeated trials.

    Attributes:
        covariance: [2, 2] float64, of accuracy and the natural logarithm of training seconds. Its
            correlation is drawn towards 0 by ``degrees / (degrees + 1)``, as from one degree it
            always comes out as -1 or 1.
        degrees: Degrees of freedom: the runs of repeated trials less one per trial.
    """

    covariance: NDArray[np.float64]
    degrees: int


def pooled_spread(samples: Sequence[Sample]) -> PooledSpread | None:
    """Return the scatter of runs within trials, pooled over the trials.

    Args:
        samples: One per trial. Those of one run, or with NaN or an infinity, say nothing.

    Returns:
        None where no trial has two runs.
    """
    gaps: list[tuple[float, float]] = []
    degrees = 0
    for sample in samples:
        if len(sample.seconds) > 1 and sample.finite:
            logarithms = [math.log(seconds) for seconds in sample.seconds]
            gaps += zip(deviations(sample.accuracies), deviations(logarithms), strict=True)
            degrees += len(logarithms) - 1
    if not degrees:
        return None
    rows = np.array(gaps)
    covariance = rows.T @ rows / degrees
    covariance[[0, 1], [1, 0]] *= degrees / (degrees + 1)
    return PooledSpread(covariance, degrees)


def front_probabilities(
    samples: Sequence[Sample], *, draws: int = 2000, seed: int = 0
) -> list[float] | None:
    """Return for each trial the probability that it is on the front of the true means.

    In each draw the true means come from their posterior given the observed means, a pooled
    covariance over n for a trial of n runs, and a normal distribution of the true means, fitted to
    the study, of accuracy and log seconds. The covariance itself is known from few runs, so that
    of a draw is scaled by ``degrees / chi2(degrees)``: a multivariate t (Gelman et al. 2013,
    Bayesian Data Analysis, section 3.6). Parameters are exact. The standard error from drawing is
    at most ``0.5 / sqrt(draws)``.

    Args:
        samples: One per trial, in any order; the result does not depend on it.
        draws: How many sets of true means are drawn, at least 1.
        seed: Equal seeds and samples give equal probabilities.

    Returns:
        One probability per sample, in their order. 0 for a trial with NaN or an infinity, which
        changes no other's. Where repeated runs were all equal, 1 on the front and 0 behind it.
        None where no trial has two runs: nothing says how far runs scatter.

    Raises:
        ValueError: ``draws`` is below 1.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}: leave it out for 2000")
    valid = np.array([sample.finite for sample in samples], dtype=bool)
    known = [sample for sample in samples if sample.finite]
    spread = pooled_spread(known)
    if spread is None:
        return None
    probabilities = np.zeros(len(samples))
    probabilities[valid] = _shares(known, spread, draws, np.random.default_rng(seed))
    return [float(probability) for probability in probabilities]


@dataclass(frozen=True, slots=True, eq=False)
class _Posterior:
    """The true means given the observed ones, in axes along which all noise is independent.

    Shapes: n trials, k measured columns that scatter at all (0 to 2).

    Attributes:
        points: [n, 3] observed means, minimised, seconds as logarithms where they scatter.
        columns: The k columns that scatter. The others stay exactly as they are.
        axes: [k, k]: a deviation from the centre is ``axes @ coordinates``.
        coordinates: [k, n] of the observed means. Their variance over the trials is about 1.
        noise: [k, 1] variance of one run along each axis.
        shares: [n] one over the runs: the variance of a mean as a share of one run's.
        mean_share: Mean of the shares over the whole study; None where its trials are too few to
            tell their variance from noise.
    """

    points: NDArray[np.float64]
    columns: NDArray[np.int64]
    axes: NDArray[np.float64]
    coordinates: NDArray[np.float64]
    noise: NDArray[np.float64]
    shares: NDArray[np.float64]
    mean_share: float | None

    @classmethod
    def of(
        cls, points: NDArray[np.float64], runs: NDArray[np.int64], covariance: NDArray[np.float64]
    ) -> _Posterior:
        """Return the posterior for points [n, 3] and a covariance [2, 2] of one run's noise."""
        columns = np.flatnonzero(np.diagonal(covariance) > 0)
        within = covariance[np.ix_(columns, columns)]
        deviations = points[:, columns] - points[:, columns].mean(axis=0)
        # Efron and Morris: the inverse of this is an unbiased estimate of the true inverse.
        degrees = len(points) - len(columns) - 2
        total = deviations.T @ deviations / max(degrees, 1)
        # Means may be equal, or lie on one line.
        total += 1e-9 * np.diag(np.diagonal(total) + np.diagonal(within))
        root = np.linalg.cholesky(total)
        white = np.linalg.solve(root, np.linalg.solve(root, within).T)
        noise, rotation = np.linalg.eigh((white + white.T) / 2)
        axes = root @ rotation
        return cls(
            points=points,
            columns=columns,
            axes=axes,
            coordinates=np.linalg.solve(axes, deviations.T),
            # Below zero by rounding only, where both columns scatter as one.
            noise=np.maximum(noise, 0.0)[:, None],
            shares=1 / runs,
            mean_share=float(np.mean(1 / runs)) if degrees > 0 else None,
        )

    def restricted(self, rows: NDArray[np.int64]) -> _Posterior:
        """Return the same for some of the trials; what the others said of the study stays."""
        return replace(
            self,
            points=self.points[rows],
            coordinates=self.coordinates[:, rows],
            shares=self.shares[rows],
        )

    def drawn(self, scale: float, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return [n, 3] true means, with the noise's variance multiplied by the scale."""
        run_noise = scale * self.noise
        noise = run_noise * self.shares
        moved = generator.standard_normal(noise.shape)
        if self.mean_share is None:
            moved *= np.sqrt(noise)
        else:
            true = np.maximum(1 - run_noise * self.mean_share, _LEAST_SHARE)
            lost = noise / (true + noise)
            moved *= np.sqrt(true * lost)
            moved -= lost * self.coordinates
        means = self.points.copy()
        means[:, self.columns] += (self.axes @ moved).T
        return means


def _shares(
    samples: list[Sample], spread: PooledSpread, draws: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return [n] the share of draws in which each of the finite samples is on the front."""
    points, runs = _points(samples, spread)
    # One order for all ways to list the trials, so that each always gets the same noise: that of
    # seconds, because moocore is fastest on rows nearly in the order of a measured column.
    order = np.lexsort((runs, points[:, 2], points[:, 0], points[:, 1]))
    # Accuracy is negated in the points.
    covariance = spread.covariance * np.array([[1.0, -1.0], [-1.0, 1.0]])
    posterior = _Posterior.of(points[order], runs[order], covariance)
    squares = np.maximum(generator.chisquare(spread.degrees, draws), _LEAST_SQUARE)
    counts = np.zeros(len(points), dtype=np.int64)
    rows = np.arange(len(points))
    for draw, scale in enumerate(spread.degrees / squares):
        if draw == _ENOUGH:
            rows = np.flatnonzero(counts)
            posterior = posterior.restricted(rows)
        counts[rows] += front_mask(posterior.drawn(scale, generator))
    shares = np.empty(len(points))
    shares[order] = counts / draws
    return shares


def _points(
    samples: list[Sample], spread: PooledSpread
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return [n, 3] observed means, minimised, seconds as logarithms, and [n] numbers of runs."""
    values = [sample.values for sample in samples]
    points = minimisation_view(values, maximise=(True, False, False))
    if spread.covariance[1, 1] > 0:
        # Only where noise is added: two different times may have the same logarithm.
        points[:, 1] = np.log(points[:, 1])
    return points, np.array([len(sample.seconds) for sample in samples], dtype=np.int64)
