"""Marks, axes and texts: apart from each other, legible, and right for one value as for many."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.choices import LrPolicy
from fastrcaps_search.definition.objective import ACCURACY, PARAMETERS, TRAINING_SECONDS
from fastrcaps_search.report import axes, marks, text
from fastrcaps_search.report.traces import label

if TYPE_CHECKING:
    from tests.report.conftest import Records


def test_contrast_is_that_of_the_standard() -> None:
    assert marks.contrast("#ffffff", "#000000") == pytest.approx(21.0)
    # The grey that WCAG's examples name as the lightest with 4.5:1 on white.
    assert marks.contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_and_texts_stand_out(scheme: str) -> None:
    card = getattr(marks.CARD, scheme)
    for tone in (*marks.COLOURS.values(), marks.ATTAINED):
        assert marks.contrast(getattr(tone, scheme), card) >= 3.0
    for tone in (marks.TEXT, marks.MUTED):
        assert marks.contrast(getattr(tone, scheme), card) >= 4.5


def test_every_light_colour_has_one_dark_one() -> None:
    colours = marks.dark_colours()
    assert len(colours) == 5 + len(LrPolicy)
    assert len(set(colours.values())) == len(colours)


def test_no_two_policies_look_alike(records: Records) -> None:
    pairs = [
        (policy, batch)
        for policy, batch in itertools.product(LrPolicy, ["constant", "adabatch"])
        if policy is not LrPolicy.WARM_ADABATCH
    ]
    found = [marks.mark(records.parameters_of(policy, batch)) for policy, batch in pairs]
    found.append(marks.mark(records.parameters_of("warm_adabatch", None, 4)))
    assert len({mark.policy for mark in found}) == 11
    assert len({mark.symbol for mark in found}) == 11
    assert all(mark.outline for mark in found)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([62.3, 171.0], [75, 100, 125, 150, 175]),
        ([3.0, 900.0], [10, 100, 1000]),
        ([30.0, 2000.0], [30, 100, 300, 1000]),
    ],
)
def test_ticks_of_seconds_are_round(values: list[float], ticks: list[float]) -> None:
    axis = axes.of(TRAINING_SECONDS, values)
    assert axis["tickvals"] == ticks
    low, high = (10**edge for edge in axis["range"])
    assert low < min(values) < max(values) < high
    assert all(low <= tick <= high for tick in axis["tickvals"])


@pytest.mark.parametrize("value", [1e-3, 0.5, 80.0, 123_456.0])
def test_a_single_value_stands_inside_its_axis(value: float) -> None:
    for objective in (TRAINING_SECONDS, PARAMETERS):
        axis = axes.of(objective, [value])
        low, high = axis["range"]
        if axis.get("type") == "log":
            low, high = 10**low, 10**high
        assert low < value < high


@pytest.mark.parametrize("values", [[1.0], [0.0], [0.5, 1.0], [0.9712, 0.9714]])
def test_accuracy_stays_near_what_can_be(values: list[float]) -> None:
    low, high = axes.of(ACCURACY, values)["range"]
    assert low < min(values) <= max(values) < high
    assert high <= 1.1


def test_seconds_of_zero_get_a_linear_axis() -> None:
    assert "type" not in axes.of(TRAINING_SECONDS, [0.0, 3.0])


def test_plotly_labels_are_escaped() -> None:
    assert label("<b>a & b</b>") == "&lt;b&gt;a &amp; b&lt;/b&gt;"


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
    assert text.numbered("trial", [3]) == "trial 3"
    assert text.numbered("trial", range(9), limit=2) == "trials 0, 1 and 7 more"
    assert text.listed([]) == "–"
