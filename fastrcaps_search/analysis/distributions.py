"""The study's space as Optuna's distributions, and the directions of its objectives."""

from __future__ import annotations

from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection

from fastrcaps_search.definition.checks import plain
from fastrcaps_search.definition.objective import objectives
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS, Parameter
from fastrcaps_search.definition.study import StudyDefinition


def distributions(definition: StudyDefinition) -> dict[str, BaseDistribution]:
    """Distribution of every parameter that some trial of the study may have."""
    found: dict[str, BaseDistribution] = {}
    for parameter in TRIAL_PARAMETERS:
        choices = _choices(definition, parameter.name)
        if choices:
            found[parameter.name] = _distribution(parameter, choices)
    return found


def directions(definition: StudyDefinition) -> list[StudyDirection]:
    """Direction of each of the study's objectives."""
    return [StudyDirection[one.direction.name] for one in objectives(definition.objectives)]


def _choices(definition: StudyDefinition, key: str) -> tuple[Any, ...]:
    if definition.space is not None:
        return tuple(definition.space[key] or ())
    given = [parameters[key] for parameters in definition.configurations]
    return tuple(dict.fromkeys(value for value in given if value is not None))


def _distribution(parameter: Parameter, choices: tuple[Any, ...]) -> BaseDistribution:
    if parameter.is_range:
        return FloatDistribution(min(choices), max(choices), log=True)
    if all(type(choice) is int for choice in choices):
        low, high = min(choices), max(choices)
        step = (high - low) // (len(choices) - 1) if high > low else 1
        if sorted(choices) == list(range(low, high + 1, step)):
            return IntDistribution(low, high, step=step)
    return CategoricalDistribution([plain(choice) for choice in choices])
