"""How surely each trial of a study is on the front, from its stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastrcaps_search.analysis.estimates import sample_of
from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.front.certainty import NEAR, front_probabilities
from fastrcaps_search.store.trials import TrialRecord


def probabilities(trials: Sequence[TrialRecord]) -> Mapping[int, float]:
    """Probability of being on the front by number of each feasible trial.

    Empty where no trial was trained more than once: then nothing says how far runs scatter.
    """
    samples = {trial.number: sample for trial in trials if (sample := sample_of(trial))}
    # Numpy takes a moment to import; most studies have not been repeated.
    if all(len(sample.seconds) < 2 for sample in samples.values()):
        return {}
    found = front_probabilities(list(samples.values()))
    return {} if found is None else dict(zip(samples, found, strict=True))


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
