"""Every key of a study file, each with the check of its value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastrcaps_search.data.shipped import DATA_SETS
from fastrcaps_search.definition import checks
from fastrcaps_search.definition.choices import EvaluateOn, Precision, RoutingGradient
from fastrcaps_search.definition.networks import NETWORKS
from fastrcaps_search.definition.objective import COMMON, OBJECTIVES
from fastrcaps_search.definition.parameters import (
    LARGEST_EPOCHS,
    TRIAL_PARAMETERS,
    TrialParameters,
)
from fastrcaps_search.definition.samplers import SAMPLERS
from fastrcaps_search.definition.space import Space
from fastrcaps_search.errors import DefinitionError

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
LARGEST_RUNS = 100
LARGEST_SEED = 2**31 - 1


def _name(value: object, key: str) -> str:
    name = checks.text(value, key)
    if not NAME_PATTERN.fullmatch(name):
        must = (
            "be 1 to 63 lower-case letters, digits, '.', '_' or '-', the first a letter or digit"
        )
        raise checks.wrong(value, key, must)
    return name


def _objectives(value: object, key: str) -> tuple[str, ...]:
    found: tuple[str, ...] = checks.list_of(checks.name_in(OBJECTIVES))(value, key)
    if found[: len(COMMON)] != COMMON:
        raise checks.wrong(value, key, f"begin with {', '.join(COMMON)}")
    for name in found[len(COMMON) :]:
        if OBJECTIVES[name].measure is None:
            raise DefinitionError(
                f"must be measured, got {name} without a way; the plug-in that brings it lacks it",
                key=key,
            )
    return found


def _boundaries(value: object, key: str) -> tuple[int, ...]:
    found: tuple[int, ...] = checks.list_of(checks.whole(1, LARGEST_EPOCHS))(value, key)
    if len(found) > 3 or list(found) != sorted(found):
        raise checks.wrong(value, key, "be one to three increasing epochs")
    return found


def _configurations(value: object, key: str) -> tuple[TrialParameters, ...]:
    tables = "be one or more [[configuration]] tables"
    if not isinstance(value, list) or not value:
        raise checks.wrong(value, key, tables)
    for item in value:
        if not isinstance(item, dict):
            raise DefinitionError(f"must {tables}, got one that is {checks.shown(item)}", key=key)
    found = tuple(
        TrialParameters.from_dict(item, prefix=f"configuration {index}: ")
        for index, item in enumerate(value, start=1)
    )
    if len(set(found)) != len(found):
        raise DefinitionError("must not list a configuration twice", key=key)
    return found


def _space(value: object, key: str) -> dict[str, Any]:
    """The table as it is: what it leaves out depends on the network."""
    found = checks.table(value, key)
    Space.from_dict(found)
    return found


def _as_of_a_trial(value: object, key: str) -> Any:  # noqa: ANN401  # of that key
    return TRIAL_PARAMETERS[key].check(value, key)


STUDY_CHECKS: dict[str, checks.Check] = {
    "name": _name,
    "network": checks.name_in(NETWORKS),
    "data_set": checks.one_of(DATA_SETS),
    "objectives": _objectives,
    "sampler": checks.name_in(SAMPLERS),
    "epochs": _as_of_a_trial,
    "evaluate_on": checks.one_of(EvaluateOn),
    "runs_per_trial": checks.whole(1, LARGEST_RUNS),
    "batch_size": _as_of_a_trial,
    "boundaries": _boundaries,
    "precision": checks.one_of(Precision),
    "train_images": checks.whole(1, 10_000_000),
    "shifts": checks.boolean,
    "lr_max": _as_of_a_trial,
    "lr_min": _as_of_a_trial,
    "decay_rate": _as_of_a_trial,
    "decay_steps": _as_of_a_trial,
    "cycle_epochs": _as_of_a_trial,
    "cycle_growth": _as_of_a_trial,
    "polynomial_power": checks.above_zero(10.0),
    "routing_gradient": checks.one_of(RoutingGradient),
    "min_accuracy": checks.above_zero(1.0),
    "reconstruction_weight": _as_of_a_trial,
    "space": _space,
    "configuration": _configurations,
}
"""Every key of a study file but ``extends``; the space stays a table."""

OPTIONAL_KEYS = ("train_images", "min_accuracy")
"""Keys whose absence means something of its own."""


def study_checks() -> dict[str, checks.Check]:
    """The same with the keys that plug-ins bring."""
    brought = {each.name: each.check for each in TRIAL_PARAMETERS if each.default is not None}
    return {**STUDY_CHECKS, **brought}


def checked_values(values: Mapping[str, Any], **more: checks.Check) -> dict[str, Any]:
    """The typed values of a study file, each checked by itself; the space stays a table.

    Args:
        values: By key.
        more: Checks of further keys.

    Raises:
        DefinitionError: An unknown key, or a value outside its range.
    """
    known = {**more, **study_checks()}
    for key in values:
        if key in TRIAL_PARAMETERS and key not in known:
            raise DefinitionError(f"must be a list of choices in [space]: {key} = [...]", key=key)
    checks.known_keys(values, known)
    return {key: known[key](value, key) for key, value in values.items()}
