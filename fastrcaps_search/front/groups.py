"""The true means of one measured column: noise of one variance, and one or two normal groups.

The groups are the trials that lead, and the rest. One normal alone would take two clusters for one
wide group and correct nothing within them. Noise and width of the leading group are not known but
averaged over a grid, weighted by their likelihood (Gelman et al. 2013, Bayesian Data Analysis,
section 5.4: fitting them alone gives intervals that are too narrow). Levels are integrated out at
each grid point; the second group is fitted by expectation maximisation (Dempster, Laird and Rubin
1977) and weighed against one group by Schwarz's criterion (1978).

Shapes: n trials, J grid points, 2 groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FEWEST = 5
"""Trials from which a prior is fitted; below, their own runs are all that is known."""

FEWEST_DEGREES = 4
"""Runs, less one per trial, from which a prior is fitted. With fewer the noise is hardly known:
after one repeat estimates would be further from the truth than means are, and up to three their
95 % intervals would hold 85 to 92 % (``python -m tests.benchmarks.selection_bias --made 1
--degrees 1``)."""

_NOISES = np.linspace(-2.2, 2.2, 5)
"""Grid of the noise: log variance less that of the pooled one, in its standard errors."""

_WIDTHS = np.array([0.05, 0.3, 0.6, 1.1, 2.0, 5.0, 30.0])
"""Grid of the width of the leading group, in deviations of one run."""

_WIDTH_PRIOR = np.array([3.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0])
"""Equal trials are common: decoders and exponents often change nothing."""

_FIRST_STEPS, _STEPS = 5, 15
"""Of expectation maximisation, at all grid points and at those that are left then."""

_HOPELESS = 30.0
"""Grid points whose likelihood is lower by so much in its logarithm get no more steps."""

_LEAST_WEIGHT = 1e-4
"""Grid points of a smaller share of the posterior are left out."""

_NARROWEST = 0.2
"""Of the second group, in deviations of one run."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPosterior:
    """The posterior of one measured column.

    Attributes:
        probability: [J] of each grid point.
        chances: [J, n, 2] of each trial to belong to each group.
        centres: [J, n, 2] posterior means within a group.
        variances: [J, n, 2] with the groups' levels known.
        pulls: [J, n, 2] how far a mean follows its group, 0 to 1.
        level_variances: [J, 2] of the groups' levels.
    """

    probability: Array
    chances: Array
    centres: Array
    variances: Array
    pulls: Array
    level_variances: Array

    def restricted(self, rows: NDArray[np.int64]) -> ColumnPosterior:
        """Return the same of some of the trials."""
        names = ("chances", "centres", "variances", "pulls")
        return replace(self, **{name: getattr(self, name)[:, rows] for name in names})

    def marginal(self) -> tuple[Array, Array, Array]:
        """Weights, means and variances, [2 J, n] each, of the mixture of normals of a trial."""
        uncertain = self.variances + self.pulls**2 * self.level_variances[:, None]
        parts = self.probability[:, None, None] * self.chances, self.centres, uncertain
        count = self.chances.shape[1]
        weights, means, variances = (part.transpose(0, 2, 1).reshape(-1, count) for part in parts)
        return weights, means, variances

    def drawn(self, generator: np.random.Generator) -> Array:
        """Return [n] true means."""
        point = np.searchsorted(np.cumsum(self.probability)[:-1], generator.random())
        trials = np.arange(self.chances.shape[1])
        group = (generator.random(len(trials)) >= self.chances[point, :, 0]).astype(np.int64)
        level = generator.standard_normal(2) * np.sqrt(self.level_variances[point])
        moved = self.pulls[point, trials, group] * level[group]
        noise = np.sqrt(self.variances[point, trials, group])
        noise *= generator.standard_normal(len(trials))
        result: Array = self.centres[point, trials, group] + moved + noise
        return result


def fits_prior(trials: int, degrees: int) -> bool:
    """Whether so many trials, with so many degrees of freedom of their noise, have a prior."""
    return trials >= FEWEST and degrees >= FEWEST_DEGREES


def own_posterior(values: Array, runs: Array, squares: float, degrees: int) -> ColumnPosterior:
    """The posterior of a column from each trial's own runs; arguments as below."""
    noises, logarithm = _noise_grid(squares, degrees)
    shape = (len(noises), len(values), 2)
    return ColumnPosterior(
        probability=_normalised(logarithm),
        chances=np.broadcast_to([1.0, 0.0], shape),
        centres=np.broadcast_to(values[:, None], shape),
        variances=np.broadcast_to((noises[:, None] / runs)[..., None], shape),
        pulls=np.zeros(shape),
        level_variances=np.zeros((len(noises), 2)),
    )


def _noise_grid(squares: float, degrees: int) -> tuple[Array, Array]:
    """Grid of the noise, and the logarithm of the likelihood of each."""
    noises = squares / degrees * np.exp(_NOISES * math.sqrt(2 / degrees))
    return noises, -degrees / 2 * np.log(noises) - squares / 2 / noises


