"""A study whose front was repeated, in a browser: table, card, files and figures."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.rows import trial_rows
from fastrcaps_search.report.tables import csv_text
from fastrcaps_search.report.write import write_report
from tests.report.addresses import expect_fragment
from tests.report.conftest import SHARED, open_in
from tests.report.views import stored_of

if TYPE_CHECKING:
    from tests.report.conftest import Opened, Records


@pytest.fixture(scope="module")
def opened(records: Records, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    # By this name the page stays open when another test closes its own.
    path = tmp_path_factory.mktemp("repeated") / SHARED
    write_report(stored_of("repeated", records), path=path)
    return open_in(browser, path)


@pytest.fixture
def page(opened: Opened) -> Page:
    return opened.page


@pytest.fixture(scope="module")
def sure(records: Records) -> dict[int, float | None]:
    """Probabilities as ``trials --json`` gives them; none for the failed trial."""
    rows = trial_rows(stored_of("repeated", records).records)
    return {row["trial"]: row.get("front_probability") for row in rows}


def facts(page: Page, number: int) -> dict[str, str]:
    """What the card says of a trial, by its labels."""
    page.locator(f"#trials-table tr[data-trial='{number}'] button").click()
    labels = page.locator("#card-facts dt").all_inner_texts()
    values = page.locator("#card-facts dd").all_inner_texts()
    return {
        label: value.replace("\u00a0", " ") for label, value in zip(labels, values, strict=True)
    }


def test_the_list_has_a_column_that_sorts(
    page: Page, opened: Opened, sure: dict[int, float | None]
) -> None:
    def column() -> list[str]:
        place = page.locator("#trials-head th").all_inner_texts()
        at = next(n for n, words in enumerate(place, start=1) if words.startswith("on front"))
        cells = page.locator(f"#trials-body tr > :nth-child({at})").all_inner_texts()
        return [cell.replace("\u00a0", " ") for cell in cells]

    known = {number: value for number, value in sure.items() if value is not None}
    words = {number: f"{100 * value:.0f} %" for number, value in known.items()}
    assert column() == [words.get(number, "–") for number in range(11)]
    head = page.locator("#trials-head").get_by_role("button", name="on front")
    head.click()
    rising = sorted(known, key=lambda number: (known[number], number))
    # The failed one has none and comes last.
    assert opened.trials("trials-table") == [*rising, 3]
    head.click()
    falling = sorted(known, key=lambda number: (-known[number], number))
    assert opened.trials("trials-table") == [*falling, 3]
    expect_fragment(page, "#sort=-sure")
    head.click()
    page.locator("#trials-head").get_by_role("button", name="trial", exact=True).click()
    assert opened.complaints() == []


def test_the_card_says_how_sure_a_trial_is(page: Page, sure: dict[int, float | None]) -> None:
    found = facts(page, 5)
    assert found["on the front"] == f"{100 * (sure[5] or 0):.0f} %"
    assert found["accuracy"] == "97.00 % ± 0.20 (mean of 5 runs)"
    assert found["each run"] == "96.80 %, 96.90 %, 97.00 %, 97.10 %, 97.20 %"
    assert found["training time"] == "94.0 s ± 3.9 (runs 90.0 to 98.0)"
    assert found["seeds"] == "7, 8, 9, 10, 11"
    assert not any("failed" in label or label.startswith("claims") for label in found)
    behind = facts(page, 1)
    assert behind["on the front"] == f"{100 * (sure[1] or 0):.0f} %"
    assert behind["accuracy"] == "95.20 %"
    assert "each run" not in behind


def test_with_estimates_the_card_and_the_files_have_the_means_too(
    records: Records, browser: Browser, tmp_path: Path
) -> None:
    stored = stored_of("repeated", records)
    stored = replace(stored, records=estimated(stored.records, study=stored.study))
    write_report(stored, path=tmp_path / "estimated.html")
    opened = open_in(browser, tmp_path / "estimated.html")
    rows = trial_rows(stored.records)
    for number, of in ((5, "mean of 5 runs 97.00 %"), (1, "its run 95.20 %")):
        row = rows[number]
        value, margin = row["values"]["accuracy"], row["spread"]["accuracy"]["margin"]
        expected = f"{100 * value:.2f} % ± {100 * margin:.2f} (estimate; {of})"
        assert facts(opened.page, number)["accuracy"] == expected
    assert facts(opened.page, 5)["training time"] == "94.0 s ± 3.9 (runs 90.0 to 98.0)"
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="CSV").click()
    waiting.value.save_as(tmp_path / "rows.csv")
    own, command = (
        pd.read_csv(one) for one in (tmp_path / "rows.csv", io.StringIO(csv_text(rows)))
    )
    pd.testing.assert_frame_equal(own, command, check_dtype=False, check_exact=True)
    assert own["measured.accuracy"][5] == 0.97
    assert opened.complaints() == []


def test_the_card_tells_of_repeats_without_a_result(page: Page, opened: Opened) -> None:
    under_way = facts(page, 2)
    assert under_way["note"] == "run 2: 2 of 5 epochs done, held by desk (cpu)"
    assert under_way["accuracy"] == "96.20 % ± 2.54 (mean of 2 runs)"
    assert under_way["each run"] == "96.00 %, 96.40 %"
    lost = facts(page, 9)
    assert lost["run 2 failed"] == "the disk <b>is</b> full"
    assert lost["accuracy"] == "94.80 % ± 2.54 (mean of 2 runs)"
    # A repeat diverged, which failed the trial: no value is left to be sure of.
    diverged = facts(page, 3)
    assert diverged["state"] == "failed"
    assert diverged["run 1 failed"] == "diverged at epoch 2"
    assert not {"on the front", "accuracy", "each run"} & set(diverged)
    assert opened.complaints() == []


def test_the_files_of_the_page_are_those_of_the_command(
    page: Page, records: Records, tmp_path: Path
) -> None:
    rows = trial_rows(stored_of("repeated", records).records)
    saved = {}
    for kind in ("CSV", "JSON"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=kind).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        saved[kind] = path.read_text(encoding="utf-8")
    assert json.loads(saved["JSON"]) == rows
    own, command = (pd.read_csv(io.StringIO(text)) for text in (saved["CSV"], csv_text(rows)))
    assert list(own) == list(command)
    assert "spread.training_seconds.high" in own
    pd.testing.assert_frame_equal(own, command, check_dtype=False, check_exact=True)


def test_figures_with_repeats_are_drawn(opened: Opened, sure: dict[int, float | None]) -> None:
    opened.draw_all()
    place = opened.page.locator("#accuracies")
    place.scroll_into_view_if_needed()
    expect(place.locator(".legendtext")).to_have_text(
        [
            "accuracy on the validation split, 95 % interval",
            "mean of its runs, 95 % interval",
            "each run",
            "accuracy on the test set",
        ]
    )
    texts = place.locator(".annotation").all_text_contents()
    words = [text.replace("\u00a0", " ") for text in texts]
    expected = [f"{100 * (sure[number] or 0):.0f} %" for number in (7, 8, 9, 2, 5)]
    assert words == [*expected, "on front"]
    assert place.locator(".xerror").count() == 5 + 3
    hover = opened.page.evaluate(
        """() => document.getElementById("projection-time-accuracy").data.flatMap(
            (trace) => (trace.customdata ?? []).map((n, at) => [n, trace.hovertext[at]]))"""
    )
    said = {number: text.replace("\u00a0", " ").split("<br>") for number, text in hover}
    for number, head in ((9, "<b>trial 9, on the front</b>"), (1, "<b>trial 1</b>")):
        assert said[number][0] == head
        assert f"on the front {100 * (sure[number] or 0):.0f} %" in said[number]
    assert opened.complaints() == []


def test_a_narrow_page_scrolls_its_tables_alone(
    records: Records, tmp_path: Path, open_page: Callable[..., Opened]
) -> None:
    path = tmp_path / "narrow.html"
    write_report(stored_of("repeated", records), path=path)
    page = open_page(path).page
    page.set_viewport_size({"width": 390, "height": 800})
    wide = "() => document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= 390
    scrolls = "() => { const { scrollWidth, clientWidth } = document.querySelector("
    scrolls += "'.scroll:has(#front-table)'); return scrollWidth > clientWidth; }"
    assert page.evaluate(scrolls)


def test_nothing_repeated_has_no_column(full: Opened) -> None:
    heads = full.page.locator("#trials-head th").all_inner_texts()
    assert not any(head.startswith("on front") for head in heads)
    front = full.page.locator("#front-table tbody tr").first.locator("td")
    assert "?" in front.all_inner_texts()
