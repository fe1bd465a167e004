"""Proposals: never the same training twice, only what applies, the same for the same seed."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search import suggest
from fastrcaps_search.search.configurations import configuration_key, configurations
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.records import Failure, StudyRecord, TrialState, Values
from fastrcaps_search.store.trials import TrialRecord
from tests.triples import values_of


def record(definition: StudyDefinition, *, seed: int = 0) -> StudyRecord:
    return StudyRecord(
        study_id=1,
        name=definition.name,
        uid="u",
        definition=definition,
        seed=seed,
        budget=100,
        created_at=0.0,
    )


def study(**values: object) -> StudyRecord:
    base = {"name": "s", "network": "lenet5", "train_images": 100, "epochs": 4}
    return record(StudyDefinition.from_dict({**base, "boundaries": [1], **values}))


def made_up(parameters: TrialParameters) -> Values:
    """Values that differ between assignments and are the same every time."""
    number = int.from_bytes(repr(parameters).encode()) % 997
    return values_of(0.5 + number / 2000, 10.0 + number % 31, float(1000 * (1 + number % 4)))


def trial(
    number: int,
    parameters: TrialParameters,
    key: str,
    state: TrialState = TrialState.COMPLETE,
) -> TrialRecord:
    return TrialRecord(
        number=number,
        state=state,
        parameters=parameters,
        configuration_key=key,
        values=made_up(parameters) if state is TrialState.COMPLETE else None,
        failure=None,
        created_at=0.0,
        finished_at=None,
    )


def asked(
    study: StudyRecord,
    count: int,
    *,
    states: Sequence[TrialState] = (TrialState.COMPLETE,),
) -> list[TrialRecord]:
    """As many trials as are proposed, up to ``count``, their states in turn."""
    trials: list[TrialRecord] = []
    while len(trials) < count:
        proposed = propose(study, trials)
        if proposed is None:
            break
        number = len(trials)
        trials.append(trial(number, *proposed, states[number % len(states)]))
    return trials


def test_the_whole_mini_space_is_proposed_without_a_repetition() -> None:
    mini = record(load_study("mnist-mini"))
    # (4 policies * (constant + 3 P) + warm_adabatch of 3 P) * 2 decoders * 2 kinds of weights.
    trials = asked(mini, 100, states=[*[TrialState.COMPLETE] * 3, TrialState.FAILED])
    assert len(trials) == 76
    assert len({t.configuration_key for t in trials}) == 76
    assert len({t.parameters for t in trials}) == 76
    assert propose(mini, trials) is None
    assert {t.configuration_key for t in trials} == set(configurations(mini.definition))
    for t in trials:
        assert t.configuration_key == configuration_key(mini.definition, t.parameters)
        # What applies is there, and nothing else.
        asked_for = set(t.parameters.to_dict())
        adapts = (
            t.parameters.lr_policy == "warm_adabatch" or t.parameters.batch_policy == "adabatch"
        )
        expected = {"lr_policy", "decoder", "weight_sharing"}
        expected |= {"adabatch_exponent"} if adapts else set()
        expected |= {"batch_policy"} if t.parameters.lr_policy != "warm_adabatch" else set()
        assert asked_for == expected


def test_running_trials_are_not_proposed_again() -> None:
    small = study(space={"lr_policy": ["fixed"], "adabatch_exponent": [2, 3]})
    # Constant, and adabatch of two P.
    trials = asked(small, 10, states=[TrialState.RUNNING])
    assert len({t.configuration_key for t in trials}) == len(trials) == 3


def test_what_is_the_same_training_is_proposed_once() -> None:
    # Of 100 images, 2^7 to 2^10 are all: adabatch of P = 2, of the four, and constant.
    same = study(space={"lr_policy": ["fixed"], "adabatch_exponent": [2, 7, 8, 9, 10]})
    trials = asked(same, 10)
    assert len({t.configuration_key for t in trials}) == len(trials) == 3


def test_a_fixed_list_comes_in_its_order() -> None:
    listed = [
        {"lr_policy": "one_cycle", "batch_policy": "constant"},
        {"lr_policy": "fixed", "batch_policy": "adabatch", "adabatch_exponent": 4},
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 2, "lr_max": 0.01},
        {"lr_policy": "fixed", "batch_policy": "constant", "batch_size": 32},
    ]
    trials = asked(study(configuration=listed), 10, states=[TrialState.FAILED])
    assert [t.parameters.to_dict() for t in trials] == listed


def test_a_gap_in_a_fixed_list_is_filled_first() -> None:
    names = ["one_cycle", "fixed", "warm_restarts"]
    listed = study(configuration=[{"lr_policy": n, "batch_policy": "constant"} for n in names])
    trials = asked(listed, 10)
    proposed = propose(listed, [trials[0], trials[2]])
    assert proposed is not None
    assert proposed[0].lr_policy == "fixed"
    assert proposed[1] == trials[1].configuration_key


RATES = {
    "lr_policy": ["fixed", "warm_restarts", "warm_adabatch"],
    "batch_policy": ["constant", "adabatch"],
    "lr_max": [1e-3, 1e-1],
    "lr_min": [1e-6, 1e-4],
    "batch_size": [4, 8],
}


def test_rates_are_within_their_ranges_and_only_where_they_are_used() -> None:
    trials = asked(study(space=RATES), 40, states=[TrialState.COMPLETE, TrialState.RUNNING])
    assert len({t.configuration_key for t in trials}) == 40
    seen = set()
    for t in trials:
        p = t.parameters
        assert p.lr_max is not None
        assert 1e-3 <= p.lr_max <= 1e-1
        assert (p.lr_min is None) == (p.lr_policy == "fixed")
        assert p.lr_min is None or 1e-6 <= p.lr_min <= 1e-4
        assert (p.batch_policy is None) == (p.lr_policy == "warm_adabatch")
        constant = p.batch_policy == "constant"
        assert (p.batch_size in (4, 8)) if constant else p.batch_size is None
        assert (p.adabatch_exponent is None) == constant
        assert (p.decoder, p.weight_sharing) == (None, None)
        seen.add((p.lr_policy, p.batch_policy))
    assert len(seen) == 5
    # On a log scale: rates of every decade.
    highs = [t.parameters.lr_max or 0.0 for t in trials]
    assert min(highs) < 1e-2 < max(highs)


def test_the_reconstruction_weight_is_proposed_where_there_is_a_decoder() -> None:
    space = {
        "lr_policy": ["fixed"],
        "batch_policy": ["constant"],
        "decoder": ["full", "none"],
        "weight_sharing": [False],
        "reconstruction_weight": [0, 0.001, 0.01],
    }
    listed = asked(study(network="capsnet-narrow", space=space), 12)
    assert {t.parameters.reconstruction_weight for t in listed} == {None, 0.0, 0.001, 0.01}
    assert len(listed) == 4


def test_the_exponent_is_not_proposed_where_no_boundary_remains() -> None:
    trials = asked(study(epochs=1, space={"lr_policy": ["fixed", "warm_adabatch"]}), 10)
    assert len(trials) == 3
    assert all(t.parameters.adabatch_exponent is None for t in trials)


LENGTHS = {
    "lr_policy": ["exponential_decay", "warm_restarts", "warm_adabatch"],
    "batch_policy": ["constant", "adabatch"],
    "adabatch_exponent": [2, 4],
    "epochs": [2, 3],
    "decay_steps": [5, 20, 2000],
    "cycle_epochs": [1, 2],
    "cycle_growth": [1, 2],
}


def test_what_shapes_a_curve_is_proposed_only_where_it_applies() -> None:
    lengths = study(boundaries=[2], space=LENGTHS)
    trials = asked(lengths, 200)
    assert propose(lengths, trials) is None
    # Decay: 3 horizons; of two epochs constant or batch 1, of three constant or 2 of P: 3 * 5.
    # Restarts of two epochs: cycles of 1 and 1, of 1 and 2 (cut short), of 2; constant or batch 1:
    # 3 * 2. Of three epochs: 1, 1, 1; 1, 2; 2, 2 and 2, 4 (cut short); constant or 2 of P: 4 * 3.
    # WarmAdaBatch: 1 of two epochs, which is a cycle of two epochs of batch 1 again; 2 of three.
    assert len(trials) == 15 + 6 + 12 + 3 - 1
    assert len({t.configuration_key for t in trials}) == len(trials)
    assert len({t.parameters for t in trials}) == len(trials)
    for t in trials:
        p = t.parameters
        assert p.epochs in (2, 3)
        assert (p.decay_steps is not None) == (p.lr_policy == "exponential_decay")
        assert (p.cycle_epochs is not None) == (p.lr_policy == "warm_restarts")
        assert (p.cycle_growth is not None) == (p.lr_policy == "warm_restarts")
        assert p.decay_rate is None
        # The boundary lies within three epochs alone.
        assert (p.adabatch_exponent is not None) == (p.adapts_batch and p.epochs == 3)


def test_a_range_of_decay_rates_is_searched() -> None:
    space = {
        "lr_policy": ["fixed", "exponential_decay"],
        "batch_policy": ["constant"],
        "decay_rate": [0.5, 0.99],
    }
    trials = asked(study(space=space), 25)
    assert len({t.configuration_key for t in trials}) == 25
    decays = [t.parameters.decay_rate for t in trials if t.parameters.decay_rate is not None]
    assert len(decays) == 24
    assert all(0.5 <= rate <= 0.99 for rate in decays)


def test_exponents_with_gaps_stay_within_their_list() -> None:
    gaps = study(space={"lr_policy": ["warm_adabatch"], "adabatch_exponent": [1, 3, 6]})
    trials = asked(gaps, 10)
    assert sorted(t.parameters.adabatch_exponent or 0 for t in trials) == [1, 3, 6]


def test_the_same_seed_and_history_give_the_same_proposal() -> None:
    definition = load_study("mnist-mini")
    first = asked(record(definition, seed=1), 15)
    assert first == asked(record(definition, seed=1), 15)
    other = asked(record(definition, seed=2), 15)
    assert [t.parameters for t in first] != [t.parameters for t in other]


def test_good_values_attract_proposals() -> None:
    """With values that depend on one policy alone, the sampler proposes it more often."""
    space = study(space={**RATES, "batch_policy": ["constant"]})
    trials: list[TrialRecord] = []
    for number in range(40):
        proposed = propose(space, trials)
        assert proposed is not None
        good = proposed[0].lr_policy == "warm_restarts"
        values = values_of(0.99, 1.0, 10.0) if good else values_of(0.1, 99.0, 10.0)
        done = TrialRecord(number, TrialState.COMPLETE, *proposed, values, None, 0.0, None)
        trials.append(done)
    late = [t.parameters.lr_policy == "warm_restarts" for t in trials[15:]]
    assert sum(late) > len(late) / 2  # a third would be chance


def test_where_the_sampler_insists_an_unseen_assignment_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suggest, "ASKS", 0)
    mini = record(load_study("mnist-mini"))
    assert len({t.configuration_key for t in asked(mini, 100)}) == 76
    continuous = study(space=RATES)
    trials = asked(continuous, 20)
    assert len({t.configuration_key for t in trials}) == 20
    assert trials == asked(continuous, 20)


def test_a_continuous_space_of_one_training_is_exhausted_after_it() -> None:
    # One step per epoch begins every cycle at the fixed lr_max: no rate of lr_min is ever used.
    pointless = study(
        batch_size=100,
        space={
            "lr_policy": ["warm_restarts"],
            "batch_policy": ["constant"],
            "lr_min": [1e-6, 1e-4],
        },
    )
    assert len(asked(pointless, 3)) == 1


WIDE = {"lr_policy": ["fixed"], "batch_policy": ["constant"], "lr_max": [1e-4, 1.0]}


def searched(kind: str) -> list[TrialRecord]:
    """50 trials of a search for a rate; above 0.03 nothing learns.

    Args:
        kind: ``infeasible`` for trials that guess there, quickly, ``told`` where they count all
            the same, or the kind of the failure with which they end there.
    """
    space = study(space=WIDE, data_set="mnist-mini")
    trials: list[TrialRecord] = []
    for number in range(50):
        proposed = propose(space, trials)
        assert proposed is not None
        rate = proposed[0].lr_max
        assert rate is not None
        done = trial(number, *proposed)
        if rate > 0.03:
            guess = values_of(0.1, 1.0, 10.0)
            reason = "not better than guessing"
            done = replace(done, values=guess, infeasible=None if kind == "told" else reason)
            if kind in ("diverged", "MemoryError"):
                failure = Failure(kind, "diverged at epoch 1", "", "")
                done = replace(done, values=None, state=TrialState.FAILED, failure=failure)
                done = replace(done, infeasible=None)
        else:
            # Quickest at 0.003, a decade below.
            done = replace(done, values=values_of(0.9, 10.0 + abs(math.log10(rate / 3e-3)), 10.0))
        trials.append(done)
    return trials


def bad(trials: Sequence[TrialRecord]) -> int:
    """How many of the later proposals lie where nothing learns: 38 % of the range."""
    return sum((t.parameters.lr_max or 0.0) > 0.03 for t in trials[20:])


def test_the_search_learns_where_trainings_diverge() -> None:
    assert bad(searched("diverged")) <= 4
    # Chance is 11 of 30; what is never heard of draws the sampler.
    assert bad(searched("MemoryError")) > 15


def test_the_search_learns_where_trainings_guess() -> None:
    assert bad(searched("infeasible")) <= 4
    # Nothing is quicker than not to learn.
    assert bad(searched("told")) > 15


def next_rate(definition: StudyRecord, *, feasible: int | None) -> float:
    """Proposed after eleven set-aside rates from 0.06 to 1 and perhaps a feasible one of 0.001."""
    trials: list[TrialRecord] = []
    for number in range(12):
        rate = 1e-3 if number == feasible else 10 ** (-1.2 + 1.2 * (number * 0.618 % 1))
        fixed = {"lr_policy": "fixed", "batch_policy": "constant", "lr_max": rate}
        parameters = TrialParameters.from_dict(fixed)
        done = trial(number, parameters, configuration_key(definition.definition, parameters))
        aside = None if number == feasible else "set aside by me: no"
        trials.append(replace(done, infeasible=aside))
    proposed = propose(definition, trials)
    assert proposed is not None
    assert proposed[0].lr_max is not None
    return proposed[0].lr_max


def test_what_was_set_aside_is_never_good_however_little_is_left() -> None:
    space = study(space=WIDE, data_set="mnist-mini")
    # Two of twelve are good ones for Optuna, and the first of those set aside would be the second:
    # halfway to it, between 0.003 and 0.006, would then be proposed.
    rates = [next_rate(replace(space, seed=seed), feasible=5) for seed in range(10)]
    assert max(rates) < 1e-3
    assert next_rate(space, feasible=None) < 0.06


def test_the_sampler_imports_no_torch() -> None:
    """Which takes seconds, and the parent of a study never trains."""
    code = "import sys, fastrcaps_search.search.suggest; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
