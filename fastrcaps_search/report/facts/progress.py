"""How the front grew: hypervolume after each finished trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fastrcaps_search.store.records import StudyRecord, TrialRecord


@dataclass(frozen=True, slots=True)
class Progress:
    """Hypervolume of the front so far, over the finished trials in the order of their ends.

    Attributes:
        trials: Their numbers.
        finished: 1, 2, 3, ...
        spent_seconds: Training seconds of all epochs of all of them so far, past the best
            epochs too and those of failed trials; without repeats, which come after them all.
        hypervolumes: Share of the study's box, never falling; the last one is the hypervolume that
            the head names.
    """

    trials: tuple[int, ...]
    finished: tuple[int, ...]
    spent_seconds: tuple[float, ...]
    hypervolumes: tuple[float, ...]


def progress(study: StudyRecord, trials: Sequence[TrialRecord]) -> Progress | None:
    """Progress of a study; ``None`` before its first feasible trial.

    Args:
        study: The study.
        trials: All trials, with their epochs.
    """
    ended = [trial for trial in trials if trial.is_finished]
    ended.sort(key=lambda trial: (trial.finished_at or 0.0, trial.number))
    if study.box is None or all(trial.feasible_values is None for trial in ended):
        return None
    # Later runs are repeats.
    runs = study.definition.runs_per_trial
    return Progress(
        trials=tuple(trial.number for trial in ended),
        finished=tuple(range(1, len(ended) + 1)),
        spent_seconds=tuple(accumulate(_spent(trial, runs) for trial in ended)),
        hypervolumes=tuple(study.box.shares([_values(trial) for trial in ended])),
    )


def _values(trial: TrialRecord) -> tuple[float, float, float]:
    values = trial.feasible_means
    return (math.nan, math.nan, math.nan) if values is None else values.as_tuple()


def _spent(trial: TrialRecord, runs: int) -> float:
    seconds = (epoch.metrics.training_seconds for epoch in trial.epochs if epoch.run < runs)
    return math.fsum(filter(math.isfinite, seconds))
