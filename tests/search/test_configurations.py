"""Which assignments are the same training: counts by hand, and every step written out."""

from __future__ import annotations

import hashlib
import math
from itertools import combinations
from typing import Any

import pytest

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.configurations import (
    configuration_count,
    configuration_key,
    configurations,
)

LR_POLICIES = [
    "fixed",
    "exponential_decay",
    "one_cycle",
    "warm_restarts",
    "warm_adabatch",
    "polynomial_restarts",
]


def study(**values: object) -> StudyDefinition:
    """A LeNet5 study of 40 images in batches of 8."""
    base = {"name": "s", "network": "lenet5", "train_images": 40, "batch_size": 8}
    return StudyDefinition.from_dict({**base, **values})


def key(definition: StudyDefinition, **parameters: object) -> str:
    return configuration_key(definition, TrialParameters.from_dict(parameters))


COUNTS = [
    # Four policies other than warm_adabatch, each with a constant batch or AdaBatch of six P,
    # and warm_adabatch of six P: 4 * (1 + 6) + 6 = 34; times two decoders and two kinds of
    # weights: 136.
    ("mnist", 136),
    ("fashion-mnist", 136),
    # The same with three P: (4 * (1 + 3) + 3) * 4 = 76.
    ("mnist-mini", 76),
    ("paper-mnist", 8),
    ("paper-fashion-mnist", 8),
    ("paper-lenet5", 5),
]


@pytest.mark.parametrize(("name", "count"), COUNTS)
def test_shipped_studies(name: str, count: int) -> None:
    definition = load_study(name)
    assert configuration_count(definition) == count
    assert len(set(configurations(definition).values())) == count


def test_a_continuous_space_is_not_counted() -> None:
    definition = study(space={"lr_max": [1e-3, 1e-2]})
    assert configuration_count(definition) is None
    with pytest.raises(ValueError, match="continuous space cannot be listed"):
        configurations(definition)


def test_listed_configurations_keep_their_order() -> None:
    listed = [{"lr_policy": name, "batch_policy": "constant"} for name in ("one_cycle", "fixed")]
    found = configurations(study(configuration=listed))
    assert [parameters.to_dict() for parameters in found.values()] == listed


def test_the_exponent_does_not_count_where_no_boundary_remains() -> None:
    # Three policies, each constant or adabatch of batch 1, and warm_adabatch of batch 1, which
    # with a single epoch is one cycle: the same as warm_restarts with adabatch. 2 * 3 = 6.
    definition = study(
        epochs=1, space={"lr_policy": ["fixed", "one_cycle", "warm_restarts", "warm_adabatch"]}
    )
    assert len(list(definition.assignments())) == 7
    assert configuration_count(definition) == 6
    assert key(definition, lr_policy="warm_adabatch") == key(
        definition, lr_policy="warm_restarts", batch_policy="adabatch"
    )


def test_two_epochs_around_a_boundary_are_the_same_with_restarts_and_warm_adabatch() -> None:
    definition = study(epochs=2, boundaries=[1])
    for exponent in (0, 3):
        assert key(definition, lr_policy="warm_adabatch", adabatch_exponent=exponent) == key(
            definition,
            lr_policy="warm_restarts",
            batch_policy="adabatch",
            adabatch_exponent=exponent,
        )
    three = study(epochs=3, boundaries=[1])
    assert key(three, lr_policy="warm_adabatch", adabatch_exponent=3) != key(
        three, lr_policy="warm_restarts", batch_policy="adabatch", adabatch_exponent=3
    )


def test_batches_larger_than_the_split_are_the_same() -> None:
    definition = study(epochs=3, boundaries=[1])
    adabatch = {"lr_policy": "one_cycle", "batch_policy": "adabatch"}
    keys = [key(definition, **adabatch, adabatch_exponent=p) for p in (4, 5, 6, 7)]
    # Of 40 images 2^6 and 2^7 are both all of them.
    assert len(set(keys)) == 3
    assert keys[2] == keys[3]


def test_a_constant_batch_of_one_is_adabatch_without_a_boundary() -> None:
    definition = study(epochs=3, boundaries=[3])
    for policy in ("fixed", "one_cycle", "warm_restarts"):
        assert key(definition, lr_policy=policy, batch_policy="adabatch") == key(
            definition, lr_policy=policy, batch_policy="constant", batch_size=1
        )
    # A decay is counted in steps of the trial's own constant batch.
    assert key(definition, lr_policy="exponential_decay", batch_policy="adabatch") != key(
        definition, lr_policy="exponential_decay", batch_policy="constant", batch_size=1
    )


