"""How surely each trial is on the front, given that its values are known from a few runs.

The runs of a trial differ by chance. Here the true means are drawn many times from their posterior
(:mod:`fastrcaps_search.front.estimates`), and the share of draws in which a trial is on the front
is its probability.

What the draws do not know: runs of two trials that share a seed may scatter together, which makes
their difference surer than is said here; nor that accuracy and seconds of a run scatter together.
From one to three repeats the scatter is a guess: there, what is said to be at 0.9 may be at 0.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.front.dominance import front_mask
from fastrcaps_search.front.estimates import in_order, true_means
from fastrcaps_search.front.samples import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR = 0.1
"""From this probability of being on the front on, a trial counts as near it."""

_ENOUGH = 300
"""Draws after which a trial that was on no front is left out of the remaining ones.

Its probability is below 0.01 with 95 % confidence (rule of three), and it does not matter to the
others: whatever it dominates in a draw where it is not on the front itself, a trial on that front
dominates too. This is most of the work of studies of thousands of trials.
"""


def front_probabilities(
    samples: Sequence[Sample], *, draws: int = 2000, seed: int = 0
) -> list[float] | None:
    """Return for each trial the probability that it is on the front of the true means.

    In each draw the true means come from their posterior. Parameters are exact. The standard error
    from drawing is at most ``0.5 / sqrt(draws)``.

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
    shares = _shares(known, draws, np.random.default_rng(seed))
    if shares is None:
        return None
    probabilities = np.zeros(len(samples))
    probabilities[valid] = shares
    return [float(probability) for probability in probabilities]


def _shares(
    samples: list[Sample], draws: int, generator: np.random.Generator
) -> NDArray[np.float64] | None:
    """Return [n] the share of draws in which each of the finite samples is on the front."""
    # So that each trial always gets the same noise; and moocore is fastest on rows nearly in the
    # order of a measured column.
    order = in_order(samples)
    means = true_means([samples[index] for index in order])
    if means is None:
        return None
    counts = np.zeros(len(samples), dtype=np.int64)
    rows = np.arange(len(samples))
    for draw in range(draws):
        if draw == _ENOUGH:
            rows = np.flatnonzero(counts)
            means = means.restricted(rows)
        counts[rows] += front_mask(means.drawn(generator))
    shares = np.empty(len(samples))
    shares[order] = counts / draws
    return shares
