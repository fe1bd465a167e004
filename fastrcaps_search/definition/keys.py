"""Checks of those keys of a study file that need one of their own."""

from __future__ import annotations

import re
from typing import Any

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.objective import COMMON, OBJECTIVES
from fastrcaps_search.definition.parameters import (
    LARGEST_EPOCHS,
    TRIAL_PARAMETERS,
    TrialParameters,
)
from fastrcaps_search.definition.space import Space
from fastrcaps_search.errors import DefinitionError

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
LARGEST_RUNS = 100
LARGEST_SEED = 2**31 - 1


def name(value: object, key: str) -> str:
    """The name of a study."""
    found = checks.text(value, key)
    if not NAME_PATTERN.fullmatch(found):
        must = (
            "be 1 to 63 lower-case letters, digits, '.', '_' or '-', the first a letter or digit"
        )
        raise checks.wrong(value, key, must)
    return found


def objectives(value: object, key: str) -> tuple[str, ...]:
    """The objectives of every study, then its own."""
    found: tuple[str, ...] = checks.list_of(checks.name_in(OBJECTIVES))(value, key)
    if found[: len(COMMON)] != COMMON:
        raise checks.wrong(value, key, f"begin with {', '.join(COMMON)}")
    for own in found[len(COMMON) :]:
        if OBJECTIVES[own].measure is None:
            raise DefinitionError(
                f"must be measured, got {own} without a way; the plug-in that brings it lacks it",
                key=key,
            )
    return found


def boundaries(value: object, key: str) -> tuple[int, ...]:
    """The boundaries between batch sizes."""
    found: tuple[int, ...] = checks.list_of(checks.whole(1, LARGEST_EPOCHS))(value, key)
    if len(found) > 3 or list(found) != sorted(found):
        raise checks.wrong(value, key, "be one to three increasing epochs")
    return found


def configurations(value: object, key: str) -> tuple[TrialParameters, ...]:
    """A fixed list of configurations, from tables."""
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


def space(value: object, key: str) -> dict[str, Any]:
    """The table as it is: what it leaves out depends on the network."""
    found = checks.table(value, key)
    Space.from_dict(found)
    return found


def as_of_a_trial(value: object, key: str) -> Any:  # noqa: ANN401  # of that key
    """What a trial may have a value of too."""
    return TRIAL_PARAMETERS[key].check(value, key)
