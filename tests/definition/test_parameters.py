"""One trial's parameters: typed, checked however they are built, and named in one word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import DefinitionError

FULL: dict[str, Any] = {
    "lr_policy": "one_cycle",
    "batch_policy": "constant",
    "decoder": "reduced",
    "weight_sharing": False,
    "reconstruction_weight": 0.0,
    "lr_max": 0.01,
    "lr_min": 0.001,
    "batch_size": 8,
    "epochs": 3,
    "decay_rate": 0.9,
    "decay_steps": 22,
    "cycle_epochs": 2,
    "cycle_growth": 3,
}


def test_parameters_survive_json() -> None:
    parameters = TrialParameters.from_dict(FULL)
    assert parameters == TrialParameters(
        lr_policy="one_cycle",
        batch_policy="constant",
        decoder=Decoder.REDUCED,
        weight_sharing=False,
        reconstruction_weight=0.0,
        lr_max=0.01,
        lr_min=0.001,
        batch_size=8,
        epochs=3,
        decay_rate=0.9,
        decay_steps=22,
        cycle_epochs=2,
        cycle_growth=3,
    )
    assert parameters.to_dict() == FULL
    assert TrialParameters.from_dict(json.loads(json.dumps(parameters.to_dict()))) == parameters


@pytest.mark.parametrize(
    ("values", "policy", "adapts"),
    [
        ({"lr_policy": "fixed", "batch_policy": "constant"}, "fixed", False),
        ({"lr_policy": "fixed", "batch_policy": "adabatch"}, "fixed+adabatch", True),
        ({"lr_policy": "one_cycle", "batch_policy": "adabatch"}, "one_cycle+adabatch", True),
        ({"lr_policy": "warm_adabatch"}, "warm_adabatch", True),
        (
            {"lr_policy": "polynomial_restarts", "batch_policy": "constant"},
            "polynomial_restarts",
            False,
        ),
    ],
)
def test_policy_in_one_word(values: dict[str, Any], policy: str, adapts: bool) -> None:
    parameters = TrialParameters.from_dict(values)
    assert (parameters.policy, parameters.adapts_batch) == (policy, adapts)


@pytest.mark.parametrize(
    ("values", "described"),
    [
        ({}, "one_cycle"),
        ({"batch_size": 65_536, "lr_max": 0.012345}, "one_cycle lr_max=0.0123 batch=65536"),
        (
            {"lr_policy": "exponential_decay", "decay_rate": 0.95, "decay_steps": 20_000},
            "exponential_decay decay_rate=0.95 decay_steps=20000",
        ),
        (
            {"lr_policy": "warm_restarts", "epochs": 12, "cycle_epochs": 2, "cycle_growth": 3},
            "warm_restarts cycle_epochs=2 cycle_growth=3 epochs=12",
        ),
    ],
)
def test_what_the_space_varies_is_told_beside_the_policy(
    values: dict[str, Any], described: str
) -> None:
    parameters = {"lr_policy": "one_cycle", "batch_policy": "constant", **values}
    assert TrialParameters.from_dict(parameters).described == described


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lr_policy": "cosine"}, 'got "cosine"'),
        ({"lr_policy": None}, "lr_policy: must be"),
        ({"adabatch_exponent": 11}, "must be a whole number from 0 to 10, got 11"),
        ({"lr_max": 0.0}, "lr_max: must be a number above 0 and at most 1, got 0.0"),
        ({"weight_sharing": 1}, "weight_sharing: must be true or false, got 1"),
        ({"epochs": 0}, "epochs: must be a whole number from 1 to 10000, got 0"),
        ({"decay_rate": 1.0}, "decay_rate: must be a number above 0 and at most 0.9999, got 1.0"),
        ({"cycle_growth": 1.5}, "cycle_growth: must be a whole number from 1 to 10, got 1.5"),
    ],
)
def test_parameters_are_checked_when_built(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        TrialParameters(**{**FULL, **changed})
    assert message in str(caught.value)
