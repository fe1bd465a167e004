"""Which accuracy is better than guessing: a one-sided binomial test on the evaluation images."""

from __future__ import annotations

import functools
import math

SIGNIFICANCE = 1e-3
"""Probability with which one who guesses is taken to have learned something."""


@functools.cache
def least_above_guessing(images: int, guessing: float) -> int:
    """Fewest right answers that are better than guessing.

    The smallest k with P(X >= k) <= 0.1 %, where X, the right answers of one who guesses, is
    binomial with ``images`` draws of probability ``guessing``. The tail is summed term by term,
    without a normal approximation.

    Args:
        images: Number of images.
        guessing: Accuracy of always naming the most frequent class, above 0 and below 1.

    Returns:
        From 1 to ``images`` + 1, which no answers reach.
    """
    tail = 0.0
    for right in range(images, -1, -1):
        # From the smallest terms on, so that none is lost beside a larger one.
        tail += math.exp(
            math.lgamma(images + 1)
            - math.lgamma(right + 1)
            - math.lgamma(images - right + 1)
            + right * math.log(guessing)
            + (images - right) * math.log1p(-guessing)
        )
        if tail > SIGNIFICANCE:
            return right + 1
    raise ValueError(f"the terms must add up to 1, got {tail} for {images} and {guessing}")
