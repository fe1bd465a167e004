"""The page as a reader meets it: in a real browser, from a file, without a network."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastrcaps_search.store.records import Failure, TrialRecord, Values

FIGURES = [
    "projection-training_seconds-accuracy",
    "projection-parameters-accuracy",
    "projection-training_seconds-parameters",
]
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>\u2028&amp;{{ 7 * 7 }}"


def complaints(opened: Any) -> list[str]:  # noqa: ANN401 - the fixture's own class
    """What the browser said, without its remarks on its own software renderer."""
    return [said for said in opened.said if not said.startswith("warning")]


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


def numbers_in(opened: Any, table: str) -> list[int]:  # noqa: ANN401
    rows = opened.page.locator(f"#{table} tbody tr")
    return [int(row.get_attribute("data-trial")) for row in rows.all()]


@pytest.fixture
def full(records: Any, write: Callable[..., Path]) -> Path:  # noqa: ANN401
    stop = records.failed(11, Failure("DivergedError", "diverged at epoch 2", "trace", "a.log"))
    trials = [*records.trials(), stop, records.running(12)]
    return write(records.study(budget=13), trials, [records.lease(12)])


def test_a_study_is_drawn_whole_and_in_silence(
    records: Any, full: Path, open_page: Callable[..., Any]  # noqa: ANN401
) -> None:
    opened = open_page(full)
    page = opened.page
    assert complaints(opened) == []
    assert opened.requests == [full.as_uri()]
    assert full.stat().st_size < 8_000_000

    for name in FIGURES:
        place = page.locator(f"#{name}")
        assert place.locator(".points path.point").count() == 11
        # Of 5, 2, 9, 8 and 7 each has its number beside it.
        assert sorted(place.locator(".textpoint").all_inner_texts()) == list("25789")
        assert place.locator(".lines path").count() == 1
    assert page.locator("#space canvas").count() >= 1
    # Eleven complete trials and the running one, which has two epochs of five.
    assert page.locator("#curves .lines path").count() == 12
    assert page.locator("#curves .points path.point").count() == 11 * 5 + 2
    # warm_adabatch, warm_restarts, one_cycle; batch 1-16, 1-8, 1-32-64-128 and 16.
    assert page.locator("#rates .lines path").count() == 3
    assert page.locator("#batches .lines path").count() == 4


def test_front_table_and_embedded_rows_are_the_front(
    records: Any, full: Path, open_page: Callable[..., Any]  # noqa: ANN401
) -> None:
    opened = open_page(full)
    shown = numbers_in(opened, "front-table")
    assert shown == records.front
    assert set(shown) == front_by_brute_force(records.trials())
    rows = json.loads(opened.page.locator("#front-data").text_content())
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
        "test_accuracy": 0.966,
    }
    first = opened.page.locator("#front-table tbody tr").first
    assert [cell.inner_text().strip() for cell in first.locator("th, td").all()] == [
        "5",
        "warm_adabatch",
        "3",
        "1 → 8",
        "full",
        "no",
        "97.00\u00a0%",
        "96.60\u00a0%",
        "94.0",
        "1,915,440",
    ]


def test_every_trial_is_listed_with_what_became_of_it(
    full: Path, open_page: Callable[..., Any]
) -> None:
    opened = open_page(full)
    assert numbers_in(opened, "trials-table") == list(range(13))
    cell = opened.page.locator("#trials-table tr[data-trial='11'] td.state")
    assert cell.inner_text().split("\n")[:2] == ["failed", "diverged at epoch 2"]
    cell = opened.page.locator("#trials-table tr[data-trial='12'] td.state")
    assert cell.inner_text().split("\n") == [
        "running",
        "2 of 5 epochs done, held by desk (cpu)",
    ]


def test_outside_texts_stay_texts(
    records: Any, write: Callable[..., Path], open_page: Callable[..., Any]  # noqa: ANN401
) -> None:
    setting = replace(records.setting, device_name=HOSTILE)
    one = records.trials()[0]
    one = replace(one, runs=(replace(one.runs[0], setting=setting),))
    bad = records.failed(1, Failure(HOSTILE, HOSTILE, HOSTILE, HOSTILE))
    study = replace(records.study(), name=HOSTILE)
    path = write(study, [one, bad, records.running(2)], [records.lease(2, host=HOSTILE)])
    opened = open_page(path)
    page = opened.page
    assert complaints(opened) == []
    assert opened.requests == [path.as_uri()]
    assert page.locator("img").count() == 0
    assert page.locator("h1").text_content() == HOSTILE
    assert page.locator("#trials-table summary").text_content() == HOSTILE
    assert HOSTILE in page.locator("tr[data-trial='2'] td.state").text_content()
    assert json.loads(page.locator("#front-data").text_content())[0]["device"] == HOSTILE

    page.locator(f"#{FIGURES[0]} .points path.point").hover(force=True)
    box = page.locator(f"#{FIGURES[0]} .hoverlayer .hovertext")
    box.wait_for()
    assert "<img src=x onerror=alert(1)><b>bold</b>" in box.text_content()
    assert complaints(opened) == []


@pytest.mark.parametrize("kind", ["empty", "one", "failed", "equal", "running"])
def test_small_studies_have_a_calm_page(
    records: Any,  # noqa: ANN401
    write: Callable[..., Path],
    open_page: Callable[..., Any],
    kind: str,
) -> None:
    failure = Failure("DivergedError", "diverged at epoch 1", "trace", "a.log")
    trials, leases, front, figures = {
        "empty": ([], [], [], 0),
        "one": (records.trials()[:1], [], [0], 7),
        "failed": ([records.failed(n, failure) for n in range(3)], [], [], 0),
        "equal": ([records.complete(n, 0.95, 80.0, 10**6) for n in range(3)], [], [0, 1, 2], 7),
        "running": ([records.running(0), records.running(1, epochs=0)], [], [], 1),
    }[kind]
    opened = open_page(write(records.study(), trials, leases))
    page = opened.page
    assert complaints(opened) == []
    assert numbers_in(opened, "front-table") == front
    embedded = json.loads(page.locator("#front-data").text_content())
    assert [row["trial"] for row in embedded] == front
    assert page.locator(".plot").count() == figures
    assert page.locator(".plot .main-svg").count() >= figures
    if not front:
        started = "No trial has started yet." if kind == "empty" else "No trial is complete yet"
        assert started in page.locator("#front .empty").inner_text()
    words = set(page.locator("main").inner_text().lower().split())
    assert not words & {"nan", "none", "undefined", "inf", "null"}
    if kind == "equal":
        # Three numbers at one place share a label instead of covering each other.
        texts = page.locator(f"#{FIGURES[0]} .textpoint").all_inner_texts()
        assert [text for text in texts if text] == ["0, 1, 2"]


def test_the_page_follows_the_dark_scheme(full: Path, open_page: Callable[..., Any]) -> None:
    opened = open_page(full, color_scheme="dark")
    page = opened.page
    background = f"document.querySelector('#{FIGURES[0]} .main-svg').style.background"
    assert page.evaluate(background) == "rgb(27, 30, 35)"
    card = "getComputedStyle(document.querySelector('.card')).backgroundColor"
    assert page.evaluate(card) == "rgb(27, 30, 35)"
    # Black stays for a light page only: the fixed policy is white here.
    fills = page.locator(f"#{FIGURES[0]} .points path.point").evaluate_all(
        "points => points.map(point => point.style.fill)"
    )
    assert "rgb(255, 255, 255)" in fills
    assert "rgb(0, 0, 0)" not in fills

    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"{background} === 'rgb(255, 255, 255)'")
    assert complaints(opened) == []


def test_a_phone_needs_no_sideways_scrolling(full: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(full, viewport={"width": 390, "height": 844}).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = page.locator(".plot").evaluate_all("plots => plots.map(p => p.scrollWidth)")
    assert max(widths) <= 390


def test_figures_and_tables_have_names_and_headings_do_not_skip(
    full: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(full).page
    names = page.locator("[role=img], [role=region], section").evaluate_all(
        """all => all.map(one => one.getAttribute("aria-label")
            || document.getElementById(one.getAttribute("aria-labelledby")).textContent)"""
    )
    assert len(names) == 7 + 2 + 6
    assert all(names)
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(after - before for before, after in itertools.pairwise(levels)) == 1
