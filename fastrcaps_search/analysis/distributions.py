"""The study's space as Optuna's distributions."""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from fastrcaps_search.definition.parameters import PARAMETER_CHECKS
from fastrcaps_search.definition.space import RATES
from fastrcaps_search.definition.study import StudyDefinition

Plain: TypeAlias = bool | int | float | str


def distributions(definition: StudyDefinition) -> dict[str, BaseDistribution]:
    """Distribution of every parameter that some trial of the study may have."""
    found: dict[str, BaseDistribution] = {}
    for key in PARAMETER_CHECKS:
        choices = _choices(definition, key)
        if choices:
            found[key] = _distribution(key, choices)
    return found


def _choices(definition: StudyDefinition, key: str) -> tuple[Any, ...]:
    if definition.space is not None:
        return tuple(getattr(definition.space, key) or ())
    given = [getattr(parameters, key) for parameters in definition.configurations]
    return tuple(dict.fromkeys(value for value in given if value is not None))


def _distribution(key: str, choices: tuple[Any, ...]) -> BaseDistribution:
    if key in RATES:
        return FloatDistribution(min(choices), max(choices), log=True)
    if all(type(choice) is int for choice in choices):
        low, high = min(choices), max(choices)
        step = (high - low) // (len(choices) - 1) if high > low else 1
        if sorted(choices) == list(range(low, high + 1, step)):
            return IntDistribution(low, high, step=step)
    return CategoricalDistribution([_plain(choice) for choice in choices])


def _plain(choice: Plain | enum.Enum) -> Plain:
    return str(choice) if isinstance(choice, enum.Enum) else choice
