"""Which accuracy is better than guessing, against scipy and the real labels."""

from __future__ import annotations

import pytest
from scipy import stats  # type: ignore[import-untyped]  # it ships no types

from fastrcaps_search.data.data_set import DataSet
from fastrcaps_search.data.shipped import FASHION_MNIST, MNIST, MNIST_MINI
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.study import StudyDefinition, least_above_guessing
from fastrcaps_search.errors import DefinitionError


@pytest.mark.parametrize("images", [1, 2, 3, 10, 100, 500, 5_000, 10_000])
@pytest.mark.parametrize("guessing", [0.01, 0.1, 0.1054, 0.1135, 0.5, 0.9])
def test_it_is_the_first_number_with_a_small_tail(images: int, guessing: float) -> None:
    least = least_above_guessing(images, guessing)
    # scipy's sf(k) is P(X > k).
    assert stats.binom.sf(least - 1, images, guessing) <= 1e-3
    assert stats.binom.sf(least - 2, images, guessing) > 1e-3
    assert 1 <= least <= images + 1


def test_by_hand() -> None:
    # Of coins, ten heads have 2^-10 < 0.1 %, nine or more 11/1024.
    assert least_above_guessing(10, 0.5) == 10
    # Nine heads of nine, 2^-9, are no proof: there is no number that is.
    assert least_above_guessing(9, 0.5) == 10


@pytest.mark.parametrize(
    ("data_set", "evaluate_on", "most", "images"),
    [
        # The first class of the MNIST test set is the 1: 1,135 images.
        (MNIST, EvaluateOn.TEST, 1_135, 10_000),
        (FASHION_MNIST, EvaluateOn.TEST, 1_000, 10_000),
        (MNIST, EvaluateOn.VALIDATION, 563, 5_000),
        (FASHION_MNIST, EvaluateOn.VALIDATION, 527, 5_000),
        (MNIST_MINI, EvaluateOn.VALIDATION, 50, 500),
    ],
)
def test_a_study_knows_its_bound(
    data_set: DataSet, evaluate_on: EvaluateOn, most: int, images: int
) -> None:
    study = StudyDefinition.from_dict(
        {"name": "s", "network": "lenet5", "data_set": data_set, "evaluate_on": evaluate_on}
    )
    assert study.guessing_accuracy == most / images
    right = round(study.least_feasible_accuracy * images)
    assert study.least_feasible_accuracy == right / images
    assert right == stats.binom.isf(1e-3, images, most / images) + 1


@pytest.mark.parametrize("value", [0, -0.1, 1.01, "0.9", True, float("nan")])
def test_min_accuracy_is_a_fraction(value: object) -> None:
    with pytest.raises(DefinitionError, match="min_accuracy: must be a number above 0 and at mos"):
        StudyDefinition.from_dict({"name": "s", "min_accuracy": value})


def test_min_accuracy_is_absent_unless_asked_for() -> None:
    plain = StudyDefinition.from_dict({"name": "s"})
    assert plain.min_accuracy is None
    asked = StudyDefinition.from_dict({"name": "s", "min_accuracy": 1})
    assert asked.min_accuracy == 1.0
    assert asked != plain
    assert StudyDefinition.from_dict(asked.to_dict()) == asked
