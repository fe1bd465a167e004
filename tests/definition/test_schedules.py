"""Schedules by value: numbers worked out by hand from the equations, and torch's own schedulers.

All rates are between 1e-4 and 1e-3, as in the shipped studies.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import (
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LinearLR,
    LRScheduler,
    PolynomialLR,
)

from fastrcaps_search.definition.schedules import (
    RateSchedule,
    adabatch_sizes,
    batches,
    cycle_lengths,
    cycles,
    exponential_decay,
    fixed,
    one_cycle,
)

LR_MAX, LR_MIN = 1e-3, 1e-4
PAPER_DECAY: dict[str, Any] = {"batch_size": 16, "decay_rate": 0.96, "decay_steps": 2000}


def test_fixed_is_the_highest_rate() -> None:
    schedule = fixed(1600, lr_max=LR_MAX)
    assert [schedule(samples) for samples in (0, 1, 799, 1599)] == [1e-3] * 4


# lr_max * 0.96^(step / 2000), a step being 16 samples: 0.96^2 = 0.9216, sqrt(0.96) = 0.979795897.
@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 1e-3), (1000, 9.79795897e-4), (2000, 9.6e-4), (4000, 9.216e-4), (6000, 8.84736e-4)],
)
def test_exponential_decay(step: int, rate: float) -> None:
    schedule = exponential_decay(16 * 10_000, lr_max=LR_MAX, **PAPER_DECAY)
    assert schedule(16 * step) == pytest.approx(rate, rel=1e-8)


def test_exponential_decay_has_no_steps_in_it() -> None:
    schedule = exponential_decay(16 * 10_000, lr_max=LR_MAX, **PAPER_DECAY)
    rates = [schedule(samples) for samples in range(1000)]
    assert all(later < earlier for earlier, later in pairwise(rates))


# Halved every 22 steps of 16: after 44 steps, or 704 samples, a quarter is left, after 11 a share
# of 0.5^0.5 = 0.70710678.
@pytest.mark.parametrize(
    ("samples", "rate"), [(0, 1e-3), (176, 7.0710678e-4), (352, 5e-4), (704, 2.5e-4)]
)
def test_exponential_decay_of_another_rate_and_horizon(samples: int, rate: float) -> None:
    schedule = exponential_decay(800, lr_max=LR_MAX, batch_size=16, decay_rate=0.5, decay_steps=22)
    assert schedule(samples) == pytest.approx(rate, rel=1e-8)


def test_three_epochs_of_batch_1_leave_the_rate_that_three_of_batch_16_do() -> None:
    # The authors' code counts 180,000 steps there and comes down to 2.5e-5.
    schedule = exponential_decay(30 * 60_000, lr_max=LR_MAX, **PAPER_DECAY)
    singly = schedule.epoch_rates(3 * 60_000 - 1, [1, 1])[-1]
    assert singly == schedule.epoch_rates(3 * 60_000, [16])[0] == pytest.approx(7.95e-4, rel=1e-3)
    theirs = exponential_decay(
        180_000, lr_max=LR_MAX, batch_size=1, decay_rate=0.96, decay_steps=2000
    )
    assert theirs(180_000) == pytest.approx(2.5e-5, rel=2e-2)


def test_a_decay_too_steep_for_floats_ends_at_zero() -> None:
    schedule = exponential_decay(
        10**6, lr_max=LR_MAX, batch_size=1, decay_rate=1e-9, decay_steps=1
    )
    assert [schedule(0), schedule(1), schedule(10**6)] == [1e-3, pytest.approx(1e-12), 0.0]


# 100 steps: 45 up by 2e-5 each, 45 down, 10 towards 1e-5 by 9e-6 each.
ONE_CYCLE = [
    (0, 1e-4),
    (1, 1.2e-4),
    (44, 9.8e-4),
    (45, 1e-3),
    (46, 9.8e-4),
    (89, 1.2e-4),
    (90, 1e-4),
    (91, 9.1e-5),
    (95, 5.5e-5),
    (99, 1.9e-5),
]


@pytest.mark.parametrize(("step", "rate"), ONE_CYCLE)
def test_one_cycle(step: int, rate: float) -> None:
    assert one_cycle(1600, lr_max=LR_MAX, lr_min=LR_MIN)(16 * step) == pytest.approx(rate)


def test_one_cycle_would_reach_a_tenth_of_the_lower_rate_at_the_end_of_training() -> None:
    schedule = one_cycle(1600, lr_max=LR_MAX, lr_min=LR_MIN)
    assert schedule(1600) == pytest.approx(1e-5)  # the end, at which no step begins
    assert schedule(1584) == pytest.approx(1.9e-5)  # the last step


# A cycle of 4 steps: cos(pi/4) = 0.70710678, so 1e-4 + 4.5e-4 * (1 + or - 0.70710678) between.
COSINE = [1e-3, 8.68198052e-4, 5.5e-4, 2.31801948e-4]


def test_warm_restarts_have_exactly_their_own_number_of_steps() -> None:
    schedule = cycles([64, 64, 64], lr_max=LR_MAX, lr_min=LR_MIN)
    rates = schedule.epoch_rates(0, [16] * 12)
    assert rates == pytest.approx(COSINE * 3, rel=1e-8)
    assert [rates[0], rates[4], rates[8]] == [1e-3] * 3  # exactly, not nearly


def test_cycles_of_different_lengths() -> None:
    schedule = cycles([64, 32], lr_max=LR_MAX, lr_min=LR_MIN)
    # The second cycle has two steps: its start, and its middle.
    assert schedule.epoch_rates(64, [16, 16]) == pytest.approx([1e-3, 5.5e-4])
    # With batches of 8 it has four, of the same curve.
    assert schedule.epoch_rates(64, [8] * 4) == pytest.approx(COSINE, rel=1e-8)


@pytest.mark.parametrize(
    ("epochs", "first", "growth", "lengths"),
    [
        (3, 1, 1, [1, 1, 1]),
        (6, 2, 1, [2, 2, 2]),
        (7, 1, 2, [1, 2, 4]),
        # Cut short in its second epoch of four, and in its second of two.
        (5, 1, 2, [1, 2, 4]),
        (4, 3, 1, [3, 3]),
        (8, 2, 3, [2, 6]),
        (2, 5, 2, [5]),
        (10_000, 1, 10, [1, 10, 100, 1000, 10_000]),
    ],
)
def test_cycle_k_is_growth_to_the_k_times_as_long(
    epochs: int, first: int, growth: int, lengths: list[int]
) -> None:
    assert cycle_lengths(epochs, first=first, growth=growth) == lengths


def test_a_cycle_that_training_cuts_short_ends_part_of_the_way_down() -> None:
    # Two epochs of 64 images, and two of four: the last rates are those half-way down.
    lengths = [64 * length for length in cycle_lengths(4, first=2, growth=2)]
    schedule = cycles(lengths, lr_max=LR_MAX, lr_min=LR_MIN)
    assert schedule.epoch_rates(0, [32] * 4) == pytest.approx(COSINE, rel=1e-8)
    assert schedule.epoch_rates(128, [64] * 2) == pytest.approx(COSINE[:2], rel=1e-8)
    assert schedule(256) == pytest.approx(5.5e-4)  # the end, at which no step begins


def test_a_short_last_batch_moves_no_rate() -> None:
    # Progress is counted in samples: batches of 16, 16, 16 and 2 begin at 0, 16, 32 and 48 of 50.
    schedule = cycles([50, 50], lr_max=LR_MAX, lr_min=LR_MIN, power=1.0)
    expected = [1e-3 - 9e-4 * start / 50 for start in (0, 16, 32, 48)]
    assert schedule.epoch_rates(0, [16, 16, 16, 2]) == pytest.approx(expected)
    assert schedule.epoch_rates(50, [16, 16, 16, 2]) == pytest.approx(expected)


# 1e-4 + 9e-4 * (1 - t)^2 for t = 0, 1/4, 1/2, 3/4: squares 1, 0.5625, 0.25, 0.0625.
def test_polynomial_restarts() -> None:
    schedule = cycles([64, 64], lr_max=LR_MAX, lr_min=LR_MIN, power=2.0)
    cycle = [1e-3, 6.0625e-4, 3.25e-4, 1.5625e-4]
    rates = schedule.epoch_rates(0, [16] * 8)
    assert rates == pytest.approx(cycle * 2, rel=1e-12)
    assert [rates[0], rates[4]] == [1e-3, 1e-3]


def test_polynomial_of_another_power() -> None:
    schedule = cycles([64], lr_max=LR_MAX, lr_min=LR_MIN, power=3.0)
    assert schedule(32) == pytest.approx(1e-4 + 9e-4 / 8)


def stepped(build: Callable[[torch.optim.Optimizer], LRScheduler], *, steps: int) -> list[float]:
    """The rates that a scheduler of torch gives to successive steps."""
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR_MAX)
    scheduler = build(optimiser)
    rates = []
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's note that it has no gradients to step on
            scheduler.step()
    return rates


def test_equal_to_torchs_cosine_annealing_with_warm_restarts() -> None:
    theirs = stepped(
        lambda optimiser: CosineAnnealingWarmRestarts(optimiser, T_0=7, eta_min=LR_MIN), steps=21
    )
    ours = cycles([112] * 3, lr_max=LR_MAX, lr_min=LR_MIN)
    assert ours.epoch_rates(0, [16] * 21) == pytest.approx(theirs, rel=1e-12)


def test_equal_to_torchs_cosine_annealing_with_a_cycle_twice_as_long() -> None:
    theirs = stepped(
        lambda optimiser: CosineAnnealingWarmRestarts(optimiser, T_0=6, T_mult=2, eta_min=LR_MIN),
        steps=18,
    )
    ours = cycles(cycle_lengths(18, first=6, growth=2), lr_max=LR_MAX, lr_min=LR_MIN)
    assert ours.epoch_rates(0, [1] * 18) == pytest.approx(theirs, rel=1e-12)


def test_equal_to_torchs_warm_restarts_where_training_cuts_the_third_cycle_short() -> None:
    theirs = stepped(
        lambda optimiser: CosineAnnealingWarmRestarts(optimiser, T_0=2, T_mult=3, eta_min=LR_MIN),
        steps=15,
    )
    ours = cycles(cycle_lengths(15, first=2, growth=3), lr_max=LR_MAX, lr_min=LR_MIN)
    assert ours.epoch_rates(0, [1] * 15) == pytest.approx(theirs, rel=1e-12)


def test_equal_to_torchs_exponential_decay() -> None:
    gamma = 0.96 ** (1 / 2000)
    theirs = stepped(lambda optimiser: ExponentialLR(optimiser, gamma=gamma), steps=3000)
    ours = exponential_decay(16 * 3000, lr_max=LR_MAX, **PAPER_DECAY)
    assert ours.epoch_rates(0, [16] * 3000) == pytest.approx(theirs, rel=1e-10)


def test_equal_to_torchs_polynomial_decay_to_zero() -> None:
    theirs = stepped(
        lambda optimiser: PolynomialLR(optimiser, total_iters=10, power=2.0), steps=10
    )
    ours = cycles([10], lr_max=LR_MAX, lr_min=0.0, power=2.0)
    assert ours.epoch_rates(0, [1] * 10) == pytest.approx(theirs, rel=1e-9)


def test_the_rise_of_one_cycle_equals_torchs_linear_warm_up() -> None:
    theirs = stepped(
        lambda optimiser: LinearLR(optimiser, start_factor=0.1, end_factor=1.0, total_iters=45),
        steps=46,
    )
    ours = one_cycle(100, lr_max=LR_MAX, lr_min=LR_MIN)
    assert ours.epoch_rates(0, [1] * 46) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(
    "schedule",
    [
        fixed(300, lr_max=LR_MAX),
        exponential_decay(300, lr_max=LR_MAX, **PAPER_DECAY),
        one_cycle(300, lr_max=LR_MAX, lr_min=LR_MIN),
        cycles([100] * 3, lr_max=LR_MAX, lr_min=LR_MIN),
        cycles([100] * 3, lr_max=LR_MAX, lr_min=LR_MIN, power=2.0),
    ],
)
def test_rates_follow_from_the_samples_alone(schedule: RateSchedule) -> None:
    singly = schedule.epoch_rates(100, [1] * 100)
    assert schedule.epoch_rates(100, [32, 32, 32, 4]) == [singly[i] for i in (0, 32, 64, 96)]
    assert all(1e-5 < rate <= 1e-3 for rate in singly)


def test_the_segments_between_two_samples() -> None:
    schedule = cycles([10, 10, 10], lr_max=LR_MAX, lr_min=LR_MIN)
    first, second, third = schedule.segments
    assert schedule.between(0, 10) == (first,)
    assert schedule.between(0, 11) == (first, second)
    assert schedule.between(10, 20) == (second,)
    assert schedule.between(9, 30) == (first, second, third)


SIZES = [
    # Shipped boundaries: 1 in epochs 1-3, then 4 in 4-8, 8 in 9-13, 16 from 14.
    (30, (3, 8, 13), 2, [1] * 3 + [4] * 5 + [8] * 5 + [16] * 17),
    (30, (3, 8, 13), 7, [1] * 3 + [128] * 5 + [256] * 5 + [512] * 17),
    (14, (3, 8, 13), 4, [1] * 3 + [16] * 5 + [32] * 5 + [64]),
    # The published figure: P = 4 with one boundary.
    (30, (3,), 4, [1] * 3 + [16] * 27),
    (30, (3, 8), 3, [1] * 3 + [8] * 5 + [16] * 22),
    # P = 0: the second phase keeps batch 1.
    (6, (1, 2, 4), 0, [1, 1, 2, 2, 4, 4]),
    (5, (1, 2, 3), 3, [1, 8, 16, 32, 32]),
    # Boundaries at and beyond the last epoch never come.
    (3, (3, 8, 13), 4, [1, 1, 1]),
    (3, (3, 8, 13), None, [1, 1, 1]),
    (8, (3, 8, 13), 2, [1] * 3 + [4] * 5),
    (1, (1,), None, [1]),
]


@pytest.mark.parametrize(("epochs", "boundaries", "exponent", "sizes"), SIZES)
def test_adabatch_sizes(
    epochs: int, boundaries: tuple[int, ...], exponent: int | None, sizes: list[int]
) -> None:
    assert adabatch_sizes(epochs, boundaries=boundaries, exponent=exponent) == sizes


def test_an_exponent_is_needed_above_a_boundary() -> None:
    with pytest.raises(ValueError, match="an exponent is needed: epoch 4 lies above a boundary"):
        adabatch_sizes(5, boundaries=(3,), exponent=None)


# Steps of 30 epochs with boundaries 3, 8, 13, the last short batch kept.
STEPS = [
    # 3 * 60,000 + 5 * 15,000 + 5 * 7,500 + 17 * 3,750
    (60_000, 2, 356_250),
    # 3 * 60,000 + 5 * 3,750 + 5 * 1,875 + 17 * 938 (937.5)
    (60_000, 4, 224_071),
    # 3 * 60,000 + 5 * 469 (468.75) + 5 * 235 (234.375) + 17 * 118 (117.2)
    (60_000, 7, 185_526),
    # 3 * 4,999 + 5 * 1,250 (1,249.75) + 5 * 625 (624.9) + 17 * 313 (312.4)
    (4_999, 2, 29_693),
    # 3 * 4,999 + 5 * 313 (312.4) + 5 * 157 (156.2) + 17 * 79 (78.1)
    (4_999, 4, 18_690),
    # 3 * 4,999 + 5 * 40 (39.05) + 5 * 20 (19.5) + 17 * 10 (9.8)
    (4_999, 7, 15_467),
]


@pytest.mark.parametrize(("samples", "exponent", "steps"), STEPS)
def test_total_steps_of_adabatch(samples: int, exponent: int, steps: int) -> None:
    sizes = adabatch_sizes(30, boundaries=(3, 8, 13), exponent=exponent)
    assert sum(len(batches(samples, size)) for size in sizes) == steps


@pytest.mark.parametrize(
    ("samples", "size", "expected"),
    [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 4, [3]), (3, 1, [1, 1, 1]), (4, 4, [4])],
)
def test_batches_keep_the_last_short_one(samples: int, size: int, expected: list[int]) -> None:
    assert batches(samples, size) == expected


def test_the_constants_are_the_papers() -> None:
    whole = one_cycle(1, lr_max=LR_MAX, lr_min=LR_MIN)
    assert [segment.end for segment in whole.segments] == pytest.approx([0.45, 0.9, 1.0])
    assert math.isclose(exponential_decay(32_000, lr_max=1.0, **PAPER_DECAY)(32_000), 0.96)
