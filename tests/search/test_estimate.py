"""Estimates worked out by hand."""

from __future__ import annotations

import math

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.estimate import (
    batch_sizes,
    compared_sizes,
    in_words,
    probed_sizes,
)
from fastrcaps_search.search.estimate import trial_seconds as of_networks
from fastrcaps_search.store.calibrations import StepSeconds, seconds_at


def trial_seconds(definition: StudyDefinition, steps: StepSeconds) -> float:
    return of_networks(definition, {"only": steps})


MEASURED = {1: 0.01, 10: 0.05, 100: 0.5}


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        (1, 0.01),
        (10, 0.05),
        (100, 0.5),
        (4, 0.01 + 0.04 * 3 / 9),
        (55, 0.05 + 0.45 * 45 / 90),
        (200, 1.0),  # in proportion above the largest
        (1000, 5.0),
    ],
)
def test_seconds_of_a_step_are_linear_between_measured_sizes(size: int, seconds: float) -> None:
    assert seconds_at(MEASURED, size) == pytest.approx(seconds)


def test_a_step_smaller_than_all_measured_ones_takes_as_long_as_the_smallest() -> None:
    assert seconds_at({16: 0.2, 8: 0.1}, 1) == 0.1


def study(**values: object) -> StudyDefinition:
    base = {
        "name": "s",
        "network": "lenet5",
        "train_images": 100,
        "epochs": 2,
        "boundaries": [1],
        "batch_size": 10,
    }
    return StudyDefinition.from_dict({**base, **values})


TWO = {"lr_policy": ["fixed"], "batch_policy": ["constant", "adabatch"], "adabatch_exponent": [1]}


def test_seconds_of_a_trial_are_a_mean_over_the_assignments() -> None:
    # Constant: 2 epochs of 10 steps at 0.05 s. AdaBatch: 100 steps at 0.01 s, then 50 of batch 2
    # at 0.01 + 0.04 / 9.
    constant = 2 * 10 * 0.05
    adabatch = 100 * 0.01 + 50 * (0.01 + 0.04 / 9)
    assert trial_seconds(study(space=TWO), MEASURED) == pytest.approx((constant + adabatch) / 2)
    three = study(space=TWO, runs_per_trial=3)
    assert trial_seconds(three, MEASURED) == pytest.approx(3 * (constant + adabatch) / 2)


def test_the_last_short_batch_counts_as_a_step() -> None:
    definition = study(space={**TWO, "batch_policy": ["constant"]}, train_images=101)
    assert trial_seconds(definition, MEASURED) == pytest.approx(2 * 11 * 0.05)


def test_a_continuous_space_and_a_list_are_estimated_too() -> None:
    definition = study(space={**TWO, "batch_policy": ["constant"], "lr_max": [1e-3, 1e-2]})
    assert trial_seconds(definition, MEASURED) == pytest.approx(1.0)
    listed = study(configuration=[{"lr_policy": "fixed", "batch_policy": "constant"}])
    assert trial_seconds(listed, MEASURED) == pytest.approx(1.0)


def test_a_trial_takes_as_long_as_its_epochs() -> None:
    # 10 steps of 0.05 s an epoch, 2 or 6 epochs: 1 s or 3 s.
    space = {**TWO, "batch_policy": ["constant"], "epochs": [2, 6]}
    definition = study(epochs=99, space=space)
    assert trial_seconds(definition, MEASURED) == pytest.approx(2.0)


def test_of_a_large_space_assignments_from_end_to_end_are_looked_at() -> None:
    # 3 * 700 of them, of which the first 500 are all of the first policy and of few epochs.
    space = {
        "lr_policy": ["fixed", "one_cycle", "warm_adabatch"],
        "batch_policy": ["constant"],
        "adabatch_exponent": [0],
        "epochs": list(range(2, 702)),
    }
    definition = study(space=space)
    # Constant: 0.5 s an epoch; WarmAdaBatch of P = 0: 100 steps of 0.01 s an epoch. 351.5 epochs.
    expected = 351.5 * (0.5 + 0.5 + 1.0) / 3
    assert trial_seconds(definition, MEASURED) == pytest.approx(expected, rel=0.01)


