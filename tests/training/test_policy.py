"""Plans of whole trainings: batch size by epoch and rate by step, written out by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from fastrcaps_search.definition.choices import Decoder, RoutingGradient
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.policy import TrainingPlan, training_plan

CONSTANT = {"batch_policy": "constant"}


def plan(
    parameters: dict[str, Any], *, images: int = 32, epochs: int = 4, **study: object
) -> TrainingPlan:
    """The plan of a LeNet5 study with batch 8 and boundaries 1, 2, 3 unless others are given."""
    values = {
        "name": "s",
        "network": "lenet5",
        "train_images": images,
        "epochs": epochs,
        "batch_size": 8,
        "boundaries": [1, 2, 3],
    }
    definition = StudyDefinition.from_dict({**values, **study})
    return training_plan(definition, TrialParameters.from_dict(parameters))


def rates(planned: TrainingPlan) -> list[list[float]]:
    return [planned.epoch_rates(epoch) for epoch in range(1, planned.epochs + 1)]


def test_fixed_with_a_constant_batch() -> None:
    planned = plan({"lr_policy": "fixed", **CONSTANT})
    assert planned.batch_sizes == (8, 8, 8, 8)
    assert planned.epoch_batches(1) == [8, 8, 8, 8]
    assert rates(planned) == [[1e-3] * 4] * 4


def test_warm_restarts_begin_again_with_each_epoch() -> None:
    planned = plan({"lr_policy": "warm_restarts", **CONSTANT})
    # Four steps a cycle; cos(pi/4) = 0.70710678.
    cycle = [1e-3, 8.68198052e-4, 5.5e-4, 2.31801948e-4]
    for epoch in rates(planned):
        assert epoch == pytest.approx(cycle, rel=1e-8)
        assert epoch[0] == 1e-3


def test_polynomial_restarts_begin_again_with_each_epoch() -> None:
    planned = plan({"lr_policy": "polynomial_restarts", **CONSTANT})
    for epoch in rates(planned):
        assert epoch == pytest.approx([1e-3, 6.0625e-4, 3.25e-4, 1.5625e-4])
    linear = plan({"lr_policy": "polynomial_restarts", **CONSTANT}, polynomial_power=1)
    assert linear.epoch_rates(2) == pytest.approx([1e-3, 7.75e-4, 5.5e-4, 3.25e-4])


def test_one_cycle_spans_the_whole_training() -> None:
    # 5 epochs of 4 steps: 20, of which 9 up by 1e-4 each, 9 down, 2 towards 1e-5.
    planned = plan({"lr_policy": "one_cycle", **CONSTANT}, epochs=5)
    flat = [rate for epoch in rates(planned) for rate in epoch]
    up = [k * 1e-4 for k in range(1, 10)]
    down = [k * 1e-4 for k in range(10, 1, -1)]
    assert flat == pytest.approx([*up, *down, 1e-4, 5.5e-5])


def test_exponential_decay_counts_steps_of_the_studys_batch() -> None:
    # 32,000 images, batch 16: 2,000 steps, one factor of 0.96 an epoch.
    for parameters in (
        {"lr_policy": "exponential_decay", **CONSTANT},
        {"lr_policy": "exponential_decay", "batch_policy": "adabatch", "adabatch_exponent": 3},
    ):
        planned = plan(parameters, images=32_000, batch_size=16)
        starts = [planned.epoch_rates(epoch)[0] for epoch in range(1, 5)]
        assert starts == pytest.approx([1e-3, 9.6e-4, 9.216e-4, 8.84736e-4])


def test_exponential_decay_counts_steps_of_the_trials_own_batch() -> None:
    # 4,000 steps of 8: two factors an epoch.
    parameters = {"lr_policy": "exponential_decay", **CONSTANT, "batch_size": 8}
    planned = plan(parameters, images=32_000, batch_size=16)
    assert planned.epoch_rates(2)[0] == pytest.approx(9.216e-4)


def test_exponential_decay_of_another_rate_and_horizon() -> None:
    # 88 images in batches of 8 are 11 steps, half of the 22 that halve the rate.
    study: dict[str, Any] = {"images": 88, "epochs": 3, "decay_rate": 0.5, "decay_steps": 22}
    planned = plan({"lr_policy": "exponential_decay", **CONSTANT}, **study)
    halves = [epoch[0] for epoch in rates(planned)]
    assert halves == pytest.approx([1e-3, 7.0710678e-4, 5e-4], rel=1e-8)
    own = {"lr_policy": "exponential_decay", **CONSTANT, "decay_rate": 0.25, "decay_steps": 11}
    assert [epoch[0] for epoch in rates(plan(own, **study))] == pytest.approx(
        [1e-3, 2.5e-4, 6.25e-5], rel=1e-8
    )


# With cos(pi/4) = 0.70710678 and cos(pi/8) = 0.92387953: a cycle of one epoch, one of two, and
# two of the four epochs of a third.
GROWING = [1e-3, 1e-3, 5.5e-4, 1e-3, 8.68198052e-4]


def test_cycles_that_grow_begin_with_epochs_and_may_be_cut_short() -> None:
    grows: dict[str, Any] = {"cycle_epochs": 1, "cycle_growth": 2}
    planned = plan({"lr_policy": "warm_restarts", **CONSTANT}, epochs=5, **grows)
    assert [epoch[0] for epoch in rates(planned)] == pytest.approx(GROWING, rel=1e-8)
    # The last step begins at 1.75 of 4 epochs: cos(7 pi / 16) = 0.19509032.
    assert planned.epoch_rates(5)[-1] == pytest.approx(1e-4 + 4.5e-4 * 1.19509032, rel=1e-8)
    own = {"lr_policy": "warm_restarts", **CONSTANT, **grows}
    assert rates(plan(own, epochs=5, cycle_epochs=3)) == rates(planned)
    # (1 - t)^2 for t = 0, 0, 1/2, 0, 1/4: 1, 1, 0.25, 1, 0.5625.
    polynomial = plan({"lr_policy": "polynomial_restarts", **CONSTANT}, epochs=5, **grows)
    assert [epoch[0] for epoch in rates(polynomial)] == pytest.approx(
        [1e-3, 1e-3, 3.25e-4, 1e-3, 6.0625e-4]
    )


def test_a_trials_own_epochs_give_the_length_of_everything() -> None:
    space: dict[str, Any] = {"images": 10, "epochs": 9, "boundaries": [3, 4]}
    for epochs, sizes in ((2, (1, 1)), (4, (1, 1, 1, 2)), (6, (1, 1, 1, 2, 4, 4))):
        exponent = {} if epochs == 2 else {"adabatch_exponent": 1}
        adapting = {"lr_policy": "fixed", "batch_policy": "adabatch", **exponent}
        assert plan({**adapting, "epochs": epochs}, **space).batch_sizes == sizes
        constant = {"lr_policy": "one_cycle", **CONSTANT, "epochs": epochs}
        planned = plan(constant, **space)
        assert planned.batch_sizes == (8,) * epochs
        # 90 % of the way it is back at the lower rate, at the end at a tenth.
        assert planned.rates(9 * epochs) == pytest.approx(1e-4)
        assert planned.rates(10 * epochs) == pytest.approx(1e-5)
    # Cycles of three epochs and of three: half of the second is 4.5 epochs.
    warm = {"lr_policy": "warm_adabatch", "adabatch_exponent": 1, "epochs": 6}
    planned = plan(warm, **space)
    assert planned.batch_sizes == (1, 1, 1, 2, 2, 2)
    assert [planned.rates(30), planned.rates(45)] == pytest.approx([1e-3, 5.5e-4])


def test_adabatch() -> None:
    parameters = {"lr_policy": "fixed", "batch_policy": "adabatch", "adabatch_exponent": 2}
    planned = plan(parameters, images=30, epochs=5)
    assert planned.batch_sizes == (1, 4, 8, 16, 16)
    assert planned.epoch_batches(1) == [1] * 30
    assert planned.epoch_batches(2) == [4] * 7 + [2]
    assert planned.epoch_batches(4) == [16, 14]
    assert plan(parameters, images=30, epochs=2).batch_sizes == (1, 4)
    without = {"lr_policy": "fixed", "batch_policy": "adabatch"}
    assert plan(without, epochs=1).batch_sizes == (1,)


def test_a_batch_is_never_larger_than_the_split() -> None:
    parameters = {"lr_policy": "fixed", "batch_policy": "adabatch", "adabatch_exponent": 5}
    planned = plan(parameters, images=50)
    assert planned.batch_sizes == (1, 32, 50, 50)
    assert planned.epoch_batches(4) == [50]


def test_warm_adabatch_has_two_phases_with_a_cycle_each() -> None:
    # 8 images, boundary 3 of 5 epochs, P = 1: 24 steps of 1, then 8 steps of 2.
    parameters = {"lr_policy": "warm_adabatch", "adabatch_exponent": 1}
    planned = plan(parameters, images=8, epochs=5, boundaries=[3, 4])
    assert planned.batch_sizes == (1, 1, 1, 2, 2)
    first, _, third, fourth, fifth = rates(planned)
    assert first[0] == 1e-3
    # Step 12 of 24 is the middle of the first cycle.
    assert planned.epoch_rates(2)[4] == pytest.approx(5.5e-4)
    # Step 23: cos(23 pi / 24) = -0.99144486, so 1e-4 + 4.5e-4 * 0.00855514.
    assert third[-1] == pytest.approx(1.03849812e-4, rel=1e-8)
    # The restart is exactly at the boundary, and the second cycle lasts to the end of training.
    assert fourth[0] == 1e-3
    assert fifth[0] == pytest.approx(5.5e-4)
    # The last step begins at 14/16: cos(7 pi / 8) = -0.9238795325.
    assert fifth[-1] == pytest.approx(1.34254210e-4, rel=1e-8)


def test_warm_adabatch_of_the_paper() -> None:
    # P = 4 of 30 epochs of 60,000 images: 180,000 steps of 1, then 27 * 3,750 of 16.
    planned = plan(
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 4},
        images=60_000,
        epochs=30,
        evaluate_on="test",
        boundaries=[3, 8, 13],
    )
    assert planned.batch_sizes == (1,) * 3 + (16,) * 27
    assert sum(len(planned.epoch_batches(epoch)) for epoch in range(1, 31)) == 281_250
    assert planned.rates(0) == 1e-3
    assert planned.rates(90_000) == pytest.approx(5.5e-4)
    # One step before the boundary: 1e-4 + 4.5e-4 * (pi / 180,000)^2 / 2.
    assert planned.rates(179_999) == pytest.approx(1e-4 + 2.25e-4 * (math.pi / 180_000) ** 2)
    assert planned.rates(180_000) == 1e-3
    assert planned.rates(180_000 + 27 * 30_000) == pytest.approx(5.5e-4)


def test_warm_adabatch_of_exponent_zero_still_restarts_at_the_boundary() -> None:
    planned = plan({"lr_policy": "warm_adabatch", "adabatch_exponent": 0}, images=8, epochs=4)
    assert planned.batch_sizes == (1, 1, 1, 1)
    # Cycles of one epoch and of three.
    starts = [epoch[0] for epoch in rates(planned)]
    # A third and two thirds of the second cycle: cos = 0.5 and -0.5.
    assert starts == pytest.approx([1e-3, 1e-3, 7.75e-4, 3.25e-4])


def test_warm_adabatch_without_a_boundary_is_one_long_cycle() -> None:
    planned = plan({"lr_policy": "warm_adabatch"}, images=8, epochs=2, boundaries=[2])
    assert planned.batch_sizes == (1, 1)
    assert [epoch[0] for epoch in rates(planned)] == pytest.approx([1e-3, 5.5e-4])


CONTINUOUS = {
    # Largest change of the rate per sample: nothing; the slope at the start; 9e-4 over 45 %
    # of 6 * 60 samples.
    "fixed": 0.0,
    "exponential_decay": 1e-3 * -math.log(0.96) / (2000 * 8),
    "one_cycle": 9e-4 / (0.45 * 360),
}


@pytest.mark.parametrize("lr_policy", list(CONTINUOUS))
def test_the_rate_does_not_jump_where_the_batch_size_switches(lr_policy: str) -> None:
    parameters = {"lr_policy": lr_policy, "batch_policy": "adabatch", "adabatch_exponent": 3}
    planned = plan(parameters, images=60, epochs=6, boundaries=[2, 3, 5])
    assert planned.batch_sizes == (1, 1, 8, 16, 16, 32)
    flat = [rate for epoch in rates(planned) for rate in epoch]
    sizes = [size for epoch in range(1, 7) for size in planned.epoch_batches(epoch)]
    for size, rate, after in zip(sizes, flat, flat[1:], strict=False):
        assert abs(after - rate) <= size * CONTINUOUS[lr_policy] * (1 + 1e-9)


@pytest.mark.parametrize("lr_policy", ["warm_restarts", "polynomial_restarts"])
def test_restarts_come_only_with_an_epoch(lr_policy: str) -> None:
    parameters = {"lr_policy": lr_policy, "batch_policy": "adabatch", "adabatch_exponent": 3}
    planned = plan(parameters, images=60, epochs=6, boundaries=[2, 3, 5])
    for epoch in rates(planned):
        assert epoch[0] == 1e-3
        assert all(later < earlier for earlier, later in pairwise(epoch))
        assert epoch[-1] > 1e-4


@pytest.mark.parametrize(
    "lr_policy",
    ["fixed", "exponential_decay", "one_cycle", "warm_restarts", "polynomial_restarts"],
)
def test_an_epoch_begins_with_the_same_rate_whatever_the_batch(lr_policy: str) -> None:
    constant = plan({"lr_policy": lr_policy, **CONSTANT}, images=60)
    parameters = {"lr_policy": lr_policy, "batch_policy": "adabatch", "adabatch_exponent": 2}
    growing = plan(parameters, images=60)
    for epoch in range(1, 5):
        assert growing.epoch_rates(epoch)[0] == constant.epoch_rates(epoch)[0]


def test_own_rates_of_a_trial_come_before_the_studys() -> None:
    own = {"lr_policy": "warm_restarts", **CONSTANT, "lr_max": 0.01, "lr_min": 0.002}
    planned = plan(own, lr_max=0.5, lr_min=1e-6)
    assert planned.epoch_rates(1)[0] == 0.01
    assert planned.epoch_rates(1)[2] == pytest.approx(0.006)
    shared = {"lr_policy": "warm_restarts", **CONSTANT}
    planned = plan(shared, lr_max=0.5, lr_min=0.1)
    assert planned.epoch_rates(1)[2] == pytest.approx(0.3)


def test_a_plan_holds_what_the_network_needs() -> None:
    definition = StudyDefinition.from_dict(
        {
            "name": "s",
            "network": "capsnet-narrow",
            "routing_gradient": "last",
            "shifts": False,
            "train_images": 100,
            "epochs": 7,
        }
    )
    parameters = TrialParameters.from_dict(
        {"lr_policy": "fixed", **CONSTANT, "decoder": "reduced", "weight_sharing": True}
    )
    planned = training_plan(definition, parameters)
    assert (planned.network, planned.decoder) == ("capsnet-narrow", Decoder.REDUCED)
    assert planned.weight_sharing is True
    assert planned.reconstruction_weight == 0.0005
    assert planned.routing_gradient is RoutingGradient.LAST
    assert (planned.samples, planned.epochs, planned.shifts) == (100, 7, False)


@pytest.mark.parametrize(
    ("decoder", "own", "expected"),
    [("full", None, 0.002), ("reduced", 0.0, 0.0), ("none", None, None)],
)
def test_the_reconstruction_weight_is_the_trials_or_the_studys(
    decoder: str, own: float | None, expected: float | None
) -> None:
    definition = StudyDefinition.from_dict(
        {"name": "s", "network": "capsnet-narrow", "reconstruction_weight": 0.002}
    )
    chosen = {"lr_policy": "fixed", **CONSTANT, "decoder": decoder, "weight_sharing": False}
    given = {} if own is None else {"reconstruction_weight": own}
    planned = training_plan(definition, TrialParameters.from_dict({**chosen, **given}))
    assert planned.reconstruction_weight == expected
