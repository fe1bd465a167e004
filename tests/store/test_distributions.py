"""The study's space as Optuna's distributions, each written out."""

from __future__ import annotations

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from fastrcaps_search.analysis.optuna_trials import distributions
from fastrcaps_search.definition.study import StudyDefinition


def test_whole_numbers_at_equal_steps_have_an_order() -> None:
    space = {
        "lr_policy": ["exponential_decay", "warm_restarts"],
        "batch_policy": ["constant", "adabatch"],
        "adabatch_exponent": [4, 2, 3],
        "epochs": [10, 30, 20],
        "lr_max": [1e-3, 1e-2],
        "decay_rate": [0.5, 0.99],
        "decay_steps": [1000, 2000, 4000],
        "cycle_epochs": [3],
        "cycle_growth": [1, 2],
    }
    definition = StudyDefinition.from_dict({"name": "s", "network": "lenet5", "space": space})
    assert distributions(definition) == {
        "lr_policy": CategoricalDistribution(["exponential_decay", "warm_restarts"]),
        "batch_policy": CategoricalDistribution(["constant", "adabatch"]),
        "adabatch_exponent": IntDistribution(2, 4),
        "epochs": IntDistribution(10, 30, step=10),
        "lr_max": FloatDistribution(1e-3, 1e-2, log=True),
        "decay_rate": FloatDistribution(0.5, 0.99, log=True),
        "decay_steps": CategoricalDistribution([1000, 2000, 4000]),
        "cycle_epochs": IntDistribution(3, 3),
        "cycle_growth": IntDistribution(1, 2),
    }
