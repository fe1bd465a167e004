"""The table of the front beside its most accurate trial."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastrcaps_search.report.page import page
from fastrcaps_search.report.panels import pairs
from fastrcaps_search.report.trials import MOST_SHOWN
from fastrcaps_search.report.view import ReportView

if TYPE_CHECKING:
    from fastrcaps_search.report.view import ReportView
    from tests.report.conftest import Records


def right(*wrong: int) -> bytes:
    bits = np.ones(500, dtype=bool)
    bits[list(wrong)] = False
    return np.packbits(bits).tobytes()


def view(records: Records) -> ReportView:
    """Trial 5 is the most accurate; of 2 the second run is compared, of 9 nothing is stored."""
    trials = records.trials()
    first = trials[2].runs[0]
    runs = (replace(first, accuracy=0.955), replace(first, run=1, accuracy=0.969))
    trials[2] = replace(trials[2], runs=runs)
    hits = {
        (5, 0): right(*range(10)),
        (2, 0): right(),
        (2, 1): right(*range(8, 20)),
        (8, 0): right(*range(10)),
        (7, 0): right(*range(100)),
    }
    return ReportView(records.study(), trials, hits=hits)


def test_each_trial_beside_the_most_accurate_one(records: Records) -> None:
    found = pairs.gather(view(records))
    assert found is not None
    assert found.best == 5
    assert [row[:5] for row in found.rows] == [
        # Images 0 to 7 only by trial 2, 10 to 19 only by trial 5.
        ("2", "1", "96.90\u00a0%", "8", "10"),
        ("9", "0", "94.80\u00a0%", "which images they have right is not stored"),
        ("8", "0", "94.40\u00a0%", "0", "0"),
        ("7", "0", "92.10\u00a0%", "0", "90"),
    ]


def test_the_page_says_it(records: Records) -> None:
    text = page(view(records))
    table = text.split('id="pairs-table"')[1].split("</table>")[0]
    rows = [row.split("</tr>")[0] for row in table.split("<tr>")[2:]]
    assert len(rows) == 4
    for words in (">8<", ">10<", ">-0.40<", ">0.81<"):
        assert words in rows[0]
    assert "which images they have right is not stored" in rows[1]
    assert "&lt; 0.0001" in rows[3]
    assert "beside trial 5, the most accurate" in text
    assert "first one's accuracy" not in text


def test_a_front_of_one_has_no_pairs_and_a_long_one_is_cut(records: Records) -> None:
    found = ReportView(records.study(), records.trials()[:1])
    assert pairs.gather(found) is None
    assert "pairs-table" not in page(found)
    many = [records.complete(n, 0.9, 10.0, 5) for n in range(MOST_SHOWN + 6)]
    listed = pairs.gather(ReportView(records.study(), many))
    assert listed is not None
    assert len(listed.rows) == MOST_SHOWN - 1
