"""What is said of the measurement of a device: how long it takes, and what it found."""

from __future__ import annotations

import math

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search import estimate
from fastrcaps_search.search.machine import NetworkSeconds
from fastrcaps_search.store.calibrations import StepSeconds, seconds_at
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.words import numbered, plural

START_SECONDS, EACH_SECONDS = 4.0, 0.45
"""For torch, and for a network in a layout at a batch size whose steps take no time: on two quiet
cores the first 4 networks of ``mnist-mini``, at 5 sizes, took 22 s."""
STEPS = 5
"""Steps of a batch size that are made however long they take (``training/probe.py``)."""
LONG_SECONDS = 60.0
"""What takes longer than was said is worth another line."""


def announcement(definition: StudyDefinition, *, on_cpu: bool) -> str:
    """What will be measured, and for how long at least.

    Args:
        definition: The study.
        on_cpu: Whether it is the CPU.
    """
    networks, sizes = len(definition.offered_networks), _sizes(definition, on_cpu=on_cpu)
    seconds = START_SECONDS + 2 * EACH_SECONDS * networks * len(sizes)
    return (
        f"{definition.name}: measuring once how fast the {'CPU' if on_cpu else 'GPU'} trains "
        f"{plural(networks, 'network')} at {numbered('batch size', sizes, limit=None)}: "
        f"{estimate.in_words(seconds)} or more"
    )


def longer(definition: StudyDefinition, chosen: WorkerLayout, steps: StepSeconds) -> str:
    """What is said where long steps make the measurement long; empty where they do not.

    Args:
        definition: The study.
        chosen: The layout that is to be measured, beside one of its workers alone.
        steps: Seconds of a step of the largest network in it, by batch size.
    """
    sizes = _sizes(definition, on_cpu=True)
    each = math.fsum(EACH_SECONDS + STEPS * seconds_at(steps, size) for size in sizes)
    seconds = len(definition.offered_networks) * each * (2 if chosen.workers > 1 else 1)
    if seconds < LONG_SECONDS:
        return ""
    return f"{chosen.words}: measuring all networks takes {estimate.in_words(seconds)} more"


def step_in_words(found: NetworkSeconds) -> str:
    """``31 to 45 ms a step of 16 images``: the networks' range at a middle batch size."""
    sizes = sorted(next(iter(found.values())))
    size = sizes[len(sizes) // 2]
    steps = [1000 * steps[size] for steps in found.values()]
    low, high = (f"{each:,.1f}" for each in (min(steps), max(steps)))
    shown = low if low == high else f"{low} to {high}"
    return f"{shown} ms a step of {plural(size, 'image')}"


def _sizes(definition: StudyDefinition, *, on_cpu: bool) -> list[int]:
    """Batch sizes that are measured."""
    return estimate.probed_sizes(estimate.batch_sizes(definition), on_cpu=on_cpu)
