"""Numbers of things as sentences have them."""

from __future__ import annotations

from fastrcaps_search.words import numbered, plural


def test_one_and_several() -> None:
    assert [plural(number, "run") for number in (0, 1, 2, 1200)] == [
        *("0 runs", "1 run", "2 runs", "1,200 runs")
    ]
    assert numbered("trial", [3]) == "trial 3"
    assert numbered("trial", range(9), limit=2) == "trials 0, 1 and 7 more"
    assert numbered("batch size", range(1, 8), limit=None) == "batch sizes 1, 2, 3, 4, 5, 6, 7"
