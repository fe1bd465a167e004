"""Schedules as lines: one for each distinct schedule, with the trials that follow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.marks import TEXT, Mark, Tone, mark
from fastrcaps_search.store.records import TrialRecord
from fastrcaps_search.training.policy import TrainingPlan, training_plan
from fastrcaps_search.training.schedules import Curve, Segment

LARGEST_POINTS = 1600
"""Points per line; a study of very many epochs gets fewer for each of its cycles."""

CURVE_POINTS = 32
"""Points for a curved segment; a straight one needs two."""


@dataclass(frozen=True, slots=True)
class RateLine:
    """A learning-rate schedule.

    Attributes:
        mark: How its policy is drawn.
        trials: Numbers of the trials that follow it.
        epochs: Progress in epochs, from 0.
        rates: Learning rate there; two entries of one progress are a restart.
    """

    mark: Mark
    trials: tuple[int, ...]
    epochs: tuple[float, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A batch-size schedule.

    Attributes:
        tone: Colour of the one policy that uses it, or the text's colour for several.
        trials: Numbers of the trials that follow it.
        sizes: Batch size of each epoch.
    """

    tone: Tone
    trials: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(slots=True)
class _Group:
    plan: TrainingPlan
    parameters: list[TrialParameters] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)


def rate_lines(definition: StudyDefinition, trials: Sequence[TrialRecord]) -> tuple[RateLine, ...]:
    """The distinct learning-rate schedules of ``trials``."""
    lines = []
    for group in _groups(definition, trials, "rates"):
        epochs, rates = _corners(group.plan.rates.segments, group.plan.samples)
        lines.append(RateLine(mark(group.parameters[0]), tuple(group.trials), epochs, rates))
    return tuple(lines)


def batch_lines(
    definition: StudyDefinition, trials: Sequence[TrialRecord]
) -> tuple[BatchLine, ...]:
    """The distinct batch-size schedules of ``trials``."""
    lines = []
    for group in _groups(definition, trials, "batch_sizes"):
        tones = {mark(parameters).tone for parameters in group.parameters}
        tone = tones.pop() if len(tones) == 1 else TEXT
        lines.append(BatchLine(tone, tuple(group.trials), group.plan.batch_sizes))
    return tuple(lines)


def _groups(
    definition: StudyDefinition, trials: Sequence[TrialRecord], part: str
) -> Iterable[_Group]:
    """Trials whose plans agree in one part, in the order in which they came."""
    groups: dict[object, _Group] = {}
    for trial in trials:
        plan = training_plan(definition, trial.parameters)
        group = groups.setdefault(getattr(plan, part), _Group(plan))
        group.parameters.append(trial.parameters)
        group.trials.append(trial.number)
    return groups.values()


def _corners(
    segments: Sequence[Segment], samples: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Progress in epochs and rate at enough points of every segment, both ends included."""
    points = []
    for segment in segments:
        straight = segment.curve in (Curve.CONSTANT, Curve.LINEAR)
        parts = 1 if straight else max(1, min(CURVE_POINTS, LARGEST_POINTS // len(segments)))
        for part in range(parts + 1):
            seen = segment.start + (segment.end - segment.start) * part / parts
            points.append((seen / samples, segment.rate(seen)))
    return tuple(epoch for epoch, _ in points), tuple(rate for _, rate in points)
