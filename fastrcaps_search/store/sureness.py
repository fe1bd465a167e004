"""How surely each trial of a study is on the front, from its stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastrcaps_search.front.certainty import NEAR, Sample, front_probabilities
from fastrcaps_search.store.records import TrialRecord, Values
from fastrcaps_search.store.summary import front_numbers

LEAST_SECONDS = 1e-9
"""What stands for no time at all, which has no logarithm."""


def probabilities(trials: Sequence[TrialRecord]) -> Mapping[int, float]:
    """Probability of being on the front by number of each feasible trial.

    Empty where no trial was trained more than once: then nothing says how far runs scatter.
    """
    # Numpy takes a moment to import; most studies have not been repeated.
    if not any(len(trial.results) > 1 for trial in trials if trial.is_feasible):
        return {}
    valued = [(t, values) for t in trials if (values := t.feasible_values) is not None]
    found = front_probabilities([_sample(trial, values) for trial, values in valued])
    if found is None:
        return {}
    numbers = [trial.number for trial, _ in valued]
    return dict(zip(numbers, found, strict=True))


def near_front_numbers(
    trials: Sequence[TrialRecord], sureness: Mapping[int, float] | None = None
) -> list[int]:
    """Numbers of the trials on the front, and of those that may well belong there.

    Args:
        trials: All trials of the study.
        sureness: What :func:`probabilities` gives for them, where that is known.
    """
    found = dict.fromkeys(front_numbers(trials))
    known = probabilities(trials) if sureness is None else sureness
    found |= dict.fromkeys(number for number, sure in known.items() if sure >= NEAR)
    return list(found)


def _sample(trial: TrialRecord, values: Values) -> Sample:
    runs = [
        (run.accuracy, run.training_seconds)
        for run in trial.results
        if run.accuracy is not None and run.training_seconds is not None
    ] or [(values.accuracy, values.training_seconds)]
    return Sample(
        accuracies=tuple(accuracy for accuracy, _ in runs),
        seconds=tuple(max(seconds, LEAST_SECONDS) for _, seconds in runs),
        parameters=values.parameters,
    )