def test_policies_that_come_in_turns_are_all_looked_at() -> None:
    # 7 * 486 = 3,402 assignments, of which every 7th has the constant batch of 64, one step an
    # epoch. AdaBatch: 64 steps, then 64 / 2^P an epoch, 126 for the six P together.
    space = {
        "lr_policy": ["fixed"],
        "batch_policy": ["constant", "adabatch"],
        "adabatch_exponent": [0, 1, 2, 3, 4, 5],
        "epochs": list(range(2, 488)),
    }
    definition = study(train_images=64, batch_size=64, space=space)
    each_step = {64: 0.01}
    steps = (244.5 + 6 * 64 + 243.5 * 126) / 7
    assert trial_seconds(definition, each_step) == pytest.approx(0.01 * steps, rel=0.1)
    assert batch_sizes(definition) == [1, 2, 4, 8, 16, 32, 64]


def test_all_sizes_are_probed_and_the_smallest_a_middle_and_the_largest_compared() -> None:
    # Batches of 10, and of 1, 2^P and 2^(P+1) for P = 2, 3, 4: 1, 4, 8, 10, 16, 32.
    definition = study(epochs=3, boundaries=[1, 2], space={**TWO, "adabatch_exponent": [2, 3, 4]})
    assert batch_sizes(definition) == [1, 4, 8, 10, 16, 32]
    assert probed_sizes(batch_sizes(definition), on_cpu=True) == [1, 4, 8, 10, 16, 32]
    assert compared_sizes([1, 4, 8, 10, 16, 32]) == [1, 10, 32]
    assert compared_sizes([10]) == [10]
    assert compared_sizes([1, 2, 10]) == [1, 2, 10]


def test_of_many_sizes_some_from_end_to_end_are_probed() -> None:
    sizes = [1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 64]
    assert probed_sizes(sizes, on_cpu=True) == [1, 4, 8, 12, 20, 28, 64]
    assert probed_sizes([16], on_cpu=True) == [16]


def test_very_large_batches_are_probed_on_cards_alone() -> None:
    assert probed_sizes([1, 16, 256, 512], on_cpu=True) == [1, 16, 64]
    assert probed_sizes([256, 512], on_cpu=True) == [64]
    assert probed_sizes([1, 16, 256, 512, 4096], on_cpu=False) == [1, 16, 256, 512, 1024]


def test_each_network_has_its_own_steps() -> None:
    # 2 epochs of 10 steps: 0.2 s with the full decoder, 0.4 s with the reduced one.
    space = {**TWO, "batch_policy": ["constant"], "decoder": ["full", "reduced"]}
    definition = study(network="capsnet-narrow", space={**space, "weight_sharing": [False]})
    measured = {"full-own": {10: 0.01}, "reduced-own": {10: 0.02}}
    assert of_networks(definition, measured) == pytest.approx(0.3)


def test_the_seconds_weigh_each_batch_size_by_its_share_of_the_study() -> None:
    # As above: 200 images take 1 s in batches of 10, or 1 s for the first 100 in batches of 1 and
    # 50 steps of batch 2 for the others.
    seconds = (2 * 10 * 0.05 + 100 * 0.01 + 50 * (0.01 + 0.04 / 9)) / 2
    definition = study(space=TWO)
    assert trial_seconds(definition, MEASURED) == pytest.approx(seconds)
    repeated = study(space=TWO, runs_per_trial=5)
    assert trial_seconds(repeated, MEASURED) == pytest.approx(5 * seconds)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "about 10 s"),
        (4.0, "about 10 s"),
        (16.0, "about 20 s"),
        (44.0, "about 40 s"),
        (89.9, "about 90 s"),
        (90.1, "about 2 min"),
        (290.0, "about 5 min"),
        (45 * 60.0, "about 45 min"),
        (5399.0, "about 90 min"),
        (5401.0, "about 2 h"),
        (10 * 3600.0, "about 10 h"),
        (47.9 * 3600, "about 48 h"),
        (48.1 * 3600, "about 2 days"),
        (10.2 * 86_400, "about 10 days"),
        # Of a step that was measured as infinitely long.
        (math.inf, "for an unknown time"),
        (math.nan, "for an unknown time"),
    ],
)
def test_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
