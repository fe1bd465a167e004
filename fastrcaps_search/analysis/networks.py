"""Which networks of a study are still wanted."""

from __future__ import annotations

from collections.abc import Sequence

from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.analysis.uncertainty import near_front_numbers
from fastrcaps_search.store.trials import TrialRecord


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
    by_number = {trial.number: trial for trial in trials}
    front = [by_number[number] for number in front_numbers(trials)]
    return sorted(
        trial.number
        for trial in front
        if trial.results and all(run.removed for run in trial.results)
    )
