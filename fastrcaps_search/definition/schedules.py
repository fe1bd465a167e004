"""Learning-rate and batch-size schedules as pure functions of progress.

Progress is counted in samples, so that a batch-size switch never makes the rate jump: a step of
the formulas is ``samples / batch_size`` of the study (with a constant batch that divides the
training split this is the optimiser's own step). Equations are those of FasTrCaps (IJCNN 2020,
arXiv 1905.10142); docs/differences.md of the repository says where its authors' code differs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ONE_CYCLE_PEAK = 0.45
"""Fraction of training at which equation 1 has risen to its peak; it falls for as long again."""
ONE_CYCLE_TAIL = 10.0
"""The end of training reaches the lower rate divided by this."""


class Curve(StrEnum):
    """Shape of the rate over one segment."""

    CONSTANT = "constant"
    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    COSINE = "cosine"
    POLYNOMIAL = "polynomial"


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of training over which the rate follows one curve.

    Attributes:
        curve: Shape.
        start: First sample, counted from the start of training.
        end: Sample after the last; beyond the end of training where that cuts a cycle short.
        first: Rate at ``start``.
        last: Rate that ``end`` would reach.
        power: Power of a polynomial, or the samples in which an exponential falls to 1/e.
    """

    curve: Curve
    start: float
    end: float
    first: float
    last: float
    power: float = 0.0

    def rate(self, samples: float) -> float:
        """Learning rate after ``samples`` samples."""
        if self.curve is Curve.CONSTANT:
            return self.first
        if self.curve is Curve.EXPONENTIAL:
            return self.first * math.exp((self.start - samples) / self.power)
        t = (samples - self.start) / (self.end - self.start)
        if self.curve is Curve.LINEAR:
            return self.first + (self.last - self.first) * t
        if self.curve is Curve.COSINE:
            fallen = 0.5 * (1.0 - math.cos(math.pi * t))
        else:
            fallen = 1.0 - (1.0 - t) ** self.power
        # Written from the first rate, so that a cycle begins with exactly that.
        return float(self.first - (self.first - self.last) * fallen)


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """Learning rate over a whole training: segments without gaps, in order."""

    segments: tuple[Segment, ...]

    def __call__(self, samples: int) -> float:
        """Learning rate of the step that begins after ``samples`` samples."""
        return self.segments[self._place(samples)].rate(samples)

    def between(self, start: int, end: int) -> tuple[Segment, ...]:
        """The segments that the samples from ``start`` up to ``end`` lie in."""
        return self.segments[self._place(start) : self._place(end - 1) + 1]

    def _place(self, samples: int) -> int:
        return bisect_right(self.segments, float(samples), key=lambda segment: segment.start) - 1

    def epoch_rates(self, start: int, sizes: Sequence[int]) -> list[float]:
        """Rates of successive steps whose batches have ``sizes`` samples."""
        rates = []
        for size in sizes:
            rates.append(self(start))
            start += size
        return rates


@dataclass(frozen=True, slots=True)
class Course:
    """The training that a policy shapes.

    Attributes:
        epochs: How many it has.
        samples: Training images of each.
        boundaries: Those of the study's boundaries that lie within it.
        setting: Value of a parameter: the trial's own, or the study's.
    """

    epochs: int
    samples: int
    boundaries: tuple[int, ...]
    setting: Callable[[str], Any]

    @property
    def total(self) -> int:
        """Training images of all epochs, repeats counted."""
        return self.samples * self.epochs


def fixed(total: int, *, lr_max: float) -> RateSchedule:
    """``lr_max`` throughout."""
    return RateSchedule((Segment(Curve.CONSTANT, 0, total, lr_max, lr_max),))


def exponential_decay(
    total: int, *, lr_max: float, batch_size: int, decay_rate: float, decay_steps: int
) -> RateSchedule:
    """``lr_max * decay_rate^(step / decay_steps)``, without steps in it.

    A step is ``batch_size`` samples, whatever the batch. The authors' code counts the optimiser's
    own steps, of which a batch of 1 makes sixteen times as many: three epochs of 60,000 images of
    batch 1 bring the paper's rate to 1e-3 * 0.96^(180,000 / 2000) = 2.5e-5 there, and here, where
    they are 11,250 steps of 16, to 7.95e-4.
    """
    power = -decay_steps * batch_size / math.log(decay_rate)
    last = lr_max * math.exp(-total / power)
    return RateSchedule((Segment(Curve.EXPONENTIAL, 0, total, lr_max, last, power),))


def one_cycle(total: int, *, lr_max: float, lr_min: float) -> RateSchedule:
    """Equation 1: up over 45 % of training, down over 45 %, then towards ``lr_min / 10``."""
    peak, foot = ONE_CYCLE_PEAK * total, 2 * ONE_CYCLE_PEAK * total
    return RateSchedule(
        (
            Segment(Curve.LINEAR, 0, peak, lr_min, lr_max),
            Segment(Curve.LINEAR, peak, foot, lr_max, lr_min),
            Segment(Curve.LINEAR, foot, total, lr_min, lr_min / ONE_CYCLE_TAIL),
        )
    )


def cycles(
    lengths: Sequence[int], *, lr_max: float, lr_min: float, power: float | None = None
) -> RateSchedule:
    """Equation 2: one cosine per cycle, each of exactly its own length in samples.

    ``warm_restarts`` has those of ``cycle_lengths``; ``warm_adabatch`` one per batch-size phase
    (algorithm 4). With a power each is ``lr_min + (lr_max - lr_min) * (1 - t)^power`` instead
    (Mishra and Sarawadekar 2019).
    """
    curve = Curve.COSINE if power is None else Curve.POLYNOMIAL
    segments = []
    start = 0
    for length in lengths:
        segments.append(Segment(curve, start, start + length, lr_max, lr_min, power or 0.0))
        start += length
    return RateSchedule(tuple(segments))


def cycle_lengths(epochs: int, *, first: int, growth: int) -> list[int]:
    """Epochs of each cycle of restarts: cycle k (from 0) has ``first * growth^k``.

    A last cycle that training cuts short keeps its own length: the rate ends part of the way down,
    as in SGDR (Loshchilov and Hutter 2017).
    """
    lengths: list[int] = []
    length, told = first, 0
    while told < epochs:
        lengths.append(length)
        told += length
        length *= growth
    return lengths


def adabatch_sizes(epochs: int, *, boundaries: Sequence[int], exponent: int | None) -> list[int]:
    """Batch size of each epoch (algorithm 3): 1, then 2^P, 2^(P+1), ... after each boundary.

    Args:
        epochs: Epochs of the training.
        boundaries: Last epoch (from 1) of each phase but the final one.
        exponent: P; may be ``None`` where no boundary lies below ``epochs``.
    """
    sizes = []
    for epoch in range(1, epochs + 1):
        phase = sum(boundary < epoch for boundary in boundaries)
        if phase and exponent is None:
            raise ValueError(f"an exponent is needed: epoch {epoch} lies above a boundary")
        sizes.append(1 if not phase else 2 ** ((exponent or 0) + phase - 1))
    return sizes


def batches(samples: int, size: int) -> list[int]:
    """Sizes of an epoch's batches; the last short one is kept."""
    whole, rest = divmod(samples, size)
    return [size] * whole + ([rest] if rest else [])
