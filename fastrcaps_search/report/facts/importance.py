"""Which parameters matter for which objective, and what each of their values gave."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from fastrcaps_search.definition.objective import MAXIMISE, OBJECTIVES
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.report import text
from fastrcaps_search.store.records import StudyRecord, TrialRecord, Values

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

FEWEST_TRIALS = 10
"""Complete trials below which nothing is said of importance."""
FEWEST_BEST = 5
"""Trials that must count as the best ones: with fewer the estimate is unstable (Optuna)."""
SHARE_OF_BEST = 0.1
MOST_CHOICES = 40
"""Values above which those of a parameter are not listed one by one."""


@dataclass(frozen=True, slots=True)
class Importance:
    """Importances of the varied parameters.

    Attributes:
        parameters: Names, the most important for any objective first.
        shares: For each objective, by parameter: shares that add up to 1, or all 0 where nothing
            tells the best trials from the others.
        best: How many trials count as the best ones in each objective, but for ties.
    """

    parameters: tuple[str, ...]
    shares: Mapping[str, Mapping[str, float]]
    best: int


@dataclass(frozen=True, slots=True)
class Effect:
    """What trials with one value of one parameter gave: medians."""

    parameter: str
    value: str
    trials: int
    medians: Values


def importance(study: StudyRecord, trials: Sequence[TrialRecord]) -> Importance | None:
    """Importance by PED-ANOVA (Watanabe et al., IJCAI 2023), as Optuna computes it.

    A parameter that not all trials have comes by condPED-ANOVA (arXiv:2601.20800). It says in
    which parameters the best tenth in an objective, at least five trials and those that tie with
    them, differs from all. It takes low targets as good, so an objective to maximise is negated.

    Args:
        study: The study.
        trials: Its trials with finite values.

    Returns:
        ``None`` with too few trials or nothing varied.
    """
    varied = [
        key for key in TRIAL_PARAMETERS.names if len({_of(trial, key) for trial in trials}) > 1
    ]
    if len(trials) < FEWEST_TRIALS or not varied:
        return None
    best = max(FEWEST_BEST, math.ceil(SHARE_OF_BEST * len(trials)))
    shares = {
        name: _shares(found) for name, found in _evaluated(study, trials, varied, best).items()
    }
    order = sorted(varied, key=lambda key: -max(share[key] for share in shares.values()))
    return Importance(tuple(order), shares, best)


def _evaluated(
    study: StudyRecord, trials: Sequence[TrialRecord], varied: list[str], best: int
) -> dict[str, dict[str, float]]:
    # Imported here: Optuna takes longer to import than the rest of the report.
    import optuna

    from fastrcaps_search.analysis.distributions import distributions
    from fastrcaps_search.analysis.optuna_trials import quiet

    known = distributions(study.definition)
    frozen = [_frozen(trial, known) for trial in trials]

    class Finished(optuna.Study):
        """A study of these trials; storing 10,000 of them would take seconds."""

        def get_trials(
            self, deepcopy: bool = True, states: Container[optuna.trial.TrialState] | None = None
        ) -> list[FrozenTrial]:
            return frozen

    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=best / len(trials))
    found = {}
    with quiet():
        storage = optuna.storages.InMemoryStorage()
        storage.create_new_study([optuna.study.StudyDirection.MINIMIZE] * len(OBJECTIVES), "all")
        finished = Finished("all", storage)
        for column, objective in enumerate(OBJECTIVES):
            sign = -1.0 if MAXIMISE[column] else 1.0

            def target(trial: FrozenTrial, column: int = column, sign: float = sign) -> float:
                return sign * float(trial.values[column])

            found[objective.name] = evaluator.evaluate(finished, varied, target=target)
    return found


def _frozen(trial: TrialRecord, known: Mapping[str, BaseDistribution]) -> FrozenTrial:
    """The trial as Optuna's, without the checks of what our store has checked."""
    from optuna.trial import FrozenTrial, TrialState

    given = trial.parameters.to_dict()
    return FrozenTrial(
        number=trial.number,
        trial_id=trial.number,
        state=TrialState.COMPLETE,
        value=None,
        values=None if trial.values is None else list(trial.values.as_tuple()),
        params=given,
        distributions={key: known[key] for key in given},
        datetime_start=None,
        datetime_complete=None,
        user_attrs={},
        system_attrs={},
        intermediate_values={},
    )


def _shares(found: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(found.values())
    return {key: value / total if total > 0 else 0.0 for key, value in found.items()}


def effects(trials: Sequence[TrialRecord]) -> tuple[Effect, ...]:
    """Medians of trials with finite values, by each value of each parameter that varies."""
    found = []
    for key in TRIAL_PARAMETERS.names:
        groups: dict[object, list[Values]] = {}
        for trial in trials:
            if trial.values is not None:
                groups.setdefault(_of(trial, key), []).append(trial.values)
        groups.pop(None, None)
        repeats = any(len(values) > 1 for values in groups.values())
        if repeats and 1 < len(groups) <= MOST_CHOICES:
            found += [
                Effect(key, text.choice(value), len(values), _medians(values))
                for value, values in sorted(groups.items(), key=lambda item: text.rank(item[0]))
            ]
    return tuple(found)


def _of(trial: TrialRecord, key: str) -> object:
    return trial.parameters[key]


def _medians(values: Sequence[Values]) -> Values:
    columns = zip(*(value.as_tuple() for value in values), strict=True)
    return Values(*(median(column) for column in columns))
