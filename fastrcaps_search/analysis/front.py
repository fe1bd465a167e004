"""Which trials of a study are on its front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastrcaps_search.definition.objective import MAXIMISE
from fastrcaps_search.front.dominance import front_mask, minimisation_view
from fastrcaps_search.store.records import Values
from fastrcaps_search.store.trials import TrialRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def front_numbers(trials: Sequence[TrialRecord]) -> list[int]:
    """Numbers of the feasible trials that no other feasible trial dominates.

    Sorted by accuracy, highest first, then by seconds, then by number. Trials of equal values
    are all on the front.
    """
    valued = _valued(trials)
    mask = front_mask(_points([values for _, values in valued]))
    front = [pair for pair, on_front in zip(valued, mask, strict=True) if on_front]
    front.sort(key=lambda pair: (-pair[1].accuracy, pair[1].training_seconds, pair[0].number))
    return [trial.number for trial, _ in front]


def _valued(trials: Sequence[TrialRecord]) -> list[tuple[TrialRecord, Values]]:
    return [
        (trial, trial.feasible_values) for trial in trials if trial.feasible_values is not None
    ]


def _points(values: Sequence[Values]) -> NDArray[np.float64]:
    return minimisation_view([value.as_tuple() for value in values], maximise=MAXIMISE)
