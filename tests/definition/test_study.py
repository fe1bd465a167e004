"""Definitions: checked however they are built, and the same after a trip through JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrcaps_search.data.data_set import DataSet
from fastrcaps_search.data.shipped import FASHION_MNIST, MNIST, MNIST_MINI
from fastrcaps_search.definition.choices import (
    Decoder,
    EvaluateOn,
)
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.space import Space
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DefinitionError

FIXED = TrialParameters(
    lr_policy="fixed",
    batch_policy="constant",
    decoder=Decoder.FULL,
    weight_sharing=False,
)
SPACE = Space(
    lr_policy=("fixed",),
    batch_policy=("constant",),
    adabatch_exponent=(2,),
    decoder=(Decoder.FULL,),
    weight_sharing=(False,),
)


def some(values: list[Any]) -> st.SearchStrategy[list[Any]]:
    """At least one of the values, none twice."""
    return st.lists(st.sampled_from(values), min_size=1, unique=True)


def spaces(*, has_capsules: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Spaces as study files write them."""
    capsules = {
        "decoder": some(["reduced", "none"]).map(lambda chosen: ["full", *chosen]),
        "reconstruction_weight": st.sampled_from([[1e-5, 1e-3], [0.0, 1e-4, 0.01], [0.002]]),
        "weight_sharing": some([False, True]),
    }
    return st.fixed_dictionaries(
        {
            # The last one uses the lower rate, and not all of them adapt the batch.
            "lr_policy": some(["fixed", "warm_adabatch", "exponential_decay"]).map(
                lambda chosen: [*chosen, "one_cycle"]
            )
        },
        optional={
            "batch_policy": some(["adabatch"]).map(lambda chosen: ["constant", *chosen]),
            "adabatch_exponent": some(list(range(11))),
            "lr_max": st.tuples(st.floats(2e-3, 1e-2), st.floats(2e-2, 1.0, exclude_min=True)).map(
                list
            ),
            "lr_min": st.tuples(st.floats(1e-9, 1e-6), st.floats(2e-6, 9e-4)).map(list),
            "batch_size": some([1, 2, 3, 50, 100]),
            "epochs": some([1, 2, 7, 10_000]),
            **(capsules if has_capsules else {}),
        },
    )


@st.composite
def study_files(draw: st.DrawFn) -> dict[str, Any]:
    """Contents of valid study files that search."""
    network = draw(st.sampled_from(["capsnet", "capsnet-narrow", "lenet5"]))
    capsules = network != "lenet5"
    file: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {
                "name": st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True),
                "network": st.just(network),
            },
            optional={
                "data_set": st.sampled_from(["mnist", "fashion-mnist", "mnist-mini"]),
                "epochs": st.integers(1, 10_000),
                "evaluate_on": st.sampled_from(["validation", "test"]),
                "runs_per_trial": st.integers(1, 100),
                "batch_size": st.integers(1, 100),
                "boundaries": st.lists(
                    st.integers(1, 10_000), min_size=1, max_size=3, unique=True
                ).map(sorted),
                "precision": st.just("fp32"),
                "sampler": st.sampled_from(["tpe", "random"]),
                "train_images": st.integers(100, 4000),
                "shifts": st.booleans(),
                "lr_max": st.floats(1e-3, 1.0),
                "lr_min": st.floats(1e-9, 9e-4),
                "decay_rate": st.floats(0.01, 0.9999),
                "decay_steps": st.integers(1, 10_000_000),
                "cycle_epochs": st.integers(1, 10_000),
                "cycle_growth": st.integers(1, 10),
                "polynomial_power": st.floats(0.1, 10.0),
                "min_accuracy": st.floats(0.01, 1.0),
                "space": spaces(has_capsules=capsules),
                "routing_gradient": st.sampled_from(["full", "last"] if capsules else ["full"]),
                "reconstruction_weight": st.floats(0, 1) if capsules else st.just(0.0005),
            },
        )
    )
    # Refused in one file; see test_load.
    both = set(file) & set(file.get("space", {})) - {"batch_size"}
    return {key: value for key, value in file.items() if key not in both}


@given(study_files())
def test_a_definition_survives_json(file: dict[str, Any]) -> None:
    definition = StudyDefinition.from_dict(file)
    values = definition.to_dict()
    again = StudyDefinition.from_dict(json.loads(json.dumps(values)))
    assert again == definition
    assert hash(again) == hash(definition)
    assert again.to_dict() == values
    for key, value in file.items():
        shown = values[key]
        assert (shown | value if key == "space" else value) == shown


CONFIGURATION = st.sampled_from(
    [
        {"lr_policy": "fixed", "batch_policy": "constant"},
        {"lr_policy": "fixed", "batch_policy": "constant", "batch_size": 8, "lr_max": 0.5},
        {"lr_policy": "one_cycle", "batch_policy": "constant", "lr_min": 1e-5},
        {
            "lr_policy": "exponential_decay",
            "batch_policy": "constant",
            "decay_rate": 0.5,
            "decay_steps": 22,
        },
        {
            "lr_policy": "warm_restarts",
            "batch_policy": "constant",
            "epochs": 7,
            "cycle_epochs": 2,
            "cycle_growth": 3,
        },
        {"lr_policy": "exponential_decay", "batch_policy": "adabatch", "adabatch_exponent": 0},
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 10},
    ]
)


