"""Schedules as they are drawn are the schedules that are trained."""

from __future__ import annotations

import random
from dataclasses import replace
from math import cos, pi
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fastrcaps_search.definition.lr_policies import LR_POLICIES
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.report.curves import Points, rate_points, size_points
from fastrcaps_search.report.panels import schedules
from fastrcaps_search.report.panels.schedules import Schedules
from fastrcaps_search.report.plots import PALETTE, TEXT
from fastrcaps_search.training.policy import training_plan
from tests.report.views import view_of

if TYPE_CHECKING:
    from fastrcaps_search.report.view import ReportView
    from tests.report.conftest import Records


def parameters_of(policy: str) -> TrialParameters:
    if policy == "warm_adabatch":
        return TrialParameters(lr_policy=policy, adabatch_exponent=4)
    return TrialParameters.from_dict(
        {"lr_policy": policy, "batch_policy": "adabatch", "adabatch_exponent": 3}
    )


def drawn(found: Points, progress: float) -> float:
    """Height of the line at a progress that is no jump."""
    return float(np.interp(progress, *found))


@pytest.mark.parametrize(("epochs", "most"), [(5, 800), (5, 60), (100, 3_200)])
@pytest.mark.parametrize("policy", LR_POLICIES.names)
def test_the_line_is_the_rate_of_training(
    records: Records, policy: str, epochs: int, most: int
) -> None:
    study = records.study(epochs=epochs, train_images=3_777, polynomial_power=1.7)
    plan = training_plan(study.definition, parameters_of(policy))
    found = rate_points(plan, most=most)
    assert (found[0][0], found[0][-1]) == (0.0, epochs)
    assert list(found[0]) == sorted(found[0])
    highest = max(found[1])
    every = random.Random(1)
    # Both sides of each beginning of an epoch, where a cycle may begin anew, and anywhere else.
    seen = {place * 3_777 + beside for place in range(epochs) for beside in (1, 3_776)}
    seen |= {every.randrange(1, epochs * 3_777) for _ in range(500)}
    jumps = {epoch for epoch in found[0] if found[0].count(epoch) > 1}
    for samples in sorted(seen):
        if samples / 3_777 not in jumps:
            height = drawn(found, samples / 3_777)
            assert height == pytest.approx(plan.rates(samples), abs=0.02 * highest)
    # At its own points the line is exact.
    for progress, rate in zip(*found, strict=True):
        samples = round(progress * 3_777)
        if progress not in jumps and samples < epochs * 3_777 and samples == progress * 3_777:
            assert rate == pytest.approx(plan.rates(samples), rel=1e-9)


@pytest.mark.parametrize(
    ("knobs", "epochs", "jumps", "last"),
    [
        # By hand: where cycles begin anew, and how far the last one comes: cosines from 1e-3 to
        # 1e-4, of which it does the whole or a half, 2/6 or 5/7.
        ({"cycle_epochs": 2}, 5, [2, 4], 0.5),
        ({"cycle_growth": 2}, 5, [1, 3], 0.5),
        ({"cycle_growth": 2}, 7, [1, 3], 1.0),
        ({"cycle_epochs": 2, "cycle_growth": 3}, 4, [2], 2 / 6),
        ({"cycle_epochs": 7}, 5, [], 5 / 7),
    ],
)
def test_a_cycle_that_training_cuts_short_is_drawn_to_its_end(
    records: Records, knobs: dict[str, Any], epochs: int, jumps: list[int], last: float
) -> None:
    study = records.study(epochs=9, train_images=3_777)
    choice = replace(records.parameters_of("warm_restarts"), epochs=epochs, **knobs)
    plan = training_plan(study.definition, choice)
    xs, ys = rate_points(plan, most=60)
    assert [x for place, x in enumerate(xs) if x in xs[:place]] == jumps
    assert xs[-1] == epochs
    assert ys[-1] == pytest.approx(1e-4 + 9e-4 * (1 + cos(pi * last)) / 2)
    for place, x in enumerate(xs[:-1]):
        if xs[place + 1] == x:
            assert (ys[place], ys[place + 1]) == pytest.approx((1e-4, 1e-3))


@pytest.mark.parametrize(
    ("epochs", "exponent", "expected"),
    [
        (5, 4, ((0, 1, 2, 3, 5), (1, 16, 32, 64, 64))),
        (2, 3, ((0, 1, 2), (1, 8, 8))),
        (100, 3, ((0, 1, 2, 3, 100), (1, 8, 16, 32, 32))),
    ],
)
def test_steps_of_the_batch_size_by_hand(
    records: Records, epochs: int, exponent: int, expected: Points
) -> None:
    definition = records.study(epochs=epochs).definition
    plan = training_plan(definition, records.parameters_of("fixed", "adabatch", exponent))
    assert size_points(plan) == expected
    constant = training_plan(definition, records.parameters_of())
    assert size_points(constant) == ((0, epochs), (16, 16))


def lines(view: ReportView) -> Schedules:
    found = schedules.gather(view)
    assert found is not None
    return found


def test_trials_with_one_schedule_share_a_line(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    found = lines(view)
    rates = {line.name: line for line in found.rates}
    assert {policy: line.trials for policy, line in rates.items()} == {
        "warm_adabatch": (2, 5),
        "warm_restarts": (7, 9),
        "one_cycle": (8,),
    }
    # Equation 1 at its corners: up to 45 % of five epochs, down to 90 %, on to lr_min / 10.
    line = rates["one_cycle"]
    corners = dict(zip(line.epochs, line.values, strict=True))
    assert corners == pytest.approx({0.0: 1e-4, 2.25: 1e-3, 4.5: 1e-4, 5.0: 1e-5})
    # Restarts show both sides of the jump.
    line = rates["warm_restarts"]
    at_one = [rate for epoch, rate in zip(line.epochs, line.values, strict=True) if epoch == 1.0]
    assert at_one == pytest.approx([1e-4, 1e-3])
    assert {line.values[:-1]: line.trials for line in found.sizes} == {
        (1, 8, 8, 8, 8): (5,),
        (1, 16, 16, 16, 16): (2,),
        (1, 32, 64, 128, 128): (9,),
        (16, 16, 16, 16, 16): (7, 8),
    }
    # 7 and 8 share a batch size and have two policies.
    tones = {line.trials: line.tone for line in found.sizes}
    assert tones[(7, 8)] is TEXT
    assert tones[(5,)] is PALETTE[LR_POLICIES.names.index("warm_adabatch")]


def test_a_long_study_keeps_its_lines_short(records: Records) -> None:
    choice = records.parameters_of("warm_restarts")
    view = view_of(
        records.study(epochs=3_000), [records.complete(0, 0.9, 9.0, 9.0, choice=choice)]
    )
    (line,) = lines(view).rates
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
    assert max(lines(view).rates[0].values) == pytest.approx(3e-3)
