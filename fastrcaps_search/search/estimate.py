"""About how long a study will take, from measured seconds per step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from statistics import fmean

from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS, TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.calibrations import StepSeconds, network_key, seconds_at
from fastrcaps_search.training.policy import training_plan

SAMPLED = 500
"""Assignments of a large space that an estimate looks at."""
MOST_PROBED = {True: 64, False: 1024}
"""Largest batch size that is measured, by whether it is on a CPU: there a step takes from then on
as long as it has images, and one of the whole network takes seconds."""
MOST_SIZES = 7
"""Batch sizes that are measured at most: between two of them a step is linear in its images."""


def trial_seconds(definition: StudyDefinition, measured: Mapping[str, StepSeconds]) -> float:
    """Mean training seconds of a trial over the study's assignments, all epochs included.

    Args:
        definition: The study.
        measured: Seconds of a step by network and batch size.
    """
    return definition.runs_per_trial * fmean(
        _training_seconds(definition, parameters, measured)
        for parameters in _assignments(definition)
    )


def _training_seconds(
    definition: StudyDefinition,
    parameters: TrialParameters,
    measured: Mapping[str, StepSeconds],
) -> float:
    plan = training_plan(definition, parameters)
    steps = measured[network_key(parameters.decoder, parameters.weight_sharing)]
    return math.fsum(
        epochs * math.ceil(plan.samples / size) * seconds_at(steps, size)
        for size, epochs in Counter(plan.batch_sizes).items()
    )


def batch_sizes(definition: StudyDefinition) -> list[int]:
    """Batch sizes of the study's trials, sorted; in a large space those of a sample."""
    plans = (training_plan(definition, parameters) for parameters in _assignments(definition))
    return sorted({size for plan in plans for size in plan.batch_sizes})


def probed_sizes(sizes: Sequence[int], *, on_cpu: bool) -> list[int]:
    """Of sorted batch sizes those to measure: from end to end, within ``MOST_PROBED``."""
    probed = sorted({min(size, MOST_PROBED[on_cpu]) for size in sizes})
    last = len(probed) - 1
    parts = max(min(MOST_SIZES - 1, last), 1)
    return sorted({probed[round(part * last / parts)] for part in range(parts + 1)})


def compared_sizes(probed: Sequence[int]) -> list[int]:
    """Of these the smallest, a middle and the largest: enough to choose a layout by."""
    return sorted({probed[0], probed[len(probed) // 2], probed[-1]})


def _assignments(definition: StudyDefinition) -> list[TrialParameters]:
    """Assignments to look at, with the study's own rates where the space varies them."""
    space = definition.space
    varied = {
        each.name: definition.default(each.name)
        for each in TRIAL_PARAMETERS
        if each.is_range and space and space[each.name]
    }
    found = list(definition.assignments(varied))
    if len(found) <= SAMPLED:
        return found
    # Spread over all of them, as the first ones have the first policies alone; anywhere in each of
    # equal parts, as policies come in turns, which even steps may keep pace with.
    ends = [part * len(found) // SAMPLED for part in range(SAMPLED + 1)]
    generator = Random(0)
    return [found[generator.randrange(*pair)] for pair in pairwise(ends)]


def in_words(seconds: float) -> str:
    """``about 5 min``: one or two figures are all that an estimate is worth."""
    if not math.isfinite(seconds):
        return "for an unknown time"
    if seconds < 90:
        return f"about {max(round(seconds / 10), 1) * 10} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"about {round(seconds / 3600)} h"
    return f"about {round(seconds / 86_400)} days"
