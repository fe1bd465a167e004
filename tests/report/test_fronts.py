"""The front in every measure and what is attained, against brute force."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.analysis.rows import front_rows, trial_row
from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.report.fronts import Row, TimeAxis, fronts, pairs_of
from tests.report.views import many, view_of
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.report.conftest import Records

# Few values, so that ties and duplicates come up.
ROW = st.tuples(
    st.sampled_from([0.5, 0.9, 0.91, 0.97]),
    st.sampled_from([1.0, 2.5, 40.0, 41.0]),
    st.sampled_from([100.0, 2_000.0, 2_001.0]),
)
ROWS = st.dictionaries(
    st.integers(0, 60), ROW.map(lambda row: values_of(*row)), min_size=1, max_size=25
)


def beats(first: Row, second: Row, names: tuple[str, ...]) -> bool:
    """Whether ``first`` is nowhere worse and somewhere better."""
    gains = [(first[name] - second[name]) * (1 if name == "accuracy" else -1) for name in names]
    return min(gains) >= 0 and max(gains) > 0


@given(ROWS)
def test_front_and_corners_equal_brute_force(rows: dict[int, Row]) -> None:
    (front,) = fronts({TimeAxis.STEPS: rows, TimeAxis.PAPER: {}}, ()).values()
    left = [
        number
        for number, row in rows.items()
        if not any(beats(other, row, COMMON) for other in rows.values())
    ]
    assert front.axis is TimeAxis.STEPS
    assert front.numbers == sorted(
        left, key=lambda n: (-rows[n]["accuracy"], rows[n]["training_seconds"], n)
    )
    for pair, corners in front.attained.items():
        places = {
            (row[pair.x.name], row[pair.y.name])
            for row in rows.values()
            if not any(beats(other, row, (pair.x.name, pair.y.name)) for other in rows.values())
        }
        assert list(corners) == sorted(places)


def test_the_front_by_seconds_is_that_of_the_command(records: Records) -> None:
    for trials in (records.trials(), many(records, 120)):
        view = view_of(records.study(), trials)
        numbers = view.fronts[TimeAxis.SECONDS].numbers
        assert numbers == front_numbers(trials) == [trial.number for trial in view.front]
        assert [trial_row(trials[number]) for number in numbers] == front_rows(trials)


def test_each_measure_has_its_own_front(records: Records) -> None:
    # The slow one took fewer epochs; all else is equal, so each wins where it is faster.
    slow, fast = records.complete(0, 0.9, 100.0, 5), records.complete(1, 0.9, 10.0, 5)
    slow = replace(slow, runs=(replace(slow.runs[0], best_epoch=2),))
    found = view_of(records.study(), [slow, fast]).fronts
    assert {axis: front.numbers for axis, front in found.items()} == {
        TimeAxis.SECONDS: [1],
        TimeAxis.EPOCHS: [0],
        TimeAxis.SAMPLES: [0],
        TimeAxis.STEPS: [0],
        # Two epochs of 20 s against five of 2 s.
        TimeAxis.PAPER: [1],
    }


def test_a_measure_that_no_trial_has_gives_no_front() -> None:
    assert fronts({axis: {} for axis in TimeAxis}, ()) == {}


def test_attained_corners_by_hand(records: Records) -> None:
    front = view_of(records.study(), records.trials()).fronts[TimeAxis.SECONDS]
    assert list(front.attained) == pairs_of(COMMON)
    assert tuple(front.attained.values()) == (
        ((62.3, 0.921), (79.9, 0.944), (94.0, 0.970)),
        ((1_483_312.0, 0.948), (1_841_712.0, 0.962), (1_915_440.0, 0.970)),
        ((62.3, 1_557_040.0), (79.9, 1_483_312.0)),
    )
    assert [pair.name for pair in front.attained] == [
        "projection-time-accuracy",
        "projection-size-accuracy",
        "projection-time-size",
    ]
