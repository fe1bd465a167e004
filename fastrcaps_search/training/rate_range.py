"""The learning-rate range test of a study's network (``rate_curve.py`` says what for)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fastrcaps_search.definition import schedules
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import UsageError
from fastrcaps_search.training.device import device_name, found_devices
from fastrcaps_search.training.kernels import Trainer, choose_kernel
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.rate_curve import Ending, RateCurve, RateTest, Watch, growing_rates
from fastrcaps_search.training.resources import granted_cores
from fastrcaps_search.training.run import new_trainer
from fastrcaps_search.training.splits import Splits, stage

STEPS = 300
"""50 to a power of ten."""
BUDGET_SECONDS = 90.0
"""Fewer steps are made where ``STEPS`` would take longer, but not below ``ENOUGH_STEPS``."""
ENOUGH_STEPS = 100
TIMED_STEPS = 4


def find_rates(
    definition: StudyDefinition,
    *,
    folder: Path | None = None,
    device: str = "auto",
    seed: int = 0,
    steps: int | None = None,
) -> RateTest:
    """Train the first network of a study once while the learning rate grows.

    The network has the first decoder and the first weight sharing of the space, the batches the
    study's constant size. On a CPU the same steps and seed give the same losses.

    Args:
        definition: The study.
        folder: Folder with image data, or ``None`` for the default one.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``; of several the first.
        seed: Of weights, order and shifts.
        steps: Steps to make; ``None`` for 300, or as many as fit into 90 seconds.

    Raises:
        UsageError: No such device.
        DataError: Data missing, corrupt or short.
        FastrcapsError: The loss never fell.
    """
    found = found_devices(device)
    if not found:
        raise UsageError(
            f"the device must be one of this machine, got {device}; `fastrcaps-search doctor` "
            "lists them"
        )
    splits = stage(definition, device=found[0], threads=granted_cores().amount, folder=folder)
    return range_test(definition, splits, seed=seed, steps=steps)


def range_test(
    definition: StudyDefinition, splits: Splits, *, seed: int, steps: int | None = None
) -> RateTest:
    """The test on images that lie on their device; see :func:`find_rates`."""
    plan = training_plan(definition, next(iter(definition.assignments())))
    sizes = schedules.batches(plan.samples, definition.batch_size)
    device = splits.training.labels.device
    kernel = choose_kernel(device, network=plan.network, precision=plan.precision)
    fresh = partial(new_trainer, plan, splits.training, seed=seed, kernel=kernel)
    if steps is None:
        steps = _affordable_steps(fresh(), sizes)
    begun = time.perf_counter()
    curve = _curve(fresh(), sizes, steps)
    return RateTest(
        study=definition.name,
        network=plan.network,
        decoder=plan.decoder,
        weight_sharing=plan.weight_sharing,
        batch_size=definition.batch_size,
        seed=seed,
        device_name=device_name(device),
        steps=steps,
        seconds=time.perf_counter() - begun,
        curve=curve,
    )


def _affordable_steps(trainer: Trainer, sizes: list[int]) -> int:
    """``STEPS``, or fewer where a few steps at rate 0 say that these would take too long."""
    begun: list[float] = []
    for _ in _losses(trainer, sizes, [0.0] * (TIMED_STEPS + 1)):
        begun.append(time.perf_counter())  # the first one also makes the memory of all
    each = (begun[-1] - begun[0]) / TIMED_STEPS
    return max(ENOUGH_STEPS, min(STEPS, int(BUDGET_SECONDS / max(each, 1e-9))))


def _curve(trainer: Trainer, sizes: list[int], steps: int) -> RateCurve:
    rates, losses, watch = growing_rates(steps), [], Watch(steps)
    ending = Ending.HIGHEST
    for loss in _losses(trainer, sizes, rates):
        if not math.isfinite(loss):
            ending = Ending.NOT_FINITE
            break
        losses.append(loss)
        if watch(loss):
            ending = Ending.EXPLODED
            break
    return RateCurve.of(rates[: len(losses)], losses, ending)


def _losses(trainer: Trainer, sizes: list[int], rates: list[float]) -> Iterator[float]:
    """Mean loss of each step, an epoch after the other.

    No trainer was warmed up, so that each yields after every step, on a card too.
    """
    for epoch, first in enumerate(range(0, len(rates), len(sizes)), start=1):
        part = rates[first : first + len(sizes)]
        for images in trainer.epoch(epoch, sizes[: len(part)], part):
            yield trainer.trained.take_sums()[0] / images
