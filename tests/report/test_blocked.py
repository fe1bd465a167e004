"""Pages whose scripts or styles do not run: one sentence says so, and only then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, Page

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.report.rates import rates_page
from fastrcaps_search.training.rate_curve import Ending, RateCurve, RateTest, growing_rates
from tests.report.serving import served

if TYPE_CHECKING:
    from tests.report.conftest import Records

pytestmark = pytest.mark.slow

OWN_FILES_ONLY = "default-src 'self'"
SANDBOX = "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"
"""What Jenkins sends with the files of a build."""
STYLES_ALONE = "script-src 'none'"
SENTENCE = (
    "own scripts and styles, which are off here or blocked by the content policy of the server: "
    "allow them, or save the page and open the file."
)


@pytest.fixture(scope="module")
def curve() -> RateTest:
    rates = growing_rates(61)[:56]
    losses = [1 / (1 + rate) for rate in rates]
    return RateTest(
        study="s",
        network="capsnet",
        decoder=Decoder.NONE,
        weight_sharing=True,
        batch_size=16,
        seed=7,
        device_name="A processor",
        steps=61,
        seconds=1.0,
        curve=RateCurve.of(rates, losses, Ending.EXPLODED),
    )


@pytest.fixture
def folder(records: Records, write: Callable[..., Path], curve: RateTest) -> Path:
    """A folder with a report and the page of a range test."""
    path = write(records.study(), records.trials())
    (path.parent / "rates.html").write_text(rates_page(curve), encoding="utf-8")
    return path.parent


def what_is_seen(page: Page) -> tuple[str, bool]:
    """The sentence, if any is visible, and whether figures have room."""
    (sentence,) = page.locator(".blocked").all()
    figures = any(place.is_visible() for place in page.locator(".plot").all())
    return sentence.inner_text() if sentence.is_visible() else "", figures


@pytest.mark.parametrize("policy", [OWN_FILES_ONLY, SANDBOX, STYLES_ALONE])
def test_a_policy_that_blocks_scripts_or_styles(
    browser: Browser, folder: Path, policy: str
) -> None:
    with served(folder, policy) as address:
        page = browser.new_context().new_page()
        page.goto(f"{address}/page.html")
        sentence, figures = what_is_seen(page)
        assert sentence.startswith("The figures, the choice and the list of all trials need this")
        assert sentence.endswith(SENTENCE)
        assert "\n" not in sentence
        # The front is said all the same.
        assert page.locator("#front-table tbody tr").count() == 5
        page.goto(f"{address}/rates.html")
        rates, _ = what_is_seen(page)
        assert rates.startswith("The figure needs this page")
        assert rates.endswith(SENTENCE)
        assert page.locator("#proposal").is_visible()
        page.context.close()
    assert not figures or policy != STYLES_ALONE


def test_a_browser_without_scripts(browser: Browser, folder: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    for name in ("page", "rates"):
        page.goto((folder / f"{name}.html").as_uri())
        sentence, figures = what_is_seen(page)
        assert (sentence.endswith(SENTENCE), figures) == (True, False)
    page.context.close()


def test_no_word_where_all_runs(browser: Browser, folder: Path) -> None:
    with served(folder, "frame-ancestors 'self'") as address:
        page = browser.new_context().new_page()
        for name, drawn in (("page", "html[data-ready]"), ("rates", "#curve .js-line")):
            page.goto(f"{address}/{name}.html")
            page.wait_for_selector(drawn, state="attached")
            assert what_is_seen(page) == ("", True)
        page.context.close()
