"""Learning-rate policies (FasTrCaps section III): each one object, found by its word.

A plug-in registers its own; its place in this registry gives it a colour and a symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition import schedules
from fastrcaps_search.definition.batch_policies import BatchPolicy, adabatch
from fastrcaps_search.definition.schedules import Course, RateSchedule
from fastrcaps_search.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class LrPolicy:
    """How the learning rate goes over a training.

    Attributes:
        name: Its word in study files.
        rates: Learning rate by samples seen.
        settings: Parameters that shape the curve: those of a trial where the space varies them, of
            the study elsewhere. A plug-in registers those that it brings.
        batch: Its own batch sizes; ``None`` where any batch policy goes with it.
        by_default: Whether a space that names no policies offers it.
    """

    name: str
    rates: Callable[[Course], RateSchedule]
    settings: tuple[str, ...]
    batch: BatchPolicy | None = None
    by_default: bool = True


LR_POLICIES: Registry[LrPolicy] = Registry("learning-rate policy")

BOUNDS = ("lr_max", "lr_min")
CYCLES = ("cycle_epochs", "cycle_growth")


def _bounds(course: Course) -> dict[str, Any]:
    return {key: course.setting(key) for key in BOUNDS}


def _decay(course: Course) -> RateSchedule:
    keys = ("lr_max", "batch_size", "decay_rate", "decay_steps")
    return schedules.exponential_decay(course.total, **{key: course.setting(key) for key in keys})


def _cycles(course: Course) -> list[int]:
    """Training images of each cycle of restarts."""
    first, growth = (course.setting(key) for key in CYCLES)
    lengths = schedules.cycle_lengths(course.epochs, first=first, growth=growth)
    return [course.samples * length for length in lengths]


def _phases(course: Course) -> list[int]:
    """Training images of each of the two batch-size phases of WarmAdaBatch.

    From the boundary, not from the sizes: the second may keep batch 1 (P = 0).
    """
    first = course.boundaries[:1]
    return [course.samples * length for length in (*first, course.epochs - sum(first))]


for _policy in (
    LrPolicy(
        name="fixed",
        rates=lambda course: schedules.fixed(course.total, lr_max=course.setting("lr_max")),
        settings=("lr_max",),
    ),
    LrPolicy(
        name="exponential_decay", rates=_decay, settings=("lr_max", "decay_rate", "decay_steps")
    ),
    LrPolicy(
        name="one_cycle",
        rates=lambda course: schedules.one_cycle(course.total, **_bounds(course)),
        settings=BOUNDS,
    ),
    LrPolicy(
        name="warm_restarts",
        rates=lambda course: schedules.cycles(_cycles(course), **_bounds(course)),
        settings=(*BOUNDS, *CYCLES),
    ),
    LrPolicy(
        name="warm_adabatch",
        rates=lambda course: schedules.cycles(_phases(course), **_bounds(course)),
        settings=BOUNDS,
        batch=adabatch("warm_adabatch", most_boundaries=1),
    ),
    LrPolicy(
        name="polynomial_restarts",
        rates=lambda course: schedules.cycles(
            _cycles(course), **_bounds(course), power=course.setting("polynomial_power")
        ),
        settings=(*BOUNDS, *CYCLES),
        by_default=False,
    ),
):
    LR_POLICIES.register(_policy)
