"""Schedules: what each distinct one does, and which trials follow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.schedules import Curve, Segment
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.marks import TEXT, Tone, mark, tone_of
from fastrcaps_search.store.records import TrialRecord
from fastrcaps_search.training.policy import TrainingPlan, training_plan

LARGEST_POINTS = 800
"""Points per line; a study of very many epochs gets fewer for each of its cycles."""

CURVE_POINTS = 32
"""Points for a curved segment; a straight one needs two."""


class Plans:
    """Training plans by trial, each made once: trials differ in more than their schedules."""

    def __init__(self, definition: StudyDefinition) -> None:
        self._definition = definition
        self._plans: dict[TrialParameters, TrainingPlan] = {}

    def of(self, parameters: TrialParameters) -> TrainingPlan:
        """The plan; those of one pair of schedules are the same object."""
        key = replace(parameters, decoder=None, weight_sharing=None, reconstruction_weight=None)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = training_plan(self._definition, key)
        return found


@dataclass(frozen=True, slots=True)
class Stretch:
    """Successive segments of one shape and length.

    Attributes:
        curve: Shape of the rate.
        start: Progress in epochs at which the first begins.
        length: Epochs of each; training may cut the last one short.
        count: How many follow each other.
        first: Rate at the beginning of each.
        last: Rate that the end of each would reach.
        power: Power of a polynomial, or the epochs in which an exponential falls to 1/e.
    """

    curve: Curve
    start: float
    length: float
    count: int
    first: float
    last: float
    power: float


def stretches(plan: TrainingPlan) -> tuple[Stretch, ...]:
    """The learning-rate schedule, repeated cycles told once."""
    found = []
    for shape, same in groupby(plan.rates.segments, key=_shape):
        cycles = list(same)
        curve, length, first, last, power = shape
        decays = curve is Curve.EXPONENTIAL
        found.append(
            Stretch(
                curve=curve,
                start=cycles[0].start / plan.samples,
                length=length / plan.samples,
                count=len(cycles),
                first=first,
                last=last,
                power=power / plan.samples if decays else power,
            )
        )
    return tuple(found)


def _shape(segment: Segment) -> tuple[Curve, float, float, float, float]:
    length = segment.end - segment.start
    return segment.curve, length, segment.first, segment.last, segment.power


def phases(plan: TrainingPlan) -> tuple[tuple[int, int], ...]:
    """Batch sizes with the number of epochs that each lasts."""
    return tuple((size, len(list(same))) for size, same in groupby(plan.batch_sizes))


@dataclass(frozen=True, slots=True)
class RateLine:
    """A learning-rate schedule.

    Attributes:
        lr_policy: The learning-rate policy.
        tone: Its colour.
        trials: Numbers of the trials that follow it.
        epochs: Progress in epochs, from 0.
        rates: Learning rate there; two entries of one progress are a restart.
    """

    lr_policy: str
    tone: Tone
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


def rate_lines(plans: Plans, trials: Sequence[TrialRecord]) -> tuple[RateLine, ...]:
    """The distinct learning-rate schedules of ``trials``."""
    lines = []
    for group in _groups(plans, trials, "rates"):
        epochs, rates = _corners(group.plan)
        lr_policy = group.parameters[0].lr_policy
        numbers = tuple(sorted(group.trials))
        lines.append(RateLine(lr_policy, tone_of(lr_policy), numbers, epochs, rates))
    return tuple(lines)


def batch_lines(plans: Plans, trials: Sequence[TrialRecord]) -> tuple[BatchLine, ...]:
    """The distinct batch-size schedules of ``trials``."""
    lines = []
    for group in _groups(plans, trials, "batch_sizes"):
        tones = {mark(parameters).tone for parameters in group.parameters}
        tone = tones.pop() if len(tones) == 1 else TEXT
        lines.append(BatchLine(tone, tuple(sorted(group.trials)), group.plan.batch_sizes))
    return tuple(lines)


def _groups(plans: Plans, trials: Sequence[TrialRecord], part: str) -> Iterable[_Group]:
    """Trials whose plans agree in one part, in the order in which they came."""
    groups: dict[object, _Group] = {}
    for trial in trials:
        plan = plans.of(trial.parameters)
        group = groups.setdefault(getattr(plan, part), _Group(plan))
        group.parameters.append(trial.parameters)
        group.trials.append(trial.number)
    return groups.values()


def _corners(plan: TrainingPlan) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Progress in epochs and rate at enough points of every segment, both ends included."""
    points = []
    segments = plan.rates.segments
    for segment in segments:
        end = min(segment.end, plan.samples * plan.epochs)
        straight = segment.curve in (Curve.CONSTANT, Curve.LINEAR)
        parts = 1 if straight else max(1, min(CURVE_POINTS, LARGEST_POINTS // len(segments)))
        for part in range(parts + 1):
            seen = segment.start + (end - segment.start) * part / parts
            points.append((seen / plan.samples, segment.rate(seen)))
    return tuple(epoch for epoch, _ in points), tuple(rate for _, rate in points)
