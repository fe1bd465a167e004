"""What may be asked: every bound and preference, what is refused and in which words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fastrcaps_search.errors import UsageError
from fastrcaps_search.front.criteria import Preference
from tests.triples import criteria_of


def test_nothing_is_asked_but_accuracy_by_default() -> None:
    assert criteria_of() == criteria_of(None, None, None, Preference("accuracy"))
    assert criteria_of().bounds == ()


def test_bounds_become_floats_and_are_said_in_words() -> None:
    half: Any = np.float32(0.5)
    millions: Any = np.int64(7_000_000)
    criteria = criteria_of(half, 90, millions)
    assert criteria == criteria_of(0.5, 90.0, 7_000_000.0)
    assert [type(criteria.limits[name]) for name in ("accuracy", "parameters")] == [
        float,
        float,
    ]
    assert criteria.bounds == (
        "accuracy of at least 50 %",
        "at most 90 s of training",
        "at most 7,000,000 parameters",
    )
    assert criteria_of(0.07, 1.5).bounds == (
        "accuracy of at least 7 %",
        "at most 1.5 s of training",
    )


def test_the_ends_of_the_ranges_may_be_asked() -> None:
    assert criteria_of(0, 5e-324, 1).limits == {
        "accuracy": 0.0,
        "training_seconds": 5e-324,
        "parameters": 1.0,
    }
    assert criteria_of(1).limits == {"accuracy": 1.0}


@pytest.mark.parametrize("value", [98.5, -0.1, math.nan, math.inf, True, "0.9", 1 + 1e-9])
def test_an_accuracy_is_a_fraction(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(
        UsageError, match=r"^min_accuracy must be a fraction from 0 to 1 \(98.5 % is 0.985\), got "
    ):
        criteria_of(min_accuracy=value)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, False, "1", 10**400])
def test_seconds_are_finite_and_above_zero(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(UsageError, match=r"^max_seconds must be finite seconds above 0, got "):
        criteria_of(max_seconds=value)


@pytest.mark.parametrize("value", [0, -3, 1.5, math.nan, math.inf, True, "5", 10**400])
def test_parameters_are_a_whole_number_above_zero(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(UsageError, match=r"^max_parameters must be a whole number above 0, got "):
        criteria_of(max_parameters=value)


@pytest.mark.parametrize("word", ["accuracy", "time", "size", "knee"])
def test_a_word_is_a_preference(word: str) -> None:
    assert Preference.read(word) == Preference(word, None)


def test_weights_are_read_as_floats() -> None:
    assert Preference.read("weights=1,0.5,2e-1") == Preference("weights", (1.0, 0.5, 0.2))
    assert Preference("weights", (1, 0, 0)).weights == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("text", ["speed", "", "weights", "KNEE", 3, None, ["knee"]])
def test_other_words_are_refused(text: Any) -> None:  # noqa: ANN401
    with pytest.raises(
        UsageError, match=r"^prefer must be accuracy, time, size, knee or weights=a,t,p, got "
    ):
        Preference.read(text)


@pytest.mark.parametrize("text", ["weights=", "weights=1,2", "weights=1,2,3,4", "weights=1;2;3"])
def test_weights_are_three_numbers(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"with a number for each objective, as in weights=1,0\.5,2"
    ):
        Preference.read(text)


@pytest.mark.parametrize(
    "weights",
    [None, (0, 0, 0), (1, -1, 1), (math.nan, 1, 1), (1, math.inf, 1), (1, 1), ("1", "1", "1")],
)
def test_weights_that_weigh_nothing_are_refused(weights: Any) -> None:  # noqa: ANN401
    match = "^weights must be finite numbers of at least 0, one each of accuracy, time and size, "
    with pytest.raises(UsageError, match=match):
        Preference("weights", weights)


def test_weights_belong_to_their_rule() -> None:
    with pytest.raises(UsageError, match=r"^weights must be left out with knee, got \[1, 1, 1\]"):
        Preference("knee", (1, 1, 1))
