"""The hypervolume in a fixed box, by hand, by random points and by adding trials."""

from __future__ import annotations

import json
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.hypervolume import Box
from tests.triples import box_of, values_of

# One unit of accuracy, two decades of seconds, one decade of parameters.
BOX = box_of(accuracy=(0.0, 1.0), training_seconds=(100.0, 1.0), parameters=(1e6, 1e5))

VALUES = st.tuples(
    st.floats(-0.5, 1.5), st.floats(0.0, 1e4), st.floats(0.0, 1e8) | st.just(math.nan)
)


def test_edges_by_hand() -> None:
    box = Box.of(load_study("mnist"), epoch_seconds=3.0)
    # 563 of the last 5,000 training labels are of class 1.
    assert box.edges["accuracy"] == (0.1126, 1.0)
    # 30 epochs of 3 s at a twentieth of the speed, one epoch at twenty times the speed.
    assert box.edges["training_seconds"] == pytest.approx((1800.0, 0.15))
    # 1.2246926^0.1 = 1.0204758 times the largest.
    assert box.edges["parameters"] == pytest.approx((8_383_952.0, 6_708_400.0), rel=1e-7)


def test_equal_networks_and_instant_epochs_leave_a_box() -> None:
    one = StudyDefinition.from_dict({"name": "one", "network": "lenet5", "epochs": 1})
    box = Box.of(one, epoch_seconds=0.0)
    assert box.edges["parameters"] == (123_412.0, 61_706.0)
    assert box.edges["training_seconds"] == pytest.approx((0.02, 0.00005))
    # Networks of one size cost nothing of the volume: half of the log span remains.
    middle = math.sqrt(0.02 * 0.00005)
    assert box.share([values_of(1.0, middle, 61_706.0)]) == pytest.approx(0.5)


def test_shares_by_hand() -> None:
    # 0.5 of the accuracy, half of the decades of seconds, all of the parameters.
    assert BOX.share([values_of(0.5, 10.0, 1e5)]) == pytest.approx(0.25)
    # 0.8 x 1 x 0.5 beside 0.5 x 1 x 1, which share 0.5 x 1 x 0.5.
    found = BOX.share([values_of(0.8, 1.0, 10**5.5), values_of(0.5, 1.0, 1e5)])
    assert found == pytest.approx(0.4 + 0.5 - 0.25)
    assert BOX.shares([values_of(0.5, 1.0, 1e5), values_of(0.8, 1.0, 10**5.5)]) == pytest.approx(
        [0.5, 0.65]
    )


def test_outside_of_the_box() -> None:
    # Better than an edge is as good as the edge, even no time at all.
    assert BOX.share([values_of(1.0, 0.0, 1.0)]) == 1.0
    assert (
        BOX.share([values_of(0.5, 0.01, 1e5)])
        == BOX.share([values_of(0.5, 1.0, 1e5)])
        == pytest.approx(0.5)
    )
    for values in [(0.0, 1.0, 1e5), (0.9, 100.0, 1e5), (0.9, 1.0, 2e6), (-1.0, 1.0, 1e5)]:
        assert BOX.share([values_of(*values)]) == 0.0
    for values in [(math.nan, 1.0, 1e5), (0.9, math.inf, 1e5), (0.9, 1.0, math.nan)]:
        assert BOX.share([values_of(*values)]) == 0.0
    assert BOX.share([]) == 0.0
    assert BOX.shares([]) == []


def test_equals_the_share_of_random_points_that_are_dominated() -> None:
    random = Random(5)
    trials = [
        (random.random(), 10 ** random.uniform(-0.5, 2.0), 10 ** random.uniform(4.8, 6.0))
        for _ in range(12)
    ]
    points = 40_000
    hit = 0
    for _ in range(points):
        accuracy = random.random()
        seconds, parameters = 10 ** random.uniform(0, 2), 10 ** random.uniform(5, 6)
        hit += any(a >= accuracy and s <= seconds and p <= parameters for a, s, p in trials)
    # Four standard errors of a share of 40,000 points.
    assert BOX.share([values_of(*trial) for trial in trials]) == pytest.approx(
        hit / points, abs=4 * 0.5 / math.sqrt(points)
    )


@given(st.lists(VALUES, max_size=12))
def test_only_grows_as_trials_are_added(
    values: list[tuple[float, float, float]],
) -> None:
    trials = [values_of(*three) for three in values]
    shares = BOX.shares(trials)
    assert shares == sorted(shares)
    assert all(0.0 <= share <= 1.0 for share in shares)
    beginnings = [BOX.share(trials[: count + 1]) for count in range(len(trials))]
    assert beginnings == pytest.approx(shares, abs=1e-12)


def test_json_and_back() -> None:
    stored = json.loads(json.dumps(BOX.edges))
    assert stored["training_seconds"] == [100.0, 1.0]
    assert Box.from_dict(stored) == BOX
