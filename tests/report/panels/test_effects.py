"""Medians by choice, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.report.panels import effects as panel
from fastrcaps_search.report.panels.effects import MOST_CHOICES, Effect
from tests.report.views import view_of
from tests.triples import values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastrcaps_search.store.trials import TrialRecord
    from tests.report.conftest import Records

    Effects = Callable[[Sequence[TrialRecord]], tuple[Effect, ...]]


@pytest.fixture
def effects(records: Records) -> Effects:
    return lambda trials: panel.gather(view_of(records.study(), trials)) or ()


def test_effects_by_hand(records: Records, effects: Effects) -> None:
    rows = [
        ("one_cycle", "full", (0.90, 10.0, 100.0)),
        ("fixed", "full", (0.80, 20.0, 300.0)),
        ("fixed", "full", (0.84, 40.0, 200.0)),
        ("fixed", "reduced", (0.95, 90.0, 250.0)),
    ]
    trials = [
        records.complete(number, *values, choice=records.parameters_of(policy, decoder=decoder))
        for number, (policy, decoder, values) in enumerate(rows)
    ]
    assert effects(trials) == (
        Effect("lr_policy", "fixed", 3, values_of(0.84, 40.0, 250.0)),
        Effect("lr_policy", "one_cycle", 1, values_of(0.90, 10.0, 100.0)),
        Effect("decoder", "full", 3, values_of(0.84, 20.0, 200.0)),
        Effect("decoder", "reduced", 1, values_of(0.95, 90.0, 250.0)),
    )


def test_effects_come_by_size_and_leave_out_what_does_not_apply(
    records: Records, effects: Effects
) -> None:
    choices = [
        records.parameters_of("fixed", "adabatch", 10),
        records.parameters_of("fixed", "adabatch", 9, sharing=True),
        records.parameters_of("warm_adabatch", None, 9),
        records.parameters_of(),
    ]
    trials = [records.complete(n, 0.9, 9.0, 9.0, choice=one) for n, one in enumerate(choices)]
    found = [(effect.parameter, effect.value, effect.trials) for effect in effects(trials)]
    assert found == [
        ("lr_policy", "fixed", 3),
        ("lr_policy", "warm_adabatch", 1),
        ("batch_policy", "adabatch", 2),
        ("batch_policy", "constant", 1),
        ("adabatch_exponent", "9", 2),
        ("adabatch_exponent", "10", 1),
        ("weight_sharing", "no", 3),
        ("weight_sharing", "yes", 1),
    ]


def test_values_without_number_are_not_listed_one_by_one(
    records: Records, effects: Effects
) -> None:
    trials = [
        records.complete(
            number,
            0.9,
            9.0,
            9.0,
            choice=TrialParameters.from_dict(
                {"lr_policy": "fixed", "lr_max": 1e-4 * (number + 1), "batch_size": number % 2 + 1}
            ),
        )
        for number in range(MOST_CHOICES + 1)
    ]
    assert {effect.parameter for effect in effects(trials)} == {"batch_size"}
    # Nor where no two trials have the same: a median of one says nothing of the value.
    assert effects(trials[:2]) == ()
    shown = effects([*trials[:2], trials[0]])
    assert [(effect.value, effect.trials) for effect in shown if effect.parameter == "lr_max"] == [
        ("0.0001", 2),
        ("0.0002", 1),
    ]


def test_a_parameter_is_named_once_in_the_table(records: Records) -> None:
    choices = [records.parameters_of(decoder=decoder) for decoder in ("full", "full", "reduced")]
    trials = [records.complete(n, 0.9, 9.0, 9.0, choice=one) for n, one in enumerate(choices)]
    (table,) = panel.draw(panel.gather(view_of(records.study(), trials)) or ())
    assert [row[:3] for row in table.rows] == [("decoder", "full", "2"), ("", "reduced", "1")]
