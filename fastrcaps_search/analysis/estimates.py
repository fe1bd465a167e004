"""Values of trials where some were picked for more runs: estimates of their true means.

The one rule that front, choice, tables, page and files share. As long as every feasible trial has
the ``runs_per_trial`` runs that were planned for all, no run was given by results, and values are
the means of the runs. Once results gave some trial one more, the accuracies of all feasible trials
are estimates, with their intervals, and the means of the runs stand beside them as ``measured``.
Fewer than five feasible trials say too little of one another, and fewer than four second or later
runs too little of how runs scatter: they leave means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.front.estimates import Estimate, true_means
from fastrcaps_search.front.spread import Sample, Spread
from fastrcaps_search.store.reading import Snapshot
from fastrcaps_search.store.records import StudyRecord, Values
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

LEAST_SECONDS = 1e-9
"""What stands for no time at all, which has no logarithm."""


def read_study(store: Store, name: str, *, epochs: bool = False) -> Snapshot:
    """A study at one moment, its accuracies estimates where that is due.

    Args:
        store: The store.
        name: Name of the study.
        epochs: Whether to read the epochs too.

    Raises:
        StudyNotFoundError: There is no such study.
    """
    found = store.snapshot(name, epochs=epochs)
    return replace(found, trials=estimated(found.trials, study=found.study))


def estimated(trials: Sequence[TrialRecord], *, study: StudyRecord) -> list[TrialRecord]:
    """The trials with estimates for accuracies, where some were picked for more runs.

    Args:
        trials: All trials of the study, as they are stored.
        study: The study, which says how many runs each trial was to have from the start.
    """
    samples = {trial.number: sample for trial in trials if (sample := sample_of(trial))}
    planned = study.definition.runs_per_trial
    if not any(len(sample.seconds) > planned for sample in samples.values()):
        return list(trials)
    finite = {number: sample for number, sample in samples.items() if sample.finite}
    means = true_means(list(finite.values()))
    if means is None or not means.has_prior:
        return list(trials)
    found = dict(zip(finite, means.accuracies(), strict=True))
    return [
        _with(trial, found[trial.number]) if trial.number in found else trial for trial in trials
    ]


def sample_of(trial: TrialRecord) -> Sample | None:
    """What is known of a feasible trial from its runs."""
    values = trial.feasible_means
    if values is None:
        return None
    seconds = (run.value("training_seconds") for run in trial.results)
    return Sample(
        accuracies=tuple(run.value("accuracy") for run in trial.results),
        seconds=tuple(max(each, LEAST_SECONDS) for each in seconds),
        parameters=values.parameters,
        others=values.costs[len(COMMON) :],
    )


def _with(trial: TrialRecord, accuracy: Estimate) -> TrialRecord:
    measured, runs = trial.means, trial.accuracy_spread
    if measured is None:
        return trial
    return replace(
        trial,
        values=Values({**measured, "accuracy": accuracy.value}),
        measured=measured,
        accuracy_spread=Spread(
            None if runs is None else runs.deviation, accuracy.low, accuracy.high
        ),
    )
