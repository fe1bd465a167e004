"""The page as a reader meets it: in a real browser, from a file, without a network."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from fastrcaps_search.report import text
from fastrcaps_search.store.records import Failure, Values
from fastrcaps_search.store.trials import TrialRecord

if TYPE_CHECKING:
    from tests.report.conftest import Opened, Records

PROJECTIONS = [
    "projection-time-accuracy",
    "projection-size-accuracy",
    "projection-time-size",
]
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>\u2028&amp;{{ 7 * 7 }}"


def better(first: Values, second: Values) -> bool:
    """Whether ``first`` dominates ``second``, written out."""
    no_worse = (
        first.accuracy >= second.accuracy
        and first.training_seconds <= second.training_seconds
        and first.parameters <= second.parameters
    )
    return no_worse and first != second


def front_by_brute_force(trials: list[TrialRecord]) -> set[int]:
    valued = [(trial.number, trial.values) for trial in trials if trial.values is not None]
    return {
        number
        for number, values in valued
        if not any(better(other, values) for _, other in valued)
    }


def test_a_study_is_drawn_whole_and_in_silence(full: Opened) -> None:
    page = full.page
    assert full.path.stat().st_size < 8_000_000

    for name in PROJECTIONS:
        place = page.locator(f"#{name}")
        assert place.locator(".points path.point").count() == 11
        assert place.locator(".lines path").count() == 1
        shown = [text for text in place.locator(".textpoint").all_text_contents() if text]
        # Of 5, 2, 9, 8 and 7 each has its number beside it, where it covers no other.
        assert set(shown) <= set("25789")
        assert len(shown) >= 4
    full.draw_all()
    # Eleven complete trials and the running one, which has two epochs of five.
    assert page.locator("#curves .lines path").count() == 12
    assert page.locator("#curves .points path.point").count() == 11 * 5 + 2
    # warm_adabatch, warm_restarts, one_cycle; batch 1-16, 1-8, 1-32-64-128 and 16.
    assert page.locator("#rates .lines path").count() == 3
    assert page.locator("#batches .lines path").count() == 4
    # The front as bars of certainty, and what the test set said of it.
    assert page.locator("#accuracies .points path.point").count() == 5 + 5
    # Five parameters vary, in three columns.
    assert page.locator("#importance .bars path").count() == 15
    # Thirteen trials, of which one was lost and taken over: both are marked.
    assert page.locator("#timeline .bars path").count() == 14
    assert page.locator("#timeline .points path.point").count() == 2
    for name in ("hypervolume-trials", "hypervolume-seconds"):
        assert page.locator(f"#{name} .points path.point").count() == 1 + 12
    assert full.complaints() == []
    # Nothing was asked for but the file itself: once, and when it looks for a newer one.
    assert set(full.requests) == {full.path.as_uri()}


def test_front_table_and_embedded_rows_are_the_front(full: Opened, records: Records) -> None:
    shown = full.trials("front-table")
    assert shown == records.front
    assert set(shown) == front_by_brute_force(records.trials())
    rows = full.embedded_front()
    assert [row["trial"] for row in rows] == shown
    assert rows[0] == {
        "trial": 5,
        "state": "complete",
        "params": {
            "lr_policy": "warm_adabatch",
            "adabatch_exponent": 3,
            "decoder": "full",
            "weight_sharing": False,
        },
        "values": {"accuracy": 0.97, "training_seconds": 94.0, "parameters": 1915440},
        "runs": 1,
        "device": "Test CPU @ 2 GHz",
        "front_probability": None,
        "feasible": True,
        "test_accuracy": 0.966,
    }
    first = full.page.locator("#front-table tbody tr").first
    assert [cell.inner_text().strip() for cell in first.locator("th, td").all()] == [
        "5",
        "warm_adabatch",
        "97.00\u00a0%",
        "96.60\u00a0%",
        "94.0",
        "1,915,440",
        "?",
        "3",
        "1 → 8",
        "full",
        "no",
    ]


def test_every_trial_is_listed_with_what_became_of_it(full: Opened) -> None:
    assert full.trials("trials-table") == list(range(13))
    cell = full.page.locator("#trials-table tr[data-trial='11'] td.state")
    assert cell.inner_text().split("\n")[:2] == ["failed", "diverged at epoch 2"]
    cell = full.page.locator("#trials-table tr[data-trial='12'] td.state")
    assert cell.inner_text().split("\n") == [
        "running",
        "2 of 5 epochs done, held by desk (cpu)",
    ]


def test_the_head_says_what_the_study_is_and_how_far(full: Opened) -> None:
    head = full.page.locator("header.head").inner_text()
    for words in ("mnist-mini", "capsnet-narrow", "2026-03-01 14:05 UTC", "12 of 13"):
        assert words in head
    facts = full.page.locator("#protocol .facts").inner_text()
    for words in ("Test CPU @ 2 GHz", "2.14.1", "fp32", "fixed with the first", "500 images"):
        assert words in facts


def test_mixed_devices_are_warned_of(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    first, second = records.trials()[:2]
    other = replace(records.setting, device_name="Another CPU")
    (run,) = second.runs
    elsewhere = replace(run, setting=other, computed_epochs=run.best_epoch, measured_seconds=9.0)
    second = replace(second, runs=(elsewhere,))
    study = replace(records.study(), reference_device="Test CPU @ 2 GHz")
    page = open_page(write(study, [first, second])).page
    warning = page.locator(".warnings").inner_text()
    assert "Another CPU, Test CPU @ 2 GHz" in warning
    told = "those of Test CPU @ 2 GHz: 1 measured, 1 computed"
    worth = "not checked yet: no configuration has been trained both ways"
    assert told in warning
    assert worth in warning
    assert f"{told} (~); {worth}" in page.locator("#protocol").inner_text()
    assert second.values is not None
    marked = f"~{text.seconds(second.values.training_seconds)}"
    assert marked in page.locator("#trials").inner_text()


def test_figures_and_tables_have_names_and_headings_do_not_skip(full: Opened) -> None:
    names = full.page.locator("[role=group], [role=region], section, aside, form").evaluate_all(
        """all => all.filter(one => one.id !== "criteria-form").map(one =>
            one.getAttribute("aria-label")
            || document.getElementById(one.getAttribute("aria-labelledby")).textContent)"""
    )
    assert len(names) > 25
    assert all(names)
    unnamed = full.page.locator("input, select, button").evaluate_all(
        "all => all.filter(one => !one.labels?.length && !one.textContent.trim()).map(o => o.id)"
    )
    assert unnamed == []
    levels = full.page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(after - before for before, after in itertools.pairwise(levels)) == 1


def test_a_phone_needs_no_sideways_scrolling(full: Opened) -> None:
    usual = full.page.viewport_size
    assert usual is not None
    full.page.set_viewport_size({"width": 390, "height": 844})
    try:
        full.draw_all()
        assert full.page.evaluate("document.documentElement.scrollWidth") == 390
        for name in [*PROJECTIONS, "curves", "rates", "batches"]:
            width = full.page.locator(f"#{name}").evaluate("place => place.clientWidth")
            drawn = full.page.locator(f"#{name} .main-svg").first
            expect(drawn).to_have_attribute("width", str(width))
    finally:
        full.page.set_viewport_size(usual)


def test_the_page_follows_the_dark_scheme(full: Opened) -> None:
    page = full.page
    place = page.locator(f"#{PROJECTIONS[0]}")
    drawn, card = place.locator(".main-svg").first, page.locator(".card").first
    place.scroll_into_view_if_needed()

    def fills() -> set[str]:
        return set(
            place.locator(".points path.point").evaluate_all(
                "points => points.map(point => point.style.fill)"
            )
        )

    # Black is the fixed policy's on a light page, white on a dark one.
    assert "rgb(0, 0, 0)" in fills()
    page.emulate_media(color_scheme="dark")
    try:
        for one in (drawn, card):
            expect(one).to_have_css("background-color", "rgb(27, 30, 35)")
        assert "rgb(255, 255, 255)" in fills()
        assert "rgb(0, 0, 0)" not in fills()
    finally:
        page.emulate_media(color_scheme="light")
    for one in (drawn, card):
        expect(one).to_have_css("background-color", "rgb(255, 255, 255)")
    assert "rgb(0, 0, 0)" in fills()
    assert full.complaints() == []


def test_a_marker_says_what_it_is(full: Opened) -> None:
    texts = full.page.evaluate(
        """figure => document.getElementById(figure).data
            .filter(({ customdata }) => customdata?.includes(9))
            .map(({ customdata, hovertext }) => hovertext[customdata.indexOf(9)])""",
        PROJECTIONS[0],
    )
    assert [text.replace("\u00a0", " ").split("<br>") for text in texts] == [
        [
            "<b>trial 9, on the front</b>",
            "warm_restarts+adabatch",
            "on the front ? (nothing was repeated)",
            "P 5",
            "batch size 1 → 32 → 64 → 128",
            "decoder reduced",
            "shared weights yes",
            "accuracy 94.80 %",
            "test accuracy 94.40 %",
            "training time 104.4 s",
            "parameters 1,483,312",
        ]
    ]


def test_outside_texts_stay_texts(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    setting = replace(records.setting, device_name=HOSTILE)
    one = records.trials()[0]
    one = replace(one, runs=(replace(one.runs[0], setting=setting),))
    bad = records.failed(1, Failure(HOSTILE, HOSTILE, HOSTILE, HOSTILE))
    study = replace(records.study(), name=HOSTILE)
    lease = records.lease(2, host=f"{HOSTILE}/5ec2e7")
    claims = [records.claim(0, 1, HOSTILE, one.created_at, host=HOSTILE)]
    path = write(study, [one, bad, records.running(2)], [lease], claims)
    opened = open_page(path)
    page = opened.page
    assert opened.complaints() == []
    opened.draw_all()
    assert opened.trials("front-table") == [0]
    assert page.locator("img").count() == 0
    assert page.locator("h1").text_content() == HOSTILE
    page.locator("#trials-table tr[data-trial='1'] button").click()
    failure = page.locator("#card .failure")
    assert failure.locator("summary").text_content() == f"{HOSTILE}: {HOSTILE}"
    assert failure.locator("pre").text_content() == HOSTILE
    assert HOSTILE in (page.locator("#card-facts").text_content() or "")
    assert HOSTILE in (page.locator("tr[data-trial='2'] td.state").text_content() or "")
    assert "5ec2e7" not in page.content()
    assert opened.embedded_front()[0]["device"] == HOSTILE

    assert HOSTILE in (page.locator("#timeline").text_content() or "")
    page.locator("#trials-table tr[data-trial='0'] button").click()
    assert HOSTILE in (page.locator("#card-facts").text_content() or "")
    assert page.locator("img").count() == 0
    assert opened.complaints() == []
    # The page looked for a newer one at most; it asked nobody else.
    assert set(opened.requests) == {path.as_uri()}


@pytest.mark.parametrize("kind", ["empty", "failed", "one", "equal", "running"])
def test_small_studies_have_a_calm_page(
    records: Records,
    write: Callable[..., Path],
    open_page: Callable[..., Opened],
    kind: str,
) -> None:
    failure = Failure("DivergedError", "diverged at epoch 1", "trace", "a.log")
    failures = [records.failed(number, failure) for number in range(3)]
    equal = [records.complete(number, 0.95, 80.0, 10**6) for number in range(3)]
    trials, front, figures = {
        "empty": ([], [], 0),
        "failed": (failures, [], 0),
        "one": (equal[:1], [0], 9),
        "equal": (equal, [0, 1, 2], 10),
        "running": ([records.running(0), records.running(1, epochs=0)], [], 1),
    }[kind]
    opened = open_page(write(records.study(), trials))
    page = opened.page
    assert opened.complaints() == []
    assert opened.trials("front-table") == front
    assert [row["trial"] for row in opened.embedded_front()] == front
    opened.draw_all()
    places = page.locator(".plot:not(#space)")
    assert places.count() == page.locator(".plot:has(.main-svg)").count() == figures
    words = set(page.locator("main").inner_text().lower().split())
    assert not words & {"nan", "none", "undefined", "inf", "null"}
    if not front:
        started = "No trial has started yet." if kind == "empty" else "No trial is complete yet"
        assert started in page.locator("#front .empty").inner_text()
    if kind == "equal":
        # Three numbers at one place share a label instead of covering each other.
        texts = page.locator(f"#{PROJECTIONS[0]} .textpoint").all_text_contents()
        assert [text for text in texts if text] == ["0, 1, 2"]


def test_the_third_dimension_comes_when_asked_for(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    opened = open_page(write(records.study(), records.trials()))
    assert opened.page.locator("#space canvas").count() == 0
    opened.page.get_by_role("button", name="Show in 3D").click()
    opened.page.locator("#space canvas").first.wait_for()
    assert opened.complaints() == []


def test_without_webgl_the_page_says_so_and_draws_the_rest(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    path = write(records.study(), records.trials()[:1])
    opened = open_page(path, before="HTMLCanvasElement.prototype.getContext = () => null")
    opened.page.get_by_role("button", name="Show in 3D").click()
    assert "has no WebGL" in opened.page.locator("#space").inner_text()
    opened.draw_all()
    assert opened.complaints() == []
    assert opened.page.locator(".plot:has(.main-svg)").count() == 9
