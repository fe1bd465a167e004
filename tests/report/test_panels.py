"""A panel from outside is one file: it is gathered, drawn and said like those of this package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from fastrcaps_search.errors import UsageError
from fastrcaps_search.report.panel import PANELS, Panel, Plot, Table
from fastrcaps_search.report.sections import OURS, all_panels, sections
from tests import plug_in
from tests.report.views import view_of
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.report.conftest import Opened, Records

TOY = '''
from dataclasses import dataclass
from fastrcaps_search.report.panel import PANELS, Panel, Plot
from fastrcaps_search.report.plots import drawing


@dataclass(frozen=True)
class Spent:
    """Seconds of all trials."""

    seconds: tuple[float, ...]


def gather(view):
    return Spent(tuple(trial.values.training_seconds for trial in view.complete)) or None


def draw(spent):
    bars = {"type": "bar", "x": list(range(len(spent.seconds))), "y": list(spent.seconds)}
    return [Plot(name="toy-bars", drawing=drawing([bars]), words="Seconds of each trial")]


PANELS.register(
    Panel(
        name="toy",
        title="What it took",
        gather=gather,
        draw=draw,
        note=lambda spent: [f"{sum(spent.seconds):.1f} s in all, <b>untouched</b>."],
        module=__file__,
        data=lambda spent: {"most": max(spent.seconds)},
    )
)
'''
SCRIPT = """"use strict";
report.starts.push(() => {
  report.byId("toy").dataset.most = report.data.panels.toy.most;
});
"""


def test_a_plug_in_brings_a_panel(
    store_study: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_page: Callable[..., Opened],
) -> None:
    store_study(
        tmp_path / "fastrcaps.db", [values_of(0.9, 12.5, 1000.0), values_of(0.8, 20.0, 900.0)]
    )
    folder = tmp_path / "site"
    folder.mkdir()
    plug_in.install(folder, TOY)
    (folder / "toy.js").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    subprocess.run(
        [sys.executable, "-P", "-m", "fastrcaps_search", "report", "--study", "tiny"],
        cwd=tmp_path,
        check=True,
    )
    opened = open_page(tmp_path / "reports" / "tiny.html")
    section = opened.page.locator("section#toy")
    expect(section.locator("h2")).to_have_text("What it took")
    expect(section.locator("p")).to_have_text("32.5 s in all, <b>untouched</b>.")
    expect(section).to_have_attribute("data-most", "20")
    section.scroll_into_view_if_needed()
    expect(section.locator("#toy-bars .bars path")).to_have_count(2)
    # After those of this package, and in the list of sections.
    ids = opened.page.locator("main > section").evaluate_all("all => all.map(({ id }) => id)")
    assert ids[-2:] == ["protocol", "toy"]
    opened.page.get_by_role("link", name="What it took").click()
    expect(section).to_be_focused()
    assert opened.complaints() == []


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Callable[[Panel[int]], None]:
    """Registers a panel for one test."""
    monkeypatch.setattr(PANELS, "_items", dict(PANELS._items))

    def register(panel: Panel[int]) -> None:
        PANELS.register(panel)

    return register


def test_ours_come_first_whatever_was_registered_before(
    toy: Callable[[Panel[int]], None],
) -> None:
    panel = Panel(name="toy", title="Toy", gather=lambda view: len(view.trials))
    PANELS._items.clear()
    toy(panel)
    for ours in OURS:
        PANELS.register(ours)
    assert all_panels() == (*OURS, panel)


def test_a_panel_without_facts_is_not_there(
    records: Records, toy: Callable[[Panel[int]], None]
) -> None:
    toy(Panel(name="toy", title="Toy", gather=lambda view: len(view.trials) or None))
    shown = [section.panel.name for section in sections(view_of(records.study(), []))]
    assert "toy" not in shown
    shown = [
        section.panel.name for section in sections(view_of(records.study(), records.trials()))
    ]
    assert shown[-1] == "toy"


@pytest.mark.parametrize(
    "part", [Plot(name="curves"), Table(name="curves", words="", head=(), rows=())]
)
def test_a_name_on_the_page_is_given_once(
    records: Records, toy: Callable[[Panel[int]], None], part: Plot | Table
) -> None:
    toy(Panel(name="toy", title="Toy", gather=lambda view: 1, draw=lambda info: [part]))
    with pytest.raises(UsageError, match=r'a figure or table .* got a second "curves"; rename'):
        sections(view_of(records.study(), records.trials()))
