"""What is known of each trial of a study: its runs, and how far runs scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.front.spread import deviations

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
