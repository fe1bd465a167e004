"""The page of a range test, and what a browser makes of it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.errors import DiskError
from fastrcaps_search.report.rates import range_test, rates_page
from fastrcaps_search.report.write import write_file
from fastrcaps_search.training.rate_curve import Ending, RateCurve, RateTest, growing_rates

DATE = datetime(2026, 5, 4, 14, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def test() -> RateTest:
    """A parabola with its foot at 1e-2."""
    rates = growing_rates(61)[:56]
    losses = [0.5 + (math.log10(rate) + 2) ** 2 for rate in rates]
    return RateTest(
        study="s-1",
        network="capsnet",
        decoder=Decoder.NONE,
        weight_sharing=True,
        batch_size=16,
        seed=7,
        device_name="A <processor>",
        steps=61,
        seconds=125.0,
        curve=RateCurve.of(rates, losses, Ending.EXPLODED),
    )


def test_the_figure_shows_the_curve_and_the_proposal(test: RateTest) -> None:
    figure = range_test(test.curve)
    steps, smoothed = figure["data"]
    assert steps["y"] == pytest.approx(test.curve.losses)
    assert smoothed["y"] == pytest.approx(test.curve.smoothed)
    assert steps["x"] == smoothed["x"] == pytest.approx(test.curve.rates)
    shaded, *lines = figure["layout"]["shapes"]
    assert (shaded["x0"], shaded["x1"]) == (1e-4, 1e-3)
    named = {line["label"]["text"]: line["x0"] for line in lines}
    assert named == pytest.approx({"lr_min": 1e-4, "lr_max": 1e-3, "least loss": 1e-2})


def test_the_page_says_what_was_done(test: RateTest) -> None:
    text = rates_page(test, written_at=DATE)
    assert "lr_max = 0.001\nlr_min = 0.0001</pre>" in text
    assert "capsnet, no decoder, shared weights" in text
    assert "56 of 61 steps of 16 images, then the loss exploded" in text
    assert "A &lt;processor&gt;, 2 min. Seed 7." in text
    assert "2026-05-04 14:05 UTC" in text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_it_and_asks_nobody(
    browser: Browser, test: RateTest, tmp_path: Path, scheme: str
) -> None:
    path = tmp_path / "new" / "rates.html"
    write_file(path, rates_page(test).encode())
    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]  # one of its words
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("#curve .scatterlayer .js-line")
    assert page.locator("#curve .scatterlayer .point").count() == 56
    assert page.locator("#curve .shape-label text").all_text_contents() == [
        *("lr_min", "lr_max", "least loss")
    ]
    back = page.locator("#curve .main-svg").first.evaluate("(svg) => svg.style.background")
    assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(27, 30, 35)"}[scheme]
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}
    inside, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert inside <= width
    context.close()


def test_a_page_that_cannot_be_written(test: RateTest, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=r"must be writable at .*, got: a folder; name another"):
        write_file(tmp_path, rates_page(test).encode())
