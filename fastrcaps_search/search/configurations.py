"""Which assignments are the same training, and how many a study has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.training.policy import TrainingPlan, training_plan

COMPARED_BY_STEP = 8
"""Steps of an epoch up to which its rates are compared one by one. Different curves may agree in
so few places (all that start at the highest rate do in an epoch of one step); over more steps
they do not."""


def configuration_key(definition: StudyDefinition, parameters: TrialParameters) -> str:
    """Equal for two assignments exactly when their trainings are step by step the same.

    A hash of what is trained as JSON with sorted keys, whose numbers read back exactly: it may
    never change, or a study that goes on would train its configurations again.
    """
    plan = training_plan(definition, parameters)
    trained = {field.name: getattr(plan, field.name) for field in fields(plan)}
    trained["rates"] = [_epoch_course(plan, epoch) for epoch in range(1, plan.epochs + 1)]
    return hashlib.sha256(json.dumps(trained, sort_keys=True).encode()).hexdigest()


def _epoch_course(plan: TrainingPlan, epoch: int) -> Sequence[object]:
    """The rates of an epoch; where it has many steps, the curves that they lie on."""
    if plan.samples <= COMPARED_BY_STEP * plan.batch_sizes[epoch - 1]:
        return plan.epoch_rates(epoch)
    curves = plan.rates.between((epoch - 1) * plan.samples, epoch * plan.samples)
    return [
        (each.curve, *map(float, (each.start, each.end, each.first, each.last, each.power)))
        for each in curves
    ]


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