def column_posterior(values: Array, runs: Array, squares: float, degrees: int) -> ColumnPosterior:
    """Return the posterior of a column under a prior that is fitted to it.

    Args:
        values: [n] means over the runs.
        runs: [n] numbers of runs.
        squares: Sum of the squared deviations of the runs from their trial's mean, above 0.
        degrees: Their degrees of freedom.
    """
    noises, logarithm = _noise_grid(squares, degrees)
    # One group or two, in that order.
    grid = np.meshgrid(noises, _WIDTHS**2, [0.0, 1.0], indexing="ij")
    noise, width, second = (part.ravel() for part in grid)
    prior = np.log(_WIDTH_PRIOR)[:, None] - 1.5 * math.log(len(values)) * np.array([0.0, 1.0])
    weight = (logarithm[:, None, None] + prior).ravel()
    fit = _Fit.of(values, runs, noise, width * noise, second > 0)
    for steps, least in ((_FIRST_STEPS, math.exp(-_HOPELESS)), (_STEPS, _LEAST_WEIGHT)):
        for _ in range(steps):
            fit.step()
        probability = _normalised(weight + fit.evidence())
        kept = probability > least
        weight = weight[kept]
        fit = fit.restricted(kept)
    return fit.posterior(probability[kept] / probability[kept].sum())


def _normalised(logarithm: Array) -> Array:
    weight = np.exp(logarithm - logarithm.max())
    result: Array = weight / weight.sum()
    return result


@dataclass(slots=True, eq=False)
class _Fit:
    """Groups at each grid point, by expectation maximisation.

    Attributes:
        values: [n, 1].
        noise: [J, n, 1] variances of the means.
        least: [J] variance of the second group at the narrowest.
        widths: [J, 2] variances of the groups.
        shares: [J, 2] of the groups.
        levels: [J, 2] of the groups.
    """

    values: Array
    noise: Array
    least: Array
    widths: Array
    shares: Array
    levels: Array

    @classmethod
    def of(
        cls,
        values: Array,
        runs: Array,
        noise: Array,
        width: Array,
        second: NDArray[np.bool_],
    ) -> _Fit:
        """Fit [n] values of so many runs; noise, width [J], and whether there are two groups."""
        alone = np.array([[1.0, 0.0], [0.5, 0.5]])
        first = np.quantile(values, [0.75, 0.25])
        return cls(
            values=values[:, None],
            noise=(noise[:, None] / runs)[..., None],
            least=_NARROWEST**2 * noise,
            widths=np.column_stack([width, np.maximum(values.var() / 4, _NARROWEST**2 * noise)]),
            shares=alone[second.astype(np.int64)],
            levels=np.where(second[:, None], first, values.mean()),
        )

    def restricted(self, kept: NDArray[np.bool_]) -> _Fit:
        """Return the same at some of the grid points."""
        names = ("noise", "least", "widths", "shares", "levels")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def step(self) -> None:
        """Fit the groups once more, given how likely each trial is of each."""
        total, chances, sure, _ = self._weighed()
        self.levels = (sure * self.values).sum(axis=1) / np.maximum(sure.sum(axis=1), 1e-300)
        self.shares = chances.mean(axis=1)
        # The width of the first group is that of the grid.
        second = sure[..., 1] / total[..., 1]
        rest = self.values - self.levels[:, None]
        excess = (second * (rest[..., 1] ** 2 - self.noise[..., 0])).sum(axis=1)
        found = excess / np.maximum(second.sum(axis=1), 1e-300)
        self.widths[:, 1] = np.maximum(found, self.least)

    def _weighed(self) -> tuple[Array, Array, Array, Array]:
        """What each trial says of each group, and the logarithm [J] of the likelihood.

        [J, n, 2] each: variances of the means, chances to belong there, and these over those.
        """
        total = self.widths[:, None] + self.noise
        rest = self.values - self.levels[:, None]
        with np.errstate(divide="ignore"):
            logarithm = np.log(self.shares)[:, None] - (np.log(total) + rest**2 / total) / 2
        most = logarithm.max(axis=2, keepdims=True)
        chances = np.exp(logarithm - most)
        whole = chances.sum(axis=2, keepdims=True)
        chances /= whole
        return total, chances, chances / total, (np.log(whole) + most).sum(axis=(1, 2))

    def evidence(self) -> Array:
        """Logarithm [J] of the likelihood with the levels integrated out (but a constant)."""
        _, _, sure, logarithm = self._weighed()
        result: Array = logarithm - np.log(sure.sum(axis=(1, 2))) / 2
        return result

    def posterior(self, probability: Array) -> ColumnPosterior:
        """The posterior, given the probability [J] of each grid point."""
        total, chances, sure, _ = self._weighed()
        pulls = self.noise / total
        return ColumnPosterior(
            probability=probability,
            chances=chances,
            centres=self.values + pulls * (self.levels[:, None] - self.values),
            variances=self.noise * (1 - pulls),
            pulls=pulls,
            # A group without trials has no level, and nothing belongs to it.
            level_variances=1 / np.maximum(sure.sum(axis=1), 1 / total.max(axis=1)),
        )
