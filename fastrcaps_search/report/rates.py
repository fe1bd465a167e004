"""The page of a learning-rate range test: one HTML file that asks nobody for anything."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from fastrcaps_search.report import text
from fastrcaps_search.report.drawings.rates import range_test
from fastrcaps_search.report.library import library
from fastrcaps_search.report.marks import dark_colours
from fastrcaps_search.report.page import script_json, script_policy, template
from fastrcaps_search.report.templating import page_template
from fastrcaps_search.report.write import write_file
from fastrcaps_search.training.rate_curve import SAFETY, SPAN, RateTest


def write_rates(test: RateTest, *, path: Path, written_at: datetime | None = None) -> None:
    """Write the page, or leave the file that is there as it is.

    Args:
        test: What to show.
        path: The file; its folder is made if need be.
        written_at: The date that it shows, now if left out.

    Raises:
        DiskError: The file cannot be written there.
    """
    now = (written_at or datetime.now(UTC)).astimezone(UTC)
    write_file(path, rates_page(test, written_at=now).encode())


def rates_page(test: RateTest, *, written_at: datetime) -> str:
    """The whole page."""
    plotly, script = library(), template("rates.js")
    return page_template("rates.html.j2", count=text.count, duration=text.duration).render(
        test=test,
        curve=test.curve,
        safety=SAFETY,
        span=SPAN,
        content_policy=script_policy([plotly, script]),
        style=Markup(template("page.css")),
        library=Markup(plotly),
        script=Markup(script),
        data_json=script_json({"figure": range_test(test.curve), "dark": dark_colours()}),
        written_at=written_at,
    )
