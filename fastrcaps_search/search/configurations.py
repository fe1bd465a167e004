"""Which assignments are the same training, and how many a study has."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.policy import training_plan


def configuration_key(definition: StudyDefinition, parameters: TrialParameters) -> str:
    """Equal for two assignments exactly when their trainings are step by step the same."""
    plan = training_plan(definition, parameters)
    return hashlib.sha256(repr(plan).encode()).hexdigest()


@lru_cache(maxsize=8)
def configurations(definition: StudyDefinition) -> dict[str, TrialParameters]:
    """The first assignment of every configuration, by key, in a fixed order.

    Only for a study whose space is finite.

    Raises:
        ValueError: The space has continuous parameters.
    """
    if definition.space is not None and not definition.space.is_finite:
        raise ValueError("the configurations of a continuous space cannot be listed")
    found: dict[str, TrialParameters] = {}
    for parameters in definition.assignments():
        found.setdefault(configuration_key(definition, parameters), parameters)
    return found


def configuration_count(definition: StudyDefinition) -> int | None:
    """Number of configurations; ``None`` where the space is continuous."""
    if definition.space is not None and not definition.space.is_finite:
        return None
    return len(configurations(definition))
