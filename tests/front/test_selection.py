"""The choice against its rule taken literally, and against examples worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.errors import FastrcapsError, NothingFitsError
from fastrcaps_search.front.criteria import Criteria, Preference
from fastrcaps_search.front.selection import (
    Candidate,
    NothingFits,
    Selection,
    select,
    select_row,
)
from tests.triples import candidate_of, criteria_of

# Few distinct values beside any values, so that ties and equal rows are common.
ACCURACIES = st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.97, 1.0]) | st.floats(0, 1)
SECONDS = st.sampled_from([0.1, 1.0, 9.5, 30.0, 70.1]) | st.floats(0.001, 1e6)
PARAMETERS = st.sampled_from([100.0, 61_706.0, 1_483_312.0, 1_915_440.0, 8_215_728.0])
ROWS = st.tuples(ACCURACIES, SECONDS, PARAMETERS)
WEIGHTS = st.tuples(*[st.sampled_from([0.0, 0.1, 1.0, 3.0]) | st.floats(0, 1e3)] * 3)
NAMED = [Preference.read(word) for word in ("accuracy", "time", "size", "knee")]
PREFERENCES = st.sampled_from(NAMED) | WEIGHTS.filter(any).map(
    lambda weights: Preference.read("weights={!r},{!r},{!r}".format(*weights))
)


def dominates(first: Candidate, second: Candidate) -> bool:
    a = (-first.values["accuracy"], first.values["training_seconds"], first.values["parameters"])
    b = (
        -second.values["accuracy"],
        second.values["training_seconds"],
        second.values["parameters"],
    )
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


@st.composite
def fronts(draw: st.DrawFn) -> list[Candidate]:
    """Up to twelve trials of which none dominates another; some may be equal."""
    rows = draw(st.lists(ROWS, min_size=1, max_size=12))
    numbers = draw(st.permutations(range(len(rows))))
    trials = [candidate_of(n, *row) for n, row in zip(numbers, rows, strict=True)]
    return [one for one in trials if not any(dominates(other, one) for other in trials)]


Bounds = tuple[float | None, float | None, float | None]


@st.composite
def bounds(draw: st.DrawFn, front: list[Candidate]) -> Bounds:
    """Bounds that are values of the front, or any, or not given."""
    return (
        draw(st.none() | st.sampled_from([one.values["accuracy"] for one in front]) | ACCURACIES),
        draw(
            st.none()
            | st.sampled_from([one.values["training_seconds"] for one in front])
            | SECONDS
        ),
        draw(
            st.none() | st.sampled_from([one.values["parameters"] for one in front]) | PARAMETERS
        ),
    )


@st.composite
def met_bounds(
    draw: st.DrawFn, front: list[Candidate], chosen: Candidate
) -> tuple[float, float, float]:
    """Bounds at values of the front that the chosen trial meets, some of them exactly."""
    accuracies = [
        one.values["accuracy"]
        for one in front
        if one.values["accuracy"] <= chosen.values["accuracy"]
    ]
    seconds = [one.values["training_seconds"] for one in front]
    parameters = [one.values["parameters"] for one in front]
    return (
        draw(st.sampled_from(accuracies)),
        draw(
            st.sampled_from([one for one in seconds if one >= chosen.values["training_seconds"]])
        ),
        draw(st.sampled_from([one for one in parameters if one >= chosen.values["parameters"]])),
    )


def fits(one: Candidate, criteria: Criteria) -> bool:
    a, t, p = (criteria.limits.get(name) for name in COMMON)
    if a is not None and one.values["accuracy"] < a:
        return False
    if t is not None and one.values["training_seconds"] > t:
        return False
    return p is None or one.values["parameters"] <= p


def first_of(trials: list[Candidate], *orders: Any) -> Candidate:  # noqa: ANN401
    """Keep those of the smallest value, by one order after the other, until one is left."""
    for order in orders:
        smallest = min(map(order, trials))
        trials = [one for one in trials if order(one) == smallest]
    (only,) = trials
    return only


def higher(one: Candidate) -> float:
    return -one.values["accuracy"]


def faster(one: Candidate) -> float:
    return one.values["training_seconds"]


def smaller(one: Candidate) -> float:
    return one.values["parameters"]


def lower_number(one: Candidate) -> float:
    return one.number


def ranges(front: list[Candidate]) -> list[float]:
    columns = [list(map(order, front)) for order in (higher, faster, smaller)]
    return [max(column) - min(column) for column in columns]


def distance_to_ideal(front: list[Candidate], one: Candidate, weights: Any) -> Any:  # noqa: ANN401
    """The weighted sum of the gaps, each over its range; exact if the weights are fractions."""
    total: Any = 0
    orders = (higher, faster, smaller)
    for weight, order, span in zip(weights, orders, ranges(front), strict=True):
        kind = type(weight)
        gap = kind(order(one)) - kind(min(map(order, front)))
        total = total + weight * (gap / kind(span) if span else kind(0))
    return total


def expected(front: list[Candidate], criteria: Criteria) -> Candidate | None:
    """The trial that the rule names, taken literally."""
    fitting = [one for one in front if fits(one, criteria)]
    if not fitting:
        return None
    rule = str(criteria.prefer.rule)
    if rule == "accuracy":
        return first_of(fitting, higher, faster, smaller, lower_number)
    if rule == "time":
        return first_of(fitting, faster, higher, smaller, lower_number)
    if rule == "size":
        return first_of(fitting, smaller, higher, faster, lower_number)
    weights = criteria.prefer.weights or (1.0, 1.0, 1.0)
    return first_of(
        fitting,
        lambda one: distance_to_ideal(front, one, weights),
        *(higher, faster, smaller, lower_number),
    )


@given(st.data(), fronts(), PREFERENCES)
def test_the_choice_is_what_the_rule_says(
    data: st.DataObject, front: list[Candidate], prefer: Preference
) -> None:
    criteria = criteria_of(*data.draw(bounds(front)), prefer)
    found = select(front, criteria)
    wanted = expected(front, criteria)
    if wanted is None:
        assert isinstance(found, NothingFits)
    else:
        assert isinstance(found, Selection)
        assert found.number == wanted.number


@given(fronts(), PREFERENCES, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    front: list[Candidate], prefer: Preference, random: Random
) -> None:
    strict = criteria_of(1.0, 0.0001, 1, prefer)
    shuffled = random.sample(front, len(front))
    for criteria in (criteria_of(prefer=prefer), strict):
        assert select(shuffled, criteria) == select(front, criteria)


@given(st.data(), fronts(), PREFERENCES)
def test_a_bound_that_the_chosen_trial_meets_changes_nothing(
    data: st.DataObject, front: list[Candidate], prefer: Preference
) -> None:
    criteria = criteria_of(*data.draw(bounds(front)), prefer)
    before = select(front, criteria)
    if isinstance(before, NothingFits):
        return
    chosen = next(one for one in front if one.number == before.number)
    low, longest, most = data.draw(met_bounds(front, chosen))
    tighter = criteria_of(
        max(low, criteria.limits.get("accuracy") or 0.0),
        min(longest, criteria.limits.get("training_seconds") or math.inf),
        min(most, criteria.limits.get("parameters") or math.inf),
        prefer,
    )
    after = select(front, tighter)
    assert isinstance(after, Selection)
    assert after.number == before.number


@given(fronts(), st.data())
def test_weights_of_one_are_the_knee_and_accuracy_alone_is_accuracy(
    front: list[Candidate], data: st.DataObject
) -> None:
    limits = data.draw(bounds(front))
    for weights, word in (("weights=1,1,1", "knee"), ("weights=2,0,0", "accuracy")):
        found, wanted = (
            select(front, criteria_of(*limits, Preference.read(text))) for text in (weights, word)
        )
        if isinstance(wanted, Selection):
            assert isinstance(found, Selection)
            assert found.number == wanted.number


# Ranges of 1, 64 and 1024, and quarters of them: floats have no rounding here.
QUARTERS = st.tuples(*[st.integers(0, 4)] * 3)


@given(st.lists(QUARTERS, max_size=10), st.sampled_from([(1, 1, 1), (4, 1, 2), (0, 3, 1)]))
def test_the_distance_is_exact_where_floats_are(
    quarters: list[tuple[int, int, int]], weights: tuple[int, int, int]
) -> None:
    trials = [
        candidate_of(number, a / 4, 16.0 + 16 * t, 256.0 + 256 * p)
        for number, (a, t, p) in enumerate([(0, 0, 0), (4, 4, 4), *quarters])
    ]
    prefer = Preference.read("weights={},{},{}".format(*weights))
    exact = tuple(map(Fraction, weights))
    wanted = first_of(
        trials,
        lambda one: distance_to_ideal(trials, one, exact),
        *(higher, faster, smaller, lower_number),
    )
    found = select(trials, criteria_of(prefer=prefer))
    assert isinstance(found, Selection)
    assert found.number == wanted.number


@given(st.data(), fronts())
def test_the_nearest_are_those_of_least_shortfall(
    data: st.DataObject, front: list[Candidate]
) -> None:
    criteria = criteria_of(*data.draw(bounds(front)))
    found = select(front, criteria)
    if isinstance(found, Selection):
        return

    def shortfall(one: Candidate) -> float:
        spans = ranges(front)
        total = 0.0
        a, t, p = (criteria.limits.get(name) for name in COMMON)
        if a is not None:
            total += max(0.0, a - one.values["accuracy"]) / (
                spans[0] if spans[0] else a if a else 1.0
            )
        if t is not None:
            total += max(0.0, one.values["training_seconds"] - t) / (spans[1] if spans[1] else t)
        if p is not None:
            total += max(0.0, one.values["parameters"] - p) / (spans[2] if spans[2] else p)
        return total

    left = list(front)
    wanted: list[tuple[int, float]] = []
    while left and len(wanted) < 3:
        nearest = first_of(left, shortfall, higher, faster, smaller, lower_number)
        wanted.append((nearest.number, shortfall(nearest)))
        left.remove(nearest)
    assert [(miss.number, miss.shortfall) for miss in found.nearest] == wanted
    assert all(miss.missed for miss in found.nearest)


# Best 0.98, 100 s, 1,000; ranges 0.08, 400 s, 3,000. Distances: trial 4: 1 + 0 + 0; trial 5:
# 1/4 + 1/4 + 1/3; trial 6: 0 + 1 + 1; trial 7 as 5.
HAND = [
    candidate_of(4, 0.90, 100.0, 1_000),
    candidate_of(7, 0.96, 200.0, 2_000),
    candidate_of(6, 0.98, 500.0, 4_000),
    candidate_of(5, 0.96, 200.0, 2_000),
]


@pytest.mark.parametrize(
    ("criteria", "number", "why"),
    [
        (criteria_of(), 6, "highest accuracy of the 4 trials on the front"),
        (
            criteria_of(max_seconds=200),
            5,
            "highest accuracy of the 3 trials on the front that fit",
        ),
        (
            criteria_of(prefer=Preference.read("time")),
            4,
            "shortest training time of the 4 trials on the front",
        ),
        (
            criteria_of(0.96, prefer=Preference.read("size")),
            5,
            "fewest parameters of the 3 trials on the front that fit",
        ),
        (
            criteria_of(prefer=Preference.read("knee")),
            5,
            "closest to the best value of every objective at once (knee) of the 4 trials on the "
            "front",
        ),
        # The scale is that of the whole front: of 5, 7 and 6 alone, both would be 1 away from 6.
        (
            criteria_of(0.95, prefer=Preference.read("knee")),
            5,
            "closest to the best value of every objective at once (knee) of the 3 trials on the "
            "front that fit",
        ),
        # Trial 4: 0.5; 5 and 7: 0.125 + 0.25 + 0.33; 6: 2.
        (
            criteria_of(prefer=Preference.read("weights=0.5,1,1")),
            4,
            "closest to the best value of every objective at once (weights: accuracy 0.5, time 1, "
            "size 1) of the 4 trials on the front",
        ),
        (criteria_of(0.97), 6, "the only trial on the front that fits"),
    ],
)
def test_choices_by_hand(criteria: Criteria, number: int, why: str) -> None:
    assert select(HAND, criteria) == Selection(number, why)


def test_the_whole_front_gives_the_scale() -> None:
    # Over the whole front, 0.10, 90 s: trial 1 is 0.2 + 6/9 = 0.87 away, trial 2 is 0.0 + 1.
    # Over the two that fit, 0.02 and 30 s, trial 1 would be 1 + 0 away and trial 2 0 + 1, a tie
    # that the higher accuracy of trial 2 would win.
    front = [
        candidate_of(0, 0.90, 10.0, 100),
        candidate_of(1, 0.98, 70.0, 100),
        candidate_of(2, 1.00, 100.0, 100),
    ]
    found = select(front, criteria_of(0.95, prefer=Preference.read("knee")))
    assert isinstance(found, Selection)
    assert found.number == 1


def test_seconds_and_parameters_are_preferred_before_the_other_values() -> None:
    fast = [candidate_of(0, 0.90, 10.0, 100), candidate_of(1, 0.95, 10.0, 200)]
    small = [candidate_of(0, 0.90, 10.0, 100), candidate_of(1, 0.95, 20.0, 100)]
    for word, front in (("time", fast), ("size", small)):
        found = select(front, criteria_of(prefer=Preference.read(word)))
        assert isinstance(found, Selection)
        assert found.number == 1


def test_the_distance_is_summed_from_left_to_right() -> None:
    # Quarters of the ranges 1, 4 s and 4. In tenths of them, trial 3 is 0 + 0.075 + 0.075 away
    # and trial 4 0.075 + 0.05 + 0.025, which from the left is one bit less than 0.15, from the
    # right the same. Without weights both are 1.5 away, and trial 3 has the higher accuracy.
    quarters = [(0, 4, 4), (4, 0, 4), (4, 4, 0), (0, 3, 3), (3, 2, 1)]
    front = [candidate_of(n, 1 - a / 4, 1.0 + t, 1.0 + p) for n, (a, t, p) in enumerate(quarters)]
    for text, number in (("weights=0.1,0.1,0.1", 4), ("knee", 3)):
        found = select(front, criteria_of(prefer=Preference.read(text)))
        assert isinstance(found, Selection)
        assert found.number == number


def test_the_shortfall_is_summed_from_left_to_right() -> None:
    found = select([candidate_of(0, 0.5, 12.0, 110)], criteria_of(1, 10, 100))
    assert isinstance(found, NothingFits)
    assert found.nearest[0].shortfall == (0.5 + 0.2) + 0.1
    assert found.nearest[0].shortfall != 0.5 + (0.2 + 0.1)


def test_shortfalls_by_hand() -> None:
    found = select(HAND, criteria_of(0.97, 150, 2_500))
    assert isinstance(found, NothingFits)
    # Trial 5 and 7: 0.01/0.08 + 50/400; 4: 0.07/0.08; 6, the fourth: 350/400 + 1500/3000.
    assert [miss.number for miss in found.nearest] == [5, 7, 4]
    assert [miss.shortfall for miss in found.nearest] == pytest.approx([0.25, 0.25, 0.875])
    assert [miss.missed for miss in found.nearest] == [
        "accuracy 1.00 percentage points too low and 50.00 s too long",
        "accuracy 1.00 percentage points too low and 50.00 s too long",
        "accuracy 7.00 percentage points too low",
    ]


def test_the_shortfall_of_a_front_without_range_is_a_share_of_the_bound() -> None:
    found = select([candidate_of(3, 0.9, 10.0, 100)], criteria_of(0.96, 8, 80))
    assert isinstance(found, NothingFits)
    (miss,) = found.nearest
    # 0.06/0.96 + 2/8 + 20/80
    assert miss.shortfall == pytest.approx(0.5625)
    assert miss.missed == (
        "accuracy 6.00 percentage points too low, 2.00 s too long and 20 parameters too many"
    )


def test_a_miss_by_a_hair_is_not_called_zero() -> None:
    found = select([candidate_of(0, 0.98595, 10.0, 100)], criteria_of(0.986))
    assert isinstance(found, NothingFits)
    assert found.nearest[0].missed == "accuracy 0.005 percentage points too low"


@pytest.mark.parametrize("prefer", NAMED)
def test_a_single_trial_is_chosen_whatever_is_preferred(prefer: Preference) -> None:
    assert select([candidate_of(8, 0.9, 10.0, 100)], criteria_of(prefer=prefer)) == Selection(
        8, "the only trial on the front"
    )


def test_an_empty_front_needs_a_complete_trial() -> None:
    with pytest.raises(FastrcapsError, match=r"^select needs a complete trial, but the study has"):
        select([], criteria_of())


def row_of(number: int, accuracy: float | None, seconds: float, parameters: int) -> dict[str, Any]:
    values = {"accuracy": accuracy, "training_seconds": seconds, "parameters": parameters}
    return {"trial": number, "state": "complete", "values": values}


def test_a_row_keeps_its_keys_and_adds_why() -> None:
    rows = [row_of(2, 0.9, 10.0, 100), row_of(0, 0.8, 5.0, 100)]
    found = select_row(rows, criteria_of(prefer=Preference.read("time")))
    assert found == rows[1] | {"why": "shortest training time of the 2 trials on the front"}
    assert "why" not in rows[1]


def test_a_refusal_names_what_must_hold_and_the_only_trial() -> None:
    with pytest.raises(NothingFitsError) as caught:
        select_row([row_of(2, 0.9, 10.0, 8_215_728)], criteria_of(max_parameters=7_000_000))
    assert str(caught.value) == (
        "the trial must have at most 7,000,000 parameters, but the only trial on the front does "
        "not; nearest: trial 2 (1,215,728 parameters too many); loosen a bound or run more trials"
    )
