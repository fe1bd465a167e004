"""Schedules told in short are the schedules that are trained."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import cos, exp, pi
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.definition.lr_policies import LR_POLICIES
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.schedules import Curve
from fastrcaps_search.report.facts.schedules import Plans, Stretch, phases, stretches
from fastrcaps_search.report.marks import TEXT, tone_of
from tests.report.views import view_of

if TYPE_CHECKING:
    from tests.report.conftest import Records


def expanded(told: Sequence[Stretch], progress: float) -> float:
    """The rate at a progress in epochs, written out once more."""
    part = [stretch for stretch in told if stretch.start <= progress][-1]
    turn = min(int((progress - part.start) / part.length), part.count - 1)
    into = progress - part.start - turn * part.length
    share = into / part.length
    fall = part.first - part.last
    if part.curve is Curve.CONSTANT:
        return part.first
    if part.curve is Curve.EXPONENTIAL:
        return part.first * exp(-into / part.power)
    if part.curve is Curve.LINEAR:
        return part.first - fall * share
    if part.curve is Curve.COSINE:
        return part.last + fall * (1 + cos(pi * share)) / 2
    return float(part.last + fall * (1 - share) ** part.power)


def parameters_of(policy: str) -> TrialParameters:
    if policy == "warm_adabatch":
        return TrialParameters(lr_policy=policy, adabatch_exponent=4)
    return TrialParameters.from_dict(
        {"lr_policy": str(policy), "batch_policy": "adabatch", "adabatch_exponent": 3}
    )


@pytest.mark.parametrize("epochs", [5, 100])
@pytest.mark.parametrize("policy", LR_POLICIES.names)
def test_stretches_expand_to_the_rates_of_training(
    records: Records, policy: str, epochs: int
) -> None:
    study = records.study(epochs=epochs, train_images=3_777, polynomial_power=1.7)
    plan = Plans(study.definition).of(parameters_of(policy))
    told = stretches(plan)
    total = epochs * 3_777
    every = random.Random(1)
    # Beginnings and ends of epochs, both sides of each.
    seen = {place * 3_777 + beside for place in range(epochs) for beside in (0, 1, 3_776)}
    seen |= {every.randrange(total) for _ in range(500)}
    for samples in sorted(seen):
        assert expanded(told, samples / 3_777) == pytest.approx(plan.rates(samples), rel=1e-9)
    ends = [part.start + part.count * part.length for part in told]
    assert ends[-1] == pytest.approx(epochs)
    assert [part.start for part in told] == pytest.approx([0.0, *ends[:-1]])


@pytest.mark.parametrize(
    ("knobs", "epochs", "told"),
    [
        # Start and length of each stretch, and how many cycles it has.
        ({"cycle_epochs": 2}, 5, [(0, 2, 3)]),
        ({"cycle_growth": 2}, 5, [(0, 1, 1), (1, 2, 1), (3, 4, 1)]),
        ({"cycle_epochs": 2, "cycle_growth": 3}, 8, [(0, 2, 1), (2, 6, 1)]),
        ({"cycle_epochs": 7}, 5, [(0, 7, 1)]),
    ],
)
def test_cycles_that_training_cuts_short_are_told_whole_and_drawn_to_its_end(
    records: Records, knobs: dict[str, Any], epochs: int, told: list[tuple[int, int, int]]
) -> None:
    study = records.study(epochs=9, train_images=3_777)
    choice = replace(records.parameters_of("warm_restarts"), epochs=epochs, **knobs)
    plan = Plans(study.definition).of(choice)
    found = stretches(plan)
    assert [(part.start, part.length, part.count) for part in found] == told
    for samples in range(0, epochs * 3_777, 100):
        assert expanded(found, samples / 3_777) == pytest.approx(plan.rates(samples), rel=1e-9)
    view = view_of(study, [records.complete(0, 0.9, 9.0, 9.0, choice=choice)])
    (line,) = view.rates
    assert (line.epochs[0], line.epochs[-1]) == (0.0, epochs)
    for progress, rate in zip(line.epochs, line.rates, strict=True):
        into = min(progress, epochs - 1e-9)
        sides = [expanded(found, into), expanded(found, max(into - 1e-9, 0.0))]
        assert any(rate == pytest.approx(side, rel=1e-6) for side in sides)
    assert len(view.batches[0].sizes) == epochs


@pytest.mark.parametrize(
    ("policy", "turns"),
    [
        ("fixed", [1]),
        ("exponential_decay", [1]),
        ("one_cycle", [1, 1, 1]),
        ("warm_restarts", [100]),
        ("polynomial_restarts", [100]),
        ("warm_adabatch", [1, 1]),
    ],
)
def test_repeated_cycles_are_told_once(records: Records, policy: str, turns: list[int]) -> None:
    plan = Plans(records.study(epochs=100).definition).of(parameters_of(policy))
    assert [part.count for part in stretches(plan)] == turns


@pytest.mark.parametrize(
    ("epochs", "exponent", "expected"),
    [
        (5, 4, ((1, 1), (16, 1), (32, 1), (64, 2))),
        (2, 3, ((1, 1), (8, 1))),
        (100, 3, ((1, 1), (8, 1), (16, 1), (32, 97))),
    ],
)
def test_phases_by_hand(
    records: Records, epochs: int, exponent: int, expected: tuple[tuple[int, int], ...]
) -> None:
    plans = Plans(records.study(epochs=epochs).definition)
    plan = plans.of(records.parameters_of("fixed", "adabatch", exponent))
    assert phases(plan) == expected
    assert [size for size, times in expected for _ in range(times)] == list(plan.batch_sizes)
    assert phases(plans.of(records.parameters_of())) == ((16, epochs),)


def test_trials_of_one_schedule_share_a_plan(records: Records) -> None:
    plans = Plans(records.study().definition)
    first = plans.of(records.parameters_of("one_cycle"))
    assert plans.of(records.parameters_of("one_cycle", decoder="reduced", sharing=True)) is first
    heavier = replace(records.parameters_of("one_cycle"), reconstruction_weight=0.01)
    assert plans.of(heavier) is first
    assert plans.of(records.parameters_of("fixed")) is not first
    assert plans.of(replace(records.parameters_of("one_cycle"), lr_max=5e-3)) is not first


def test_trials_with_one_schedule_share_a_line(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    rates = {str(line.lr_policy): line for line in view.rates}
    assert {policy: line.trials for policy, line in rates.items()} == {
        "warm_adabatch": (2, 5),
        "warm_restarts": (7, 9),
        "one_cycle": (8,),
    }
    # Equation 1 at its corners: up to 45 % of five epochs, down to 90 %, on to lr_min / 10.
    line = rates["one_cycle"]
    corners = dict(zip(line.epochs, line.rates, strict=True))
    assert corners == pytest.approx({0.0: 1e-4, 2.25: 1e-3, 4.5: 1e-4, 5.0: 1e-5})
    # Restarts show both sides of the jump.
    line = rates["warm_restarts"]
    at_one = [rate for epoch, rate in zip(line.epochs, line.rates, strict=True) if epoch == 1.0]
    assert at_one == pytest.approx([1e-4, 1e-3])
    assert {line.sizes: line.trials for line in view.batches} == {
        (1, 8, 8, 8, 8): (5,),
        (1, 16, 16, 16, 16): (2,),
        (1, 32, 64, 128, 128): (9,),
        (16, 16, 16, 16, 16): (7, 8),
    }
    # 7 and 8 share a batch size and have two policies.
    tones = {line.trials: line.tone for line in view.batches}
    assert tones[(7, 8)] is TEXT
    assert tones[(5,)] is tone_of("warm_adabatch")


def test_a_long_study_keeps_its_lines_short(records: Records) -> None:
    choice = records.parameters_of("warm_restarts")
    view = view_of(
        records.study(epochs=3_000), [records.complete(0, 0.9, 9.0, 9.0, choice=choice)]
    )
    (line,) = view.rates
    # Each cycle needs its two ends.
    assert len(line.epochs) == 6_000
    assert line.epochs[-1] == pytest.approx(3_000)


@pytest.mark.parametrize(
    ("policy", "own", "told"),
    [
        ("fixed", {"epochs": 3}, "3 epochs"),
        ("exponential_decay", {"decay_rate": 0.95}, "decay by 0.95"),
        ("exponential_decay", {"decay_steps": 2000}, "decay every 2,000 steps"),
        (
            "exponential_decay",
            {"epochs": 5, "lr_max": 0.01, "decay_rate": 0.95, "decay_steps": 22},
            "5 epochs, learning rate up to 0.01, decay by 0.95 every 22 steps",
        ),
        ("warm_restarts", {"cycle_epochs": 2}, "cycles of 2 epochs"),
        ("polynomial_restarts", {"cycle_growth": 3}, "cycles growing 3 times"),
        (
            "warm_restarts",
            {"cycle_epochs": 2, "cycle_growth": 3},
            "cycles of 2 epochs growing 3 times",
        ),
    ],
)
def test_what_the_space_varies_of_a_schedule_is_told(
    records: Records, policy: str, own: dict[str, Any], told: str
) -> None:
    parameters = replace(records.parameters_of(policy), **own)
    view = view_of(records.study(), [records.complete(0, 0.9, 9.0, 9, choice=parameters)])
    assert view.trials[0].rates == told


def test_learning_rates_of_a_trial_are_told(records: Records) -> None:
    parameters = replace(records.parameters_of("one_cycle"), lr_min=2e-5, lr_max=3e-3)
    view = view_of(records.study(), [records.complete(0, 0.9, 9.0, 9, choice=parameters)])
    assert view.trials[0].rates == "learning rate from 2e-05 up to 0.003"
    assert max(view.rates[0].rates) == pytest.approx(3e-3)