@given(st.lists(CONFIGURATION, min_size=1, max_size=5, unique_by=str))
def test_listed_configurations_survive_json(configurations: list[dict[str, Any]]) -> None:
    file = {"name": "s", "network": "lenet5", "configuration": configurations}
    definition = StudyDefinition.from_dict(file)
    values = definition.to_dict()
    assert values["configuration"] == configurations
    assert values["space"] is None
    assert StudyDefinition.from_dict(json.loads(json.dumps(values))) == definition
    assert [p.to_dict() for p in definition.assignments()] == configurations


def test_a_definition_cannot_be_changed() -> None:
    definition = StudyDefinition(name="s", configurations=(FIXED,))
    with pytest.raises(FrozenInstanceError):
        definition.epochs = 3  # type: ignore[misc]  # what is tested


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": 0}, "epochs: must be a whole number from 1 to 10000, got 0"),
        ({"epochs": True}, "epochs: must be a whole number from 1 to 10000, got true"),
        ({"epochs": None}, "epochs: must be a whole number from 1 to 10000, got None"),
        ({"name": "A"}, 'got "A"'),
        ({"boundaries": (3, 2)}, "must be one to three increasing epochs, got [3, 2]"),
        ({"data_set": "cifar10"}, 'got "cifar10"'),
        ({"lr_max": float("nan")}, "lr_max: must be a number above 0 and at most 1, got nan"),
        ({"train_images": -1}, "train_images: must be a whole number from 1 to 10000000, got -1"),
        ({"configurations": ()}, "a list of [[configuration]], got neither"),
        ({"space": SPACE}, "a list of [[configuration]], got both"),
    ],
)
def test_a_definition_is_checked_when_built_from_python(
    changed: dict[str, Any], message: str
) -> None:
    definition = StudyDefinition(name="s", configurations=(FIXED,))
    with pytest.raises(DefinitionError) as caught:
        replace(definition, **changed)
    assert message in str(caught.value)


def test_words_become_members_of_their_sets() -> None:
    definition = StudyDefinition(
        name="s",
        network="capsnet",
        boundaries=[3],  # type: ignore[arg-type]  # what is tested
        configurations=(FIXED,),
    )
    assert definition.network == "capsnet"
    assert definition.boundaries == (3,)


def test_capsules_need_their_choices() -> None:
    with pytest.raises(DefinitionError, match=r"^space\.decoder: must be given for capsnet$"):
        StudyDefinition(name="s", space=replace(SPACE, decoder=None))
    assert StudyDefinition(name="s", space=SPACE).space == SPACE


@pytest.mark.parametrize(
    ("data_set", "evaluate_on", "train_images", "size"),
    [
        (MNIST, EvaluateOn.VALIDATION, None, 55_000),
        (MNIST, EvaluateOn.TEST, None, 60_000),
        (FASHION_MNIST, EvaluateOn.VALIDATION, None, 55_000),
        (MNIST_MINI, EvaluateOn.VALIDATION, None, 4_000),
        (MNIST_MINI, EvaluateOn.TEST, None, 4_500),
        (MNIST, EvaluateOn.VALIDATION, 4_999, 4_999),
        (MNIST, EvaluateOn.VALIDATION, 55_000, 55_000),
    ],
)
def test_split_size(
    data_set: DataSet, evaluate_on: EvaluateOn, train_images: int | None, size: int
) -> None:
    definition = StudyDefinition(
        name="s",
        data_set=data_set,
        evaluate_on=evaluate_on,
        train_images=train_images,
        configurations=(FIXED,),
    )
    assert definition.split_size == size


@pytest.mark.parametrize(
    ("epochs", "remaining"),
    [(1, ()), (3, ()), (4, (3,)), (8, (3,)), (9, (3, 8)), (13, (3, 8)), (14, (3, 8, 13))],
)
def test_boundaries_at_and_beyond_the_last_epoch_never_come(
    epochs: int, remaining: tuple[int, ...]
) -> None:
    definition = StudyDefinition(name="s", epochs=epochs, configurations=(FIXED,))
    assert definition.boundaries_within() == remaining


def test_epochs_are_the_trials_own_or_the_studys() -> None:
    definition = StudyDefinition(name="s", epochs=12, space=replace(SPACE, epochs=(9, 3)))
    assert (definition.offered_epochs, definition.epochs_shown) == ((3, 9), "3 to 9")
    assert definition.epochs_of(replace(FIXED, epochs=9)) == 9
    assert [definition.boundaries_within(epochs) for epochs in (3, 9)] == [(), (3, 8)]
    listed = StudyDefinition(name="s", epochs=12, configurations=(FIXED, replace(FIXED, epochs=4)))
    assert (listed.offered_epochs, listed.epochs_shown) == ((4, 12), "4 to 12")
    assert listed.epochs_of(FIXED) == 12
    alone = StudyDefinition(name="s", epochs=12, configurations=(FIXED,))
    assert (alone.offered_epochs, alone.epochs_shown) == ((12,), "12")


def test_own_rates_of_a_configuration_count_instead_of_the_studys() -> None:
    one_cycle = replace(FIXED, lr_policy="one_cycle", lr_min=1e-6)
    definition = StudyDefinition(name="s", lr_max=5e-5, configurations=(one_cycle,))
    assert definition.configurations == (one_cycle,)
    low = replace(FIXED, lr_max=1e-5)  # no lower rate, so the study's does not matter
    assert StudyDefinition(name="s", configurations=(low,)).configurations == (low,)


def test_a_lower_rate_that_no_policy_uses_is_not_compared() -> None:
    assert StudyDefinition(name="s", lr_max=1e-5, space=SPACE).lr_max == 1e-5
