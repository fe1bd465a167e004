"""Two trials on the same images: the networks that ``export`` would hand out of each.

A trial of several runs stands there with one network, its run of highest accuracy. Runs are not
pooled: they meet the same images, so that their hits are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastrcaps_search.errors import FastrcapsError, UsageError
from fastrcaps_search.front.paired import Paired
from fastrcaps_search.store.records import RunRecord, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

Hits = Mapping[tuple[int, int], bytes]
"""Packed hits by trial and run."""


def paired(first: TrialRecord, second: TrialRecord, hits: Hits, *, images: int) -> Paired | None:
    """How the networks of two trials differ; ``None`` where the hits of one are not stored."""
    found = [
        None if trial.best_run is None else hits.get((trial.number, trial.best_run.run))
        for trial in (first, second)
    ]
    if found[0] is None or found[1] is None:
        return None
    return Paired.of(found[0], found[1], images=images)


def comparison_row(store: Store, study: StudyRecord, first: int, second: int) -> dict[str, Any]:
    """JSON values of ``compare --json``.

    Raises:
        UsageError: The same trial twice, or one that is not complete.
        FastrcapsError: One whose hits are not stored.
    """
    if first == second:
        raise UsageError(f"two different trials must be named, got {first} twice")
    known = {trial.number: trial for trial in store.trials(study)}
    one, other = (_complete(study, known, number) for number in (first, second))
    hits = store.hits(study, (first, second))
    runs = [_stored(trial, hits) for trial in (one, other)]
    definition = study.definition
    found = Paired.of(
        hits[first, runs[0].run], hits[second, runs[1].run], images=definition.evaluation_size
    )
    low, high = found.interval
    only = (found.first_only, found.second_only)
    return {
        "study": study.name,
        "split": str(definition.evaluate_on),
        "images": found.images,
        "networks": [
            {"trial": number, "run": run.run, "accuracy": run.accuracy, "only": count}
            for number, run, count in zip((first, second), runs, only, strict=True)
        ],
        "difference": found.difference,
        "low": low,
        "high": high,
        "p_value": found.p_value,
    }


def _complete(study: StudyRecord, known: Mapping[int, TrialRecord], number: int) -> TrialRecord:
    trial = known.get(number)
    if trial is None or trial.state is not TrialState.COMPLETE:
        came = "none of that number" if trial is None else f"one that is {trial.state}"
        raise UsageError(
            f"trial {number} must be a complete trial of {study.name}, got {came}; "
            f"`fastrcaps-search trials --study {study.name}` lists them"
        )
    return trial


def _stored(trial: TrialRecord, hits: Hits) -> RunRecord:
    run = trial.best_run
    if run is None or (trial.number, run.run) not in hits:
        raise FastrcapsError(
            f"trial {trial.number} must have stored which images its network has right, got "
            "nothing of it; compare another"
        )
    return run
