"""From the space and the history to the next assignment; never the same training twice."""

from __future__ import annotations

import random
from collections.abc import Sequence

import optuna

from fastrcaps_search.definition.choices import BatchPolicy, LrPolicy
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.space import RATES
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.configurations import configuration_key, configurations
from fastrcaps_search.store.distributions import distributions
from fastrcaps_search.store.mirror import frozen_trial, quiet
from fastrcaps_search.store.records import StudyRecord, TrialRecord, TrialState
from fastrcaps_search.training.splits import mixed_seed

ASKS = 20
"""Asks of the sampler before an unseen assignment is drawn at random."""


def propose(
    study: StudyRecord, trials: Sequence[TrialRecord]
) -> tuple[TrialParameters, str] | None:
    """Next assignment and its key; ``None`` when every configuration has been taken.

    The sampler is Optuna's multivariate tree-structured Parzen estimator (Bergstra et al. 2011;
    multi-objective after Ozaki et al. 2022) on a study in memory that holds finished and running
    trials. An assignment whose training is already there stays running in that study, which
    makes the sampler look elsewhere, and the sampler is asked again.
    """
    definition = study.definition
    taken = {trial.configuration_key for trial in trials}
    if definition.space is None or definition.space.is_finite:
        left = {
            key: parameters
            for key, parameters in configurations(definition).items()
            if key not in taken
        }
        if not left:
            return None
        if definition.space is None:
            key, parameters = next(iter(left.items()))
            return parameters, key
    shadow = _shadow(study, trials)
    for _ in range(ASKS):
        parameters = _ask(shadow, definition)
        key = configuration_key(definition, parameters)
        if key not in taken:
            return parameters, key
    key, parameters = random.Random(_seed(study, trials)).choice(list(left.items()))
    return parameters, key


def _seed(study: StudyRecord, trials: Sequence[TrialRecord]) -> int:
    return mixed_seed(study.seed, len(trials)) % 2**32


def _shadow(study: StudyRecord, trials: Sequence[TrialRecord]) -> optuna.Study:
    """A study in memory: complete and running trials, and the failed ones as failed."""
    with quiet():
        shadow = optuna.create_study(
            directions=[str(objective.direction) for objective in OBJECTIVES],
            sampler=optuna.samplers.TPESampler(
                seed=_seed(study, trials), multivariate=True, group=True
            ),
        )
        shadow.add_trials(
            [frozen_trial(study, t) for t in trials if t.state is not TrialState.FAILED]
        )
    return shadow


def _ask(shadow: optuna.Study, definition: StudyDefinition) -> TrialParameters:
    """Ask for each parameter that applies, in the order in which they depend on each other."""
    known = distributions(definition)
    trial = shadow.ask()
    values: dict[str, object] = {}

    def suggest(key: str) -> None:
        if key in known:
            values[key] = trial._suggest(key, known[key])

    suggest("lr_policy")
    policy = LrPolicy(str(values["lr_policy"]))
    if policy is not LrPolicy.WARM_ADABATCH:
        suggest("batch_policy")
    adapts = values.get("batch_policy", BatchPolicy.ADABATCH) == BatchPolicy.ADABATCH
    if adapts and definition.remaining_boundaries:
        suggest("adabatch_exponent")
    if not adapts:
        suggest("batch_size")
    suggest("decoder")
    suggest("weight_sharing")
    for rate in RATES:
        if rate == "lr_max" or policy.uses_lr_min:
            suggest(rate)
    return TrialParameters.from_dict(values)
