"""How the front grew: hypervolume after each finished trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastrcaps_search.definition.objective import MAXIMISE
from fastrcaps_search.front.dominance import minimisation_view
from fastrcaps_search.front.hypervolume import hypervolume_history, reference_point
from fastrcaps_search.store.records import TrialRecord, TrialState


@dataclass(frozen=True, slots=True)
class Progress:
    """Hypervolume of the front so far, over the finished trials in the order of their ends.

    Attributes:
        trials: Their numbers.
        finished: 1, 2, 3, ...
        spent_seconds: Training seconds of all epochs of all of them so far, past the best
            epochs too and those of failed trials; without repeats, which come after them all.
        hypervolumes: Share of the box between the study's ideal and reference point, so that the
            last one is the hypervolume that the head names.
    """

    trials: tuple[int, ...]
    finished: tuple[int, ...]
    spent_seconds: tuple[float, ...]
    hypervolumes: tuple[float, ...]


def progress(trials: Sequence[TrialRecord], *, runs_per_trial: int) -> Progress | None:
    """Progress of a study; ``None`` before its first complete trial.

    Args:
        trials: All trials, with their epochs.
        runs_per_trial: Runs that each trial has before it is complete; later ones are repeats.
    """
    ended = [trial for trial in trials if trial.is_finished]
    ended.sort(key=lambda trial: (trial.finished_at or 0.0, trial.number))
    rows = minimisation_view([_values(trial) for trial in ended], maximise=MAXIMISE)
    finite = rows[np.isfinite(rows).all(axis=1)]
    if not len(finite):
        return None
    reference, ideal = reference_point(finite), finite.min(axis=0)
    # In a box of side 1, as the head's figure is, neither tiny nor huge units lose digits.
    scaled = (rows - ideal) / (reference - ideal)
    history = hypervolume_history(scaled, reference=np.ones(rows.shape[1]))
    spent = np.cumsum([_spent(trial, runs_per_trial) for trial in ended])
    return Progress(
        trials=tuple(trial.number for trial in ended),
        finished=tuple(range(1, len(ended) + 1)),
        spent_seconds=tuple(spent.tolist()),
        hypervolumes=tuple(np.minimum(history, 1.0).tolist()),
    )


def _values(trial: TrialRecord) -> tuple[float, float, float]:
    if trial.state is not TrialState.COMPLETE or trial.values is None:
        return (math.nan, math.nan, math.nan)
    return trial.values.as_tuple()


def _spent(trial: TrialRecord, runs: int) -> float:
    seconds = (epoch.metrics.training_seconds for epoch in trial.epochs if epoch.run < runs)
    return math.fsum(filter(math.isfinite, seconds))
