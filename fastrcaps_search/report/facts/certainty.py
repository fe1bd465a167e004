"""How far an accuracy may be off: luck of the images and luck of the seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.certainty import NEAR
from fastrcaps_search.front.paired import Z_95
from fastrcaps_search.report.facts.trials import MOST_SHOWN, TrialView
from fastrcaps_search.store.records import RunRecord, Values


@dataclass(frozen=True, slots=True)
class CertaintyRow:
    """Accuracy of one trial on the front.

    Attributes:
        trial: The trial.
        accuracy: Its accuracy, which may be an estimate.
        measured: Mean over its runs, read off the images.
        interval: 95 % interval of that from the number of images.
        mean_interval: 95 % interval of the mean over its runs, or of the estimate, if any.
        runs: Accuracy of each run.
    """

    trial: TrialView
    accuracy: float
    measured: float
    interval: tuple[float, float]
    mean_interval: tuple[float, float] | None
    runs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Certainty:
    """How sure the front is.

    Attributes:
        split: Where the accuracies come from.
        images: Number of its images.
        largest_runs: Most runs of any trial on the front.
        fewest_runs: Fewest of them.
        repeated: Feasible trials of two runs or more, over which the spread is pooled.
        near: Trials behind the front that may well belong there, the most probable first.
        rows: The first trials on the front.
    """

    split: str
    images: int
    largest_runs: int
    fewest_runs: int
    repeated: int
    near: tuple[TrialView, ...]
    rows: tuple[CertaintyRow, ...]


def certainty(
    definition: StudyDefinition, trials: Sequence[TrialView], front: Sequence[TrialView]
) -> Certainty | None:
    """How sure the front and its accuracies are; ``None`` without one.

    Args:
        definition: The study's.
        trials: All trials.
        front: Those on the front, in its order.
    """
    images = definition.evaluation_size
    rows = [_row(trial, trial.values, images) for trial in front if trial.values is not None]
    if not rows:
        return None
    counts = [len(trial.record.results) for trial in front]
    return Certainty(
        split=definition.evaluate_on.images,
        images=images,
        largest_runs=max(counts),
        fewest_runs=min(counts),
        repeated=sum(len(t.record.results) > 1 for t in trials if t.record.is_feasible),
        near=_near(trials),
        rows=tuple(rows[:MOST_SHOWN]),
    )


def _near(trials: Iterable[TrialView]) -> tuple[TrialView, ...]:
    found = [
        (trial.probability, trial)
        for trial in trials
        if not trial.on_front and trial.probability is not None and trial.probability >= NEAR
    ]
    return tuple(trial for _, trial in sorted(found, key=lambda row: (-row[0], row[1].number)))


def _row(trial: TrialView, values: Values, images: int) -> CertaintyRow:
    spread = trial.record.accuracy_spread
    accuracy = values.accuracy
    measured = (trial.record.means or values).accuracy
    return CertaintyRow(
        trial=trial,
        accuracy=accuracy,
        measured=measured,
        interval=wilson(measured, images),
        mean_interval=None if spread is None else spread.ends(accuracy, 1.0),
        runs=_finite(run.accuracy for run in trial.record.runs),
    )


def _finite(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None and math.isfinite(value))


def wilson(fraction: float, images: int) -> tuple[float, float]:
    """95 % score interval of a fraction of ``images`` (Wilson 1927, J. Am. Stat. Assoc. 22).

    It says how far the images alone may mislead: where another draw of as many may lie.

    Raises:
        ValueError: The fraction is not between 0 and 1, or there is no image.
    """
    if images < 1 or not 0.0 <= fraction <= 1.0:
        raise ValueError(f"needs a fraction of at least one image, got {fraction} of {images}")
    weight = Z_95**2 / images
    centre = (fraction + weight / 2) / (1 + weight)
    variance = fraction * (1 - fraction) / images + (Z_95 / images) ** 2 / 4
    half = Z_95 * math.sqrt(variance) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)


def ranges(runs: Sequence[RunRecord]) -> dict[str, tuple[float, float]]:
    """Lowest and highest run in accuracy and in seconds; nothing of a single run."""
    columns = {
        "accuracy": _finite(run.accuracy for run in runs),
        "training_seconds": _finite(run.training_seconds for run in runs),
    }
    return {key: (min(found), max(found)) for key, found in columns.items() if len(found) > 1}
