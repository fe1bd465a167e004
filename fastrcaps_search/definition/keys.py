"""Every key of a study file, each with the check of its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from fastrcaps_search.data.shipped import DATA_SETS
from fastrcaps_search.definition import checks
from fastrcaps_search.definition.choices import (
    EarlyStopping,
    EvaluateOn,
    Network,
    Precision,
    RoutingGradient,
)
from fastrcaps_search.definition.parameters import (
    LARGEST_EPOCHS,
    PARAMETER_CHECKS,
    TrialParameters,
    above_zero,
    whole,
)
from fastrcaps_search.definition.space import Space
from fastrcaps_search.errors import DefinitionError

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
LARGEST_RUNS = 100
LARGEST_SEED = 2**31 - 1


def _name(value: object, key: str) -> str:
    name = checks.text(value, key)
    if not NAME_PATTERN.fullmatch(name):
        raise DefinitionError(
            "must be 1 to 63 lower-case letters, digits, '.', '_' or '-', the first a letter or "
            f"digit, got {checks.shown(name)}",
            key=key,
        )
    return name


def _boundaries(value: object, key: str) -> tuple[int, ...]:
    found = checks.choices(value, key, whole(1, LARGEST_EPOCHS))
    if len(found) > 3 or list(found) != sorted(found):
        raise DefinitionError(
            f"must be one to three increasing epochs, got {checks.shown(value)}", key=key
        )
    return found


def _configurations(value: object, key: str) -> tuple[TrialParameters, ...]:
    if not isinstance(value, list) or not value:
        raise DefinitionError(
            f"must be one or more [[configuration]] tables, got {checks.shown(value)}", key=key
        )
    found = tuple(
        TrialParameters.from_dict(_configuration(item, key), prefix=f"configuration {index}: ")
        for index, item in enumerate(value, start=1)
    )
    if len(set(found)) != len(found):
        raise DefinitionError("must not list a configuration twice", key=key)
    return found


def _configuration(value: object, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DefinitionError(
            f"must be one or more [[configuration]] tables, got one that is {checks.shown(value)}",
            key=key,
        )
    return value


def _space(value: object, key: str) -> dict[str, Any]:
    """The table as it is: what it leaves out depends on the network."""
    found = checks.table(value, key)
    Space.from_dict(found)
    return found


STUDY_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "name": _name,
    "network": lambda value, key: checks.choice(value, key, Network),
    "data_set": lambda value, key: checks.choice(value, key, DATA_SETS),
    "epochs": PARAMETER_CHECKS["epochs"],
    "evaluate_on": lambda value, key: checks.choice(value, key, EvaluateOn),
    "runs_per_trial": whole(1, LARGEST_RUNS),
    "batch_size": PARAMETER_CHECKS["batch_size"],
    "boundaries": _boundaries,
    "precision": lambda value, key: checks.choice(value, key, Precision),
    "early_stopping": lambda value, key: checks.choice(value, key, EarlyStopping),
    "train_images": whole(1, 10_000_000),
    "shifts": checks.boolean,
    "lr_max": PARAMETER_CHECKS["lr_max"],
    "lr_min": PARAMETER_CHECKS["lr_min"],
    "decay_rate": PARAMETER_CHECKS["decay_rate"],
    "decay_steps": PARAMETER_CHECKS["decay_steps"],
    "cycle_epochs": PARAMETER_CHECKS["cycle_epochs"],
    "cycle_growth": PARAMETER_CHECKS["cycle_growth"],
    "polynomial_power": above_zero(10.0),
    "routing_gradient": lambda value, key: checks.choice(value, key, RoutingGradient),
    "min_accuracy": above_zero(1.0),
    "reconstruction_weight": PARAMETER_CHECKS["reconstruction_weight"],
    "space": _space,
    "configuration": _configurations,
}
"""Every key but ``extends``: ``(value, key) -> typed value``; the space stays a table."""

OPTIONAL_KEYS = ("train_images", "min_accuracy")
"""Keys whose absence means something of its own."""


def check_keys(keys: Collection[str], *more: str) -> None:
    """Refuse what is no key of a study, with the place of one that [space] takes."""
    for key in keys:
        if key in PARAMETER_CHECKS and key not in STUDY_CHECKS:
            raise DefinitionError(f"must be a list of choices in [space]: {key} = [...]", key=key)
    checks.known_keys(keys, (*more, *STUDY_CHECKS))
