"""Which trials of a study are on its front, how surely, and which networks are still wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastrcaps_search.analysis.estimates import sample_of
from fastrcaps_search.definition.objective import costs_of
from fastrcaps_search.front.dominance import front_mask
from fastrcaps_search.front.estimates import NEAR, front_probabilities
from fastrcaps_search.store.trials import TrialRecord


def front_numbers(trials: Sequence[TrialRecord]) -> list[int]:
    """Numbers of the feasible trials on the front, in the order of :func:`front_of`."""
    valued = {trial.number: trial.feasible_values for trial in trials}
    return front_of({number: values for number, values in valued.items() if values is not None})


def front_of(rows: Mapping[int, Mapping[str, float]]) -> list[int]:
    """Numbers of the rows that no other row dominates.

    Sorted by accuracy, highest first, then by seconds, then by number. Rows of equal values are
    all on the front.

    Args:
        rows: Values by name of the objective, by number of the trial.
    """
    mask = front_mask([costs_of(row) for row in rows.values()])
    front = [pair for pair, on_front in zip(rows.items(), mask, strict=True) if on_front]
    front.sort(key=lambda pair: (-pair[1]["accuracy"], pair[1]["training_seconds"], pair[0]))
    return [number for number, _ in front]


def probabilities(trials: Sequence[TrialRecord]) -> Mapping[int, float]:
    """Probability of being on the front by number of each feasible trial.

    Empty where no trial was trained more than once: then nothing says how far runs scatter.
    """
    samples = {trial.number: sample for trial in trials if (sample := sample_of(trial))}
    # Most studies have not been repeated: nothing need be sorted.
    if all(len(sample.seconds) < 2 for sample in samples.values()):
        return {}
    found = front_probabilities(tuple(samples.values()))
    return {} if found is None else dict(zip(samples, found, strict=True))


def near_front_numbers(trials: Sequence[TrialRecord]) -> list[int]:
    """Numbers of the trials on the front, and of those that may well belong there."""
    near = [number for number, sure in probabilities(trials).items() if sure >= NEAR]
    return list(dict.fromkeys([*front_numbers(trials), *near]))


def unwanted(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Trials that have ended well behind the front.

    A trial behind the front comes to it when repeats change values, and when a trial that beats it
    is set aside by hand: those near the front keep their networks, and those of the next front
    behind them, too. More may come at once, whose networks are gone (:func:`without_network`). A
    trial that was set aside keeps its own: it may be taken back.
    """
    wanted = set(near_front_numbers(trials))
    wanted |= {trial.number for trial in trials if trial.set_aside is not None}
    wanted |= set(front_numbers([t for t in trials if t.number not in wanted]))
    return [trial for trial in trials if trial.is_finished and trial.number not in wanted]


def without_network(trials: Sequence[TrialRecord]) -> list[int]:
    """Numbers of the trials on the front that have no network any more.

    They may be chosen, but neither exported nor tested until they are repeated.
    """
    front = set(front_numbers(trials))
    return sorted(
        trial.number
        for trial in trials
        if trial.number in front and trial.results and all(run.removed for run in trial.results)
    )
