"""What is known of each trial of a study: its runs, and how far runs scatter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from fastrcaps_search.front.spread import deviations


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
