"""Which trials of a study are on its front."""

from __future__ import annotations

from collections.abc import Sequence

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.front.dominance import front_mask
from fastrcaps_search.store.records import Values
from fastrcaps_search.store.trials import TrialRecord


def front_numbers(trials: Sequence[TrialRecord]) -> list[int]:
    """Numbers of the feasible trials that no other feasible trial dominates.

    Sorted by accuracy, highest first, then by seconds, then by number. Trials of equal values
    are all on the front.
    """
    valued = [(trial, values) for trial in trials if (values := trial.feasible_values) is not None]
    mask = front_mask([costs(values) for _, values in valued])
    front = [pair for pair, on_front in zip(valued, mask, strict=True) if on_front]
    front.sort(key=lambda pair: (-pair[1].accuracy, pair[1].training_seconds, pair[0].number))
    return [trial.number for trial, _ in front]


def costs(values: Values) -> list[float]:
    """The values in the order of the objectives, less is better."""
    return [OBJECTIVES[name].cost(value) for name, value in values.items()]
