from __future__ import annotations

from typing import Any

import pytest

from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.crews import Wanted, candidates, fastest, reason
from fastrcaps_search.store.crews import Crew


@pytest.mark.parametrize(
    ("cores", "most", "crews"),
    [
        (1, 9, [(1, 1)]),
        (2, 9, [(1, 2), (2, 1)]),
        (3, 9, [(1, 3), (3, 1)]),  # 2 x 1 would leave a core idle
        (4, 9, [(1, 4), (2, 2), (4, 1)]),
        (5, 9, [(1, 5), (2, 2), (4, 1)]),
        (6, 9, [(1, 6), (3, 2), (4, 1)]),  # three are enough: not 2 x 3
        (8, 9, [(1, 8), (2, 4), (4, 2)]),  # 3 x 2 would leave cores idle
        (16, 9, [(1, 16), (2, 8), (4, 4)]),  # 3 x 5 would leave a core idle
        (64, 9, [(1, 64), (2, 32), (4, 16)]),
        (8, 1, [(1, 8)]),  # a study of one training
        (8, 2, [(1, 8), (2, 4)]),
    ],
)
def test_crews_worth_comparing(cores: int, most: int, crews: list[tuple[int, int]]) -> None:
    found = candidates(cores, most=most)
    assert [(crew.workers, crew.threads) for crew in found] == crews
    assert all(crew.workers * crew.threads <= cores for crew in found)


ONE, TWO, FOUR = Crew(1, 4), Crew(2, 2), Crew(4, 1)


@pytest.mark.parametrize(
    ("rates", "chosen", "why"),
    [
        ({ONE: 100.0, TWO: 130.0}, TWO, "chosen: 1.3x the images/s of 1 worker with 4"),
        ({ONE: 300.0, TWO: 200.0}, ONE, "chosen: 1.5x the images/s of 2 workers with 2"),
        (
            {ONE: 90.0, TWO: 100.0, FOUR: 220.0},
            FOUR,
            "chosen: 2.2x the images/s of 2 workers with 2",
        ),
        # Near ties: more workers, whose trials end at more times.
        ({ONE: 104.0, TWO: 100.0}, TWO, "chosen: about as fast as 1 worker with 4"),
        ({ONE: 106.0, TWO: 100.0}, ONE, "chosen: 1.1x the images/s of 2 workers with 2"),
        ({ONE: 100.0, TWO: 104.0, FOUR: 101.0}, FOUR, "chosen: about as fast as 2 workers with 2"),
        ({ONE: 100.0}, ONE, ""),
    ],
)
def test_the_fastest_is_chosen(rates: dict[Crew, float], chosen: Crew, why: str) -> None:
    assert fastest(rates) == chosen
    assert reason(chosen, rates) == why


def test_workers_are_asked_for_in_all_or_per_device() -> None:
    assert Wanted().chooses
    assert Wanted().crew(2, cores=8) is None
    all_in_all = Wanted(workers=3)
    assert not all_in_all.chooses
    assert (all_in_all.total(1), all_in_all.total(2)) == (3, 3)
    assert all_in_all.crew(1, cores=8) == Crew(3, 2)
    assert all_in_all.crew(2, cores=8) == Crew(2, 2)  # two on one card and one on the other
    each = Wanted(workers_per_device=3)
    assert not each.chooses
    assert (each.total(1), each.total(2)) == (3, 6)
    assert each.crew(1, cores=8) == Crew(3, 2)
    assert each.crew(2, cores=8) == Crew(3, 1)
    assert Wanted(workers=16).crew(1, cores=8) == Crew(16, 1)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"workers": 0}, r"^workers must be a whole number of at least 1, got 0$"),
        ({"workers": "two"}, r"^workers must be a whole number of at least 1, got 'two'$"),
        ({"workers_per_device": -1}, "^workers per device must be a whole number of at least 1, "),
        (
            {"workers": 2, "workers_per_device": 3},
            r"^workers must be given for the whole run or per device, got both \(2 and 3\); leave "
            "one of them out$",
        ),
    ],
)
def test_workers_that_cannot_be(given: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        Wanted(**given)
