"""Our trials and space as Optuna's: for the sampler, the importances, and its own tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState

from fastrcaps_search.definition.checks import plain
from fastrcaps_search.definition.objective import objectives
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS, Parameter
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.records import StudyRecord, TrialState
from fastrcaps_search.store.trials import TrialRecord

STATES = {
    TrialState.RUNNING: OptunaState.RUNNING,
    TrialState.COMPLETE: OptunaState.COMPLETE,
    TrialState.FAILED: OptunaState.FAIL,
}
NUMBER_KEY = "fastrcaps:trial"
REASON_KEY = "reason"
FEASIBLE_KEY = "feasible"
CONSTRAINTS_KEY = "constraints"
LONGEST_REASON = 500
WORST = 1.0
"""Violation of a trial that diverged or was set aside: as far off as an accuracy can be."""


def frozen_trial(study: StudyRecord, trial: TrialRecord) -> FrozenTrial:
    """The trial as Optuna's, with its parameters, distributions and constraint.

    Args:
        study: The study.
        trial: The trial. What is infeasible, or has diverged, violates a constraint.
    """
    known = distributions(study.definition)
    parameters = trial.parameters.to_dict()
    broken = violation(study, trial)
    frozen = create_trial(
        state=STATES[trial.state],
        values=None if trial.means is None else list(trial.means.values()),
        params=parameters,
        distributions={key: known[key] for key in parameters},
        user_attrs=_attributes(trial),
        constraints=None if broken is None else {FEASIBLE_KEY: broken},
        # In the form of before Optuna 5, which optuna-dashboard reads (0.21 no other).
        system_attrs=None if broken is None else {CONSTRAINTS_KEY: [broken]},
    )
    frozen.datetime_start = datetime.fromtimestamp(trial.created_at)
    if trial.finished_at is not None:
        frozen.datetime_complete = datetime.fromtimestamp(trial.finished_at)
    return frozen


def violation(study: StudyRecord, trial: TrialRecord) -> float | None:
    """By how much a trial fails to be feasible, above 0, for the sampler; ``None`` for others.

    A diverged trial has no accuracy and is as far off as can be.
    """
    if trial.failure is not None and trial.failure.is_divergence:
        return WORST
    if trial.infeasible is None or trial.values is None:
        return None
    definition = study.definition
    least = max(definition.least_feasible_accuracy, definition.min_accuracy or 0.0)
    missing = least - trial.values.accuracy
    return missing if trial.set_aside is None and missing > 0 else WORST


def _attributes(trial: TrialRecord) -> dict[str, Any]:
    found: dict[str, Any] = {NUMBER_KEY: trial.number, "policy": trial.parameters.policy}
    if trial.failure is not None:
        found[REASON_KEY] = trial.failure.message[:LONGEST_REASON]
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's notes on new studies and experimental parts: no news to a user."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


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