def test_the_studys_own_batch_size_is_the_same_named_or_not() -> None:
    definition = study()
    fixed = {"lr_policy": "fixed", "batch_policy": "constant"}
    assert key(definition, **fixed) == key(definition, **fixed, batch_size=8)
    assert key(definition, **fixed) == key(definition, **fixed, lr_max=1e-3)
    assert key(definition, **fixed) != key(definition, **fixed, lr_max=2e-3)


def test_lengths_decays_and_cycles_multiply_only_where_they_apply() -> None:
    # For each of two and four epochs: fixed 1; decay 2; restarts 1, 2 and, of four epochs, cycles
    # of 1, 2 and of 1, 2, 4 (cut short), of 2 and of 2, 4 (cut short): 4, but of two epochs those
    # of two are the same: 3; one boundary below four epochs: 2 of P there, 1 below two.
    space = {
        "lr_policy": ["fixed", "exponential_decay", "warm_restarts", "warm_adabatch"],
        "batch_policy": ["constant"],
        "adabatch_exponent": [1, 2],
        "epochs": [2, 4],
        "decay_steps": [22, 2000],
        "cycle_epochs": [1, 2],
        "cycle_growth": [1, 2],
    }
    definition = study(boundaries=[3], train_images=400, space=space)
    assert configuration_count(definition) == (1 + 2 + 3 + 1) + (1 + 2 + 4 + 2)


def test_different_networks_are_different_trainings() -> None:
    definition = study(network="capsnet-narrow")
    fixed = {"lr_policy": "fixed", "batch_policy": "constant"}
    keys = {
        key(definition, **fixed, decoder=decoder, weight_sharing=sharing)
        for decoder in ("full", "reduced")
        for sharing in (False, True)
    }
    assert len(keys) == 4


def test_the_reconstruction_weight_tells_trainings_apart() -> None:
    fixed = {"lr_policy": "fixed", "batch_policy": "constant", "weight_sharing": False}
    definitions = [
        study(network="capsnet-narrow", reconstruction_weight=weight) for weight in (0.0005, 0.01)
    ]
    for decoder, keys in (("full", 2), ("reduced", 2), ("none", 1)):
        # Without a decoder the weight says nothing.
        assert len({key(each, **fixed, decoder=decoder) for each in definitions}) == keys
    named = key(definitions[0], **fixed, decoder="full", reconstruction_weight=0.01)
    assert named == key(definitions[1], **fixed, decoder="full")


def test_weights_are_counted_where_there_is_a_decoder() -> None:
    space = {
        "lr_policy": ["fixed"],
        "batch_policy": ["constant"],
        "decoder": ["full", "none"],
        "reconstruction_weight": [0, 0.0005, 0.005],
    }
    # Three with a decoder and one without, times two kinds of weights.
    assert configuration_count(study(network="capsnet-narrow", space=space)) == 8


def test_epochs_of_one_step_do_not_tell_restarts_from_a_fixed_rate() -> None:
    definition = study(epochs=3, batch_size=40)
    constant = {"batch_policy": "constant"}
    fixed = key(definition, lr_policy="fixed", **constant)
    assert key(definition, lr_policy="warm_restarts", **constant) == fixed
    assert key(definition, lr_policy="polynomial_restarts", **constant, lr_min=1e-5) == fixed
    assert key(definition, lr_policy="one_cycle", **constant) != fixed


Course = list[tuple[int, float]]


