"""Objectives: those of every study, and what another must bring."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.objective import COUNTS, OBJECTIVES, Direction, Objective
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DefinitionError
from fastrcaps_search.front.criteria import Criteria, Preference, preferences, rules
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.front.selection import Candidate, Selection, select
from fastrcaps_search.report import text

if TYPE_CHECKING:
    from collections.abc import Iterator

LOSS = Objective(
    name="least_loss",
    direction=Direction.MINIMIZE,
    # Any positive number, which no unit of the package's own measures.
    scale=COUNTS.__class__(pattern=r"([0-9.]+)", typed="a number", number="a number above 0"),
    label="least loss",
    flag="max-least-loss",
    word="loss",
    best="lowest loss",
    held="a loss of at most {:g}",
    missed="loss {} too high",
    measure=lambda epochs, parameters: min(epoch.loss for epoch in epochs),
)
NAMES = [*OBJECTIVES.names, "least_loss"]


@pytest.fixture
def loss() -> Iterator[Objective]:
    """One more objective, for a while."""
    yield OBJECTIVES.register(LOSS)
    del OBJECTIVES._items["least_loss"]


def study(**more: object) -> StudyDefinition:
    return StudyDefinition.from_dict({"name": "s", "objectives": NAMES, **more})


def test_another_must_be_registered_and_measured(loss: Objective) -> None:
    assert study().objectives == tuple(NAMES)
    OBJECTIVES._items["least_loss"] = replace(loss, measure=None)
    with pytest.raises(DefinitionError, match=r"^objectives: must be measured, got least_loss"):
        study()


def test_bounds_weights_and_words_go_by_the_studys_own(loss: Objective) -> None:
    assert rules() == ["accuracy", "time", "size", "loss", "knee"]
    assert preferences().endswith("or weights=a,t,p,l")
    fronts = [
        Candidate(number, dict(zip(NAMES, row, strict=True)))
        for number, row in enumerate([(0.95, 10.0, 100, 0.2), (0.95, 9.0, 100, 0.3)])
    ]
    chosen = select(fronts, Criteria({"least_loss": 0.25}, Preference("time")))
    assert chosen == Selection(0, "the only trial on the front that fits")
    chosen = select(fronts, Criteria(prefer=Preference.read("loss")))
    assert chosen == Selection(0, "lowest loss of the 2 trials on the front")
    # Gaps of 1 and 0 in seconds, 0 and 1 in losses.
    chosen = select(fronts, Criteria(prefer=Preference.read("weights=1,2,1,3")))
    words = "accuracy 1, time 2, size 1, loss 3"
    assert isinstance(chosen, Selection)
    assert (chosen.number, words in chosen.why) == (0, True)
    assert Criteria.of({"max_least_loss": 0.1}, Preference()).bounds == ("a loss of at most 0.1",)


def test_its_box_spans_twenty_times_the_first_value_each_way(loss: Objective) -> None:
    one = StudyDefinition.from_dict({"name": "one", "network": "lenet5", "epochs": 1})
    box = Box.of(one, epoch_seconds=1, others={"least_loss": 2e-5})
    assert box.edges["least_loss"] == pytest.approx((4e-4, 1e-6))
    # All of accuracy, seconds and parameters; half of the four decades, but for rounding.
    best = {"accuracy": 1.0, "training_seconds": 0.05, "parameters": 61_706.0}
    assert box.share([{**best, "least_loss": 2e-5}]) == pytest.approx(0.5)


def test_small_values_do_not_look_like_nothing(loss: Objective) -> None:
    assert text.without_unit(loss, 0.00125) == "0.00125"
