"""The assignments of a space, against lists written out by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.definition.space import Space
from fastrcaps_search.errors import DefinitionError

SMALL: dict[str, Any] = {
    "lr_policy": ["fixed", "warm_adabatch"],
    "batch_policy": ["constant", "adabatch"],
    "adabatch_exponent": [2, 5],
}


def assignments(
    space: Space, *, grows: bool, rates: dict[str, float] | None = None
) -> list[dict[str, Any]]:
    found = space.parameters(boundaries_within=lambda _: (3,) if grows else (), rates=rates)
    return [parameters.to_dict() for parameters in found]


def test_each_parameter_stands_only_where_it_applies() -> None:
    fixed, warm = {"lr_policy": "fixed"}, {"lr_policy": "warm_adabatch"}
    assert assignments(Space.from_dict(SMALL), grows=True) == [
        {**fixed, "batch_policy": "constant"},
        {**fixed, "batch_policy": "adabatch", "adabatch_exponent": 2},
        {**fixed, "batch_policy": "adabatch", "adabatch_exponent": 5},
        {**warm, "adabatch_exponent": 2},
        {**warm, "adabatch_exponent": 5},
    ]


def test_the_exponent_is_not_asked_where_no_boundary_remains() -> None:
    assert assignments(Space.from_dict(SMALL), grows=False) == [
        {"lr_policy": "fixed", "batch_policy": "constant"},
        {"lr_policy": "fixed", "batch_policy": "adabatch"},
        {"lr_policy": "warm_adabatch"},
    ]


def test_batch_sizes_belong_to_the_constant_batch() -> None:
    space = Space.from_dict({**SMALL, "adabatch_exponent": [3], "batch_size": [8, 32]})
    fixed = {"lr_policy": "fixed"}
    assert assignments(space, grows=True) == [
        {**fixed, "batch_policy": "constant", "batch_size": 8},
        {**fixed, "batch_policy": "constant", "batch_size": 32},
        {**fixed, "batch_policy": "adabatch", "adabatch_exponent": 3},
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 3},
    ]


def test_capsule_choices_multiply() -> None:
    space = Space.from_dict(
        {
            "lr_policy": ["fixed"],
            "batch_policy": ["constant"],
            "decoder": ["full", "reduced"],
            "weight_sharing": [False, True],
        }
    )
    found = [
        (p.decoder, p.weight_sharing) for p in space.parameters(boundaries_within=lambda _: (3,))
    ]
    assert found == list(product([Decoder.FULL, Decoder.REDUCED], [False, True]))


def test_the_reconstruction_weight_is_asked_where_there_is_a_decoder() -> None:
    capsules = {"decoder": ["full", "none"], "weight_sharing": [False]}
    one = {"lr_policy": ["fixed"], "batch_policy": ["constant"], **capsules}
    space = Space.from_dict({**one, "reconstruction_weight": [0, 0.0005, 0.005]})
    assert space.is_finite
    asked = space.parameters(boundaries_within=lambda _: (3,))
    found = [(p.decoder, p.reconstruction_weight) for p in asked]
    full = [(Decoder.FULL, weight) for weight in (0.0, 0.0005, 0.005)]
    assert found == [*full, (Decoder.NONE, None)]


def test_no_decoder_is_a_choice_that_must_be_named() -> None:
    assert TRIAL_PARAMETERS["decoder"].choices == (Decoder.FULL, Decoder.REDUCED)
    assert Space.from_dict({**SMALL, "decoder": ["none"]}).decoder == (Decoder.NONE,)


def test_rates_are_given_only_to_policies_that_use_them() -> None:
    space = Space.from_dict(
        {**SMALL, "batch_policy": ["constant"], "adabatch_exponent": [2], "lr_min": [1e-5, 1e-4]}
    )
    assert not space.is_finite
    assert assignments(space, grows=True, rates={"lr_max": 0.1, "lr_min": 0.01}) == [
        {"lr_policy": "fixed", "batch_policy": "constant", "lr_max": 0.1},
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 2, "lr_max": 0.1, "lr_min": 0.01},
    ]


def test_what_shapes_a_curve_is_given_only_to_policies_that_use_it() -> None:
    space = Space.from_dict(
        {
            "lr_policy": ["fixed", "exponential_decay", "warm_restarts", "warm_adabatch"],
            "batch_policy": ["constant"],
            "adabatch_exponent": [2],
            "decay_steps": [22, 2000],
            "cycle_epochs": [1, 2],
            "cycle_growth": [3],
        }
    )
    assert space.is_finite
    constant = {"batch_policy": "constant"}
    assert assignments(space, grows=True) == [
        {"lr_policy": "fixed", **constant},
        {"lr_policy": "exponential_decay", **constant, "decay_steps": 22},
        {"lr_policy": "exponential_decay", **constant, "decay_steps": 2000},
        {"lr_policy": "warm_restarts", **constant, "cycle_epochs": 1, "cycle_growth": 3},
        {"lr_policy": "warm_restarts", **constant, "cycle_epochs": 2, "cycle_growth": 3},
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 2},
    ]


def test_a_range_of_decay_rates_is_continuous() -> None:
    space = Space.from_dict(
        {
            "lr_policy": ["fixed", "exponential_decay"],
            "batch_policy": ["constant"],
            "decay_rate": [0.5, 0.9],
        }
    )
    assert not space.is_finite
    assert assignments(space, grows=True, rates={"decay_rate": 0.6}) == [
        {"lr_policy": "fixed", "batch_policy": "constant"},
        {"lr_policy": "exponential_decay", "batch_policy": "constant", "decay_rate": 0.6},
    ]


def test_the_exponent_is_asked_where_a_boundary_remains_within_the_trials_epochs() -> None:
    space = Space.from_dict({**SMALL, "epochs": [3, 4], "adabatch_exponent": [2]})
    found = space.parameters(boundaries_within=lambda epochs: (3,) if epochs == 4 else ())
    assert [parameters.to_dict() for parameters in found] == [
        {"lr_policy": "fixed", "batch_policy": "constant", "epochs": 3},
        {"lr_policy": "fixed", "batch_policy": "adabatch", "epochs": 3},
        {"lr_policy": "fixed", "batch_policy": "constant", "epochs": 4},
        {"lr_policy": "fixed", "batch_policy": "adabatch", "adabatch_exponent": 2, "epochs": 4},
        {"lr_policy": "warm_adabatch", "epochs": 3},
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 2, "epochs": 4},
    ]


def test_what_is_left_out_is_as_in_the_shipped_study() -> None:
    space = Space.from_dict({})
    assert "polynomial_restarts" not in space.lr_policy
    assert len(space.lr_policy) == 5
    assert space.batch_policy == ("constant", "adabatch")
    assert space.adabatch_exponent == (2, 3, 4, 5, 6, 7)
    assert space.is_finite


def test_a_space_is_checked_when_built_from_python() -> None:
    with pytest.raises(DefinitionError, match=r"^space\.lr_policy: must offer at least one"):
        Space(lr_policy=(), batch_policy=("constant",), adabatch_exponent=(2,))
    with pytest.raises(DefinitionError, match=r"^space\.adabatch_exponent: .* 0 to 10, got 11$"):
        Space(
            lr_policy=("fixed",),
            batch_policy=("constant",),
            adabatch_exponent=(11,),
        )
    with pytest.raises(DefinitionError, match=r"^space\.lr_max: must rise from lowest to highest"):
        Space(
            lr_policy=("fixed",),
            batch_policy=("constant",),
            adabatch_exponent=(2,),
            lr_max=(0.1, 0.01),
        )
