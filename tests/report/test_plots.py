"""Marks and texts: apart from each other and legible."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.lr_policies import LR_POLICIES
from fastrcaps_search.report import plots, text
from fastrcaps_search.report.plots import label, short
from tests.report.colours import contrast

if TYPE_CHECKING:
    from tests.report.conftest import Records


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    # The grey that WCAG's examples name as the lightest with 4.5:1 on white.
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_and_texts_stand_out(scheme: str) -> None:
    card = getattr(plots.CARD, scheme)
    for tone in (*plots.PALETTE, plots.ATTAINED):
        assert contrast(getattr(tone, scheme), card) >= 3.0
    # Links and failures are texts in these colours too.
    for tone in (plots.TEXT, plots.MUTED, plots.ACCENT, plots.BAD):
        assert contrast(getattr(tone, scheme), card) >= 4.5


def test_every_light_colour_has_one_dark_one() -> None:
    colours = plots.dark_colours()
    assert len(colours) == 8 + len(plots.PALETTE)
    assert len(set(colours.values())) == len(colours)


def test_no_two_policies_look_alike(records: Records) -> None:
    pairs = [
        (policy, batch)
        for policy, batch in itertools.product(LR_POLICIES.names, ["constant", "adabatch"])
        if policy != "warm_adabatch"
    ]
    found = [plots.mark(records.parameters_of(policy, batch)) for policy, batch in pairs]
    found.append(plots.mark(records.parameters_of("warm_adabatch", None, 4)))
    assert len({mark.policy for mark in found}) == 11
    assert len({mark.symbol for mark in found}) == 11
    assert len({mark.outline for mark in found}) == 11
    assert all(mark.outline for mark in found)


def test_plotly_labels_are_escaped() -> None:
    assert label("<b>a & b</b>") == "&lt;b&gt;a &amp; b&lt;/b&gt;"
    assert label(7) == "7"


def test_coordinates_have_seven_digits() -> None:
    assert short([1 / 3, 1_915_440.0, 123_456_789.0]) == [0.3333333, 1_915_440.0, 123_456_800.0]


def test_texts() -> None:
    assert text.percent(0.974) == "97.40\u00a0%"
    assert text.percent(None) == "–"
    assert text.percent(float("nan")) == "–"
    assert text.seconds(0.1234) == "0.12"
    assert text.seconds(83.24) == "83.2"
    assert text.seconds(12_345.6) == "12,346"
    assert text.count(8_215_728.0) == "8,215,728"
    assert text.count(2.5) == "2.5"
    assert text.duration(40.4) == "40 s"
    assert text.duration(720.0) == "12 min"
    assert text.duration(12_000.0) == "3 h 20 min"
    assert text.batches([1, 1, 16, 16, 2048]) == "1 → 16 → 2,048"