def rate_of(
    parameters: dict[str, Any], *, seen: int, unit: int, images: int, phases: list[int]
) -> float:
    """The rate after ``seen`` samples between 1e-4 and 1e-3, from the formulas."""
    policy, total = parameters["lr_policy"], sum(phases)
    first, growth = parameters.get("cycle_epochs", 1), parameters.get("cycle_growth", 1)
    cycles = [images * first * growth**k for k in range(total // images)]
    lengths = phases if policy == "warm_adabatch" else cycles
    start = 0
    for length in lengths:
        if seen < start + length:
            break
        start += length
    t = (seen - start) / length
    share = seen / total
    if policy == "fixed":
        return 1e-3
    if policy == "exponential_decay":
        steps = parameters.get("decay_steps", 2000)
        return 1e-3 * math.exp(math.log(0.96) * seen / unit / steps)
    if policy == "polynomial_restarts":
        return 1e-4 + 9e-4 * (1 - t) ** 2
    if policy == "one_cycle":
        return float(
            1e-4 + 9e-4 * share / 0.45
            if share < 0.45
            else 1e-3 - 9e-4 * (share - 0.45) / 0.45
            if share < 0.9
            else 1e-4 - 9e-5 * (share - 0.9) / 0.1
        )
    return 1e-4 + 4.5e-4 * (1 + math.cos(math.pi * t))


def course(
    parameters: dict[str, Any], *, images: int, epochs: int, boundaries: list[int]
) -> Course:
    """Size and rate of every step, one after the other."""
    policy, exponent = parameters["lr_policy"], parameters.get("adabatch_exponent")
    epochs = parameters.get("epochs", epochs)
    warm = policy == "warm_adabatch"
    adapts = warm or parameters["batch_policy"] == "adabatch"
    passed = [b for b in boundaries if b < epochs]
    ends = passed[:1] if warm else passed
    phases = [passed[0] * images, (epochs - passed[0]) * images] if passed else [epochs * images]
    steps: Course = []
    for epoch in range(1, epochs + 1):
        growths = len([b for b in ends if epoch > b])
        size = 1 if growths == 0 else 2 ** ((exponent or 0) + growths - 1)
        if not adapts:
            size = parameters.get("batch_size", 8)
        done = 0
        while done < images:
            batch = min(size, images - done)
            unit = parameters.get("batch_size", 8)
            seen = (epoch - 1) * images + done
            rate = rate_of(parameters, seen=seen, unit=unit, images=images, phases=phases)
            steps.append((batch, float(f"{rate:.11g}")))
            done += batch
    return steps


SPACE = {
    "lr_policy": LR_POLICIES,
    "batch_size": [1, 2, 4, 8],
    "adabatch_exponent": [0, 1, 2, 3, 4],
}


LENGTHS = {
    "lr_policy": ["exponential_decay", "warm_restarts", "warm_adabatch", "polynomial_restarts"],
    "adabatch_exponent": [0, 2],
    "epochs": [1, 2, 3, 5],
    "decay_steps": [1, 2000],
    "cycle_epochs": [1, 2, 5],
    "cycle_growth": [1, 2],
}


@pytest.mark.parametrize(
    ("space", "images", "epochs", "boundaries", "some_coincide"),
    [
        (SPACE, 8, 1, [1], True),
        (SPACE, 8, 2, [1], True),
        (SPACE, 8, 3, [1, 2], True),
        (SPACE, 9, 4, [1, 2, 3], False),
        (SPACE, 10, 3, [2], True),
        (SPACE, 12, 2, [3], True),
        (SPACE, 25, 4, [1, 3], False),
        (LENGTHS, 9, 30, [1], True),
        (LENGTHS, 25, 30, [2, 3], True),
        (LENGTHS, 80, 30, [2], True),
    ],
)
def test_keys_are_equal_exactly_where_every_step_is(
    space: dict[str, Any], images: int, epochs: int, boundaries: list[int], some_coincide: bool
) -> None:
    definition = study(train_images=images, epochs=epochs, boundaries=boundaries, space=space)
    found = []
    for assignment in definition.assignments():
        parameters = assignment.to_dict()
        steps = course(parameters, images=images, epochs=epochs, boundaries=boundaries)
        found.append((parameters, key(definition, **parameters), steps))
    for (left, left_key, left_steps), (right, right_key, right_steps) in combinations(found, 2):
        assert (left_key == right_key) == (left_steps == right_steps), (left, right)
    distinct = {str(steps) for *_, steps in found}
    assert configuration_count(definition) == len(distinct)
    assert (len(distinct) < len(found)) == some_coincide


def test_a_key_never_changes() -> None:
    """Else a study that goes on would train its configurations again."""
    text = (
        '{"batch_sizes": [1, 8], "decoder": null, "network": "lenet5", "precision": "fp32", '
        '"rates": [[["constant", 0.0, 80.0, 0.001, 0.001, 0.0]], '
        "[0.001, 0.001, 0.001, 0.001, 0.001]], "
        '"reconstruction_weight": null, "routing_gradient": "full", "samples": 40, '
        '"shifts": true, "weight_sharing": null}'
    )
    adabatch = {"lr_policy": "fixed", "batch_policy": "adabatch", "adabatch_exponent": 3}
    found = key(study(epochs=2, boundaries=[1]), **adabatch)
    assert found == hashlib.sha256(text.encode()).hexdigest()
