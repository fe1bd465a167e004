"""From the space and the history to the next assignment; never the same training twice."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Container, Sequence
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from fastrcaps_search.analysis.optuna_trials import directions, distributions, frozen_trial, quiet
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.samplers import SAMPLERS
from fastrcaps_search.definition.space import applying
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.configurations import configuration_key, configurations
from fastrcaps_search.seeds import derive_seed
from fastrcaps_search.store.records import StudyRecord, TrialState
from fastrcaps_search.store.trials import TrialRecord

ASKS = 20
"""Asks of the sampler before an unseen assignment is drawn at random."""
DRAWS = 1000
"""Draws from a continuous space before it counts as exhausted."""


def propose(
    study: StudyRecord, trials: Sequence[TrialRecord], worker: str = ""
) -> tuple[TrialParameters, str] | None:
    """Next assignment and its key; ``None`` when every configuration has been taken.

    The study's sampler is asked on a study in memory that holds finished and running trials.
    Infeasible trials and those that diverged violate a constraint there, so that they are
    never taken for good ones. An assignment whose training is already there stays running in that
    study, which makes the sampler look elsewhere, and the sampler is asked again.

    Args:
        study: The study.
        trials: All its trials.
        worker: Who asks: two that ask at the same moment get different answers.
    """
    definition = study.definition
    taken = {trial.configuration_key for trial in trials}
    if definition.space is None or definition.space.is_finite:
        known = configurations(definition)
        left = [(parameters, key) for key, parameters in known.items() if key not in taken]
        if not left:
            return None
        if definition.space is None:
            return left[0]
    seed = derive_seed(study.seed, len(trials), zlib.crc32(worker.encode())) % 2**32
    feasible = sum(trial.is_feasible for trial in trials)
    with quiet():
        sampler = SAMPLERS[definition.sampler].build(seed=seed, feasible=feasible)
    found = _unseen(_shadow(study, trials, sampler), definition, taken, asks=ASKS)
    if found is None and definition.space.is_finite:
        return random.Random(seed).choice(left)
    if found is None:
        # Of a continuous space, at random.
        shadow = _shadow(study, (), random_sampler(seed=seed))
        found = _unseen(shadow, definition, taken, asks=DRAWS)
    return found


def tpe_sampler(*, seed: int, feasible: int) -> optuna.samplers.BaseSampler:
    """Optuna's multivariate tree-structured Parzen estimator.

    Bergstra et al. 2011; multi-objective after Ozaki et al. 2022.
    """
    return optuna.samplers.TPESampler(
        seed=seed,
        multivariate=True,
        group=True,
        constant_liar=True,
        # Optuna's tenth, but where less than that is feasible it would take others for good.
        gamma=lambda finished: min(math.ceil(finished / 10), feasible),
    )


def random_sampler(*, seed: int, feasible: int = 0) -> optuna.samplers.BaseSampler:
    """Each choice as likely as the others, whatever was learned."""
    return optuna.samplers.RandomSampler(seed=seed)


def _unseen(
    shadow: optuna.Study, definition: StudyDefinition, taken: Container[str], *, asks: int
) -> tuple[TrialParameters, str] | None:
    for _ in range(asks):
        parameters = _ask(shadow, definition)
        key = configuration_key(definition, parameters)
        if key not in taken:
            return parameters, key
    return None


def _shadow(
    study: StudyRecord, trials: Sequence[TrialRecord], sampler: optuna.samplers.BaseSampler
) -> optuna.Study:
    """A study in memory, without the trials whose failure says nothing of their configuration."""
    with quiet():
        shadow = optuna.create_study(directions=directions(study.definition), sampler=sampler)
        shadow.add_trials([told for t in trials if (told := _told(study, t)) is not None])
    return shadow


def _told(study: StudyRecord, trial: TrialRecord) -> FrozenTrial | None:
    """What the sampler is told of a trial; ``None`` for nothing."""
    if trial.state is not TrialState.FAILED:
        return frozen_trial(study, trial)
    if trial.failure is None or not trial.failure.is_divergence:
        return None
    # Optuna's sampler passes over failed trials; a pruned one needs no values, and as it violates
    # its constraint it is sorted by that alone.
    told = frozen_trial(study, trial)
    told.state = OptunaState.PRUNED
    return told


def _ask(shadow: optuna.Study, definition: StudyDefinition) -> TrialParameters:
    """Ask for each parameter that applies, in the order in which they depend on each other."""
    known = distributions(definition)
    trial = shadow.ask()
    values: dict[str, Any] = {}
    for key in applying(values, definition.boundaries_within):
        if key in known:
            values[key] = _suggested(trial, key, known[key])
    return TrialParameters.from_dict(values)


def _suggested(trial: optuna.Trial, key: str, offered: BaseDistribution) -> object:
    if isinstance(offered, FloatDistribution):
        return trial.suggest_float(key, offered.low, offered.high, log=offered.log)
    if isinstance(offered, IntDistribution):
        return trial.suggest_int(key, offered.low, offered.high, step=offered.step)
    assert isinstance(offered, CategoricalDistribution)
    return trial.suggest_categorical(key, offered.choices)
