"""Importances against Optuna's own, their direction, and effects by hand."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import optuna
import pytest
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from fastrcaps_search.analysis.optuna_trials import distributions
from fastrcaps_search.report.panels.importance import FEWEST_TRIALS, importance
from tests.triples import values_of

if TYPE_CHECKING:
    from fastrcaps_search.store.records import StudyRecord
    from fastrcaps_search.store.trials import TrialRecord
    from tests.report.conftest import Records


@contextmanager
def silence() -> Iterator[None]:
    """Without Optuna's notes: it warns whenever a target is given."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    optuna.logging.set_verbosity(before)


def by_optuna(
    study: StudyRecord, trials: Sequence[TrialRecord], varied: list[str], best: int
) -> list[dict[str, float]]:
    """Importances in a study of Optuna's own, by objective."""
    known = distributions(study.definition)
    with silence():
        real = optuna.create_study(directions=["maximize", "minimize", "minimize"])
        for trial in trials:
            assert trial.values is not None
            params = trial.parameters.to_dict()
            real.add_trial(
                optuna.trial.create_trial(
                    params=params,
                    distributions={key: known[key] for key in params},
                    values=list(trial.values.values()),
                )
            )
        evaluator = PedAnovaImportanceEvaluator(target_quantile=best / len(trials))
        found = []
        for column, sign in enumerate((-1.0, 1.0, 1.0)):

            def target(
                trial: optuna.trial.FrozenTrial, column: int = column, sign: float = sign
            ) -> float:
                return float(sign * trial.values[column])

            found.append(
                get_param_importances(real, evaluator=evaluator, params=varied, target=target)
            )
        return found


def searched(study: StudyRecord, records: Records) -> list[TrialRecord]:
    """Every configuration of the shipped small study, with values that some parameters move."""
    return [
        records.complete(
            number,
            0.9 + 0.01 * (chosen.adabatch_exponent or 0) + 0.0001 * (number * 7 % 13),
            50.0 - 10.0 * bool(chosen.weight_sharing) + number * 11 % 17,
            1_900_000 - 400_000 * bool(chosen.weight_sharing) + number,
            choice=chosen,
        )
        for number, chosen in enumerate(study.definition.assignments())
    ]


def test_importances_are_optunas(records: Records) -> None:
    study = records.study(space={"adabatch_exponent": [3, 4, 5]})
    trials = searched(study, records)
    found = importance(study, trials)
    assert found is not None
    assert len(trials) == 76
    # A tenth of 76, rounded up.
    assert found.best == 8
    varied = ["lr_policy", "batch_policy", "adabatch_exponent", "decoder", "weight_sharing"]
    expected = by_optuna(study, trials, varied, 8)
    assert list(found.shares) == ["accuracy", "training_seconds", "parameters"]
    for shares, right in zip(found.shares.values(), expected, strict=True):
        assert shares == pytest.approx(right)
        assert sum(shares.values()) == pytest.approx(1.0)
    highest = {key: max(shares[key] for shares in found.shares.values()) for key in varied}
    assert list(found.parameters) == sorted(varied, key=lambda key: -highest[key])
    assert max(varied, key=lambda key: found.shares["accuracy"][key]) == "adabatch_exponent"


def test_continuous_rates_are_weighed_too(records: Records) -> None:
    study = records.study(space={"lr_max": [2e-4, 2e-2], "lr_policy": ["fixed", "one_cycle"]})
    trials = []
    for number in range(40):
        chosen = replace(
            records.parameters_of(("fixed", "one_cycle")[number % 2]), lr_max=2e-4 * 1.12**number
        )
        trials.append(records.complete(number, 0.5 + 0.01 * number, 50.0, 9.0, choice=chosen))
    found = importance(study, trials)
    assert found is not None
    assert found.best == 5
    expected = by_optuna(study, trials, ["lr_policy", "lr_max"], 5)
    assert found.shares["accuracy"] == pytest.approx(expected[0])
    assert found.parameters[0] == "lr_max"


def test_the_best_accuracies_are_the_highest(records: Records) -> None:
    # The ten highest all have exponent 7, evenly shared and not; the ten lowest are all shared,
    # over all exponents. Read the wrong way round, weight sharing would come first.
    study = records.study(
        space={
            "lr_policy": ["fixed"],
            "batch_policy": ["adabatch"],
            "adabatch_exponent": list(range(10)),
        }
    )
    rows = [(7, sharing, 0.99) for sharing in (False, True) for _ in range(5)]
    rows += [(exponent, True, 0.1) for exponent in range(10)]
    rows += [
        (exponent, sharing, 0.5)
        for exponent, sharing, _ in itertools.product(range(10), (False, True), range(4))
    ]
    trials = [
        records.complete(
            number,
            accuracy + 1e-6 * number,
            50.0,
            9.0,
            choice=records.parameters_of("fixed", "adabatch", exponent, sharing=sharing),
        )
        for number, (exponent, sharing, accuracy) in enumerate(rows)
    ]
    found = importance(study, trials)
    assert found is not None
    assert found.best == 10
    shares = found.shares["accuracy"]
    assert shares["adabatch_exponent"] > 0.9
    assert shares["adabatch_exponent"] > 10 * shares["weight_sharing"]
    assert found.parameters[0] == "adabatch_exponent"


def test_few_trials_say_nothing(records: Records) -> None:
    study = records.study()
    trials = records.trials()
    assert importance(study, trials[: FEWEST_TRIALS - 1]) is None
    found = importance(study, trials[:FEWEST_TRIALS])
    assert found is not None
    assert found.best == 5


def test_nothing_varied_says_nothing(records: Records) -> None:
    trials = [records.complete(number, 0.9, 50.0, 9.0) for number in range(20)]
    assert importance(records.study(), trials) is None


def test_ties_in_everything_add_up_to_one_or_none(records: Records) -> None:
    trials = [replace(trial, values=values_of(0.9, 5.0, 7.0)) for trial in records.trials()]
    found = importance(records.study(), trials)
    assert found is not None
    for shares in found.shares.values():
        assert sum(shares.values()) == pytest.approx(1.0) or set(shares.values()) == {0.0}
