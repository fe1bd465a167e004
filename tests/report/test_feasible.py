"""Infeasible trials on the page: shown with their reason, on no front and in no range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from fastrcaps_search.report.fronts import TimeAxis
from fastrcaps_search.report.page import tiles
from fastrcaps_search.report.panels import effects, importance, progress, uncertainty
from fastrcaps_search.report.panels import front as front_panel
from fastrcaps_search.store.records import SetAside
from fastrcaps_search.store.trials import TrialRecord
from tests.report.addresses import expect_fragment
from tests.report.views import figures, payload, view_of

if TYPE_CHECKING:
    from tests.report.conftest import Opened, Records

GUESS, ASIDE = 11, 12


def trials_of(records: Records) -> list[TrialRecord]:
    """The usual eleven, a quick guess, and one of the best that was set aside."""
    guess = records.complete(GUESS, 0.1, 2.0, 100, infeasible="not better than guessing")
    best = records.complete(ASIDE, 0.9999, 1.0, 50)
    aside = SetAside("ann", "desk", "leaked <b>labels</b>", 1_772_000_000.0)
    reason = f"set aside by ann: {aside.why}"
    return [*records.trials(), guess, replace(best, infeasible=reason, set_aside=aside)]


def test_the_view_is_as_without_them_but_for_the_lists(records: Records) -> None:
    study = records.study(budget=13)
    view, plain = view_of(study, trials_of(records)), view_of(study, records.trials())
    assert [t.number for t in view.front] == [t.number for t in plain.front]
    assert [t.number for t in view.complete] == list(range(13))
    assert [t.number for t in view.feasible] == list(range(11))
    first, *others = tiles(view)
    assert first.note == "13 complete, 2 of them infeasible"
    assert others == list(tiles(plain))[1:]
    assert importance.gather(view) == importance.gather(plain)
    assert effects.gather(view) == effects.gather(plain)
    sure, before = uncertainty.gather(view), uncertainty.gather(plain)
    assert sure is not None
    assert before is not None
    assert sure.near == before.near
    for axis, front in view.fronts.items():
        assert replace(front, infeasible={}) == plain.fronts[axis]
        assert set(front.infeasible) == {GUESS, ASIDE}
    grown, grown_before = progress.gather(view), progress.gather(plain)
    assert grown is not None
    assert grown_before is not None
    assert grown.hypervolumes[-1] == grown_before.hypervolumes[-1]
    notes = {trial.number: trial.note for trial in view.trials if trial.note}
    assert notes == {
        GUESS: "not better than guessing",
        ASIDE: "set aside by ann: leaked <b>labels</b>",
    }


def test_figures_have_the_axes_of_the_others_and_small_faint_points(records: Records) -> None:
    study = records.study(budget=13)
    view, plain = view_of(study, trials_of(records)), view_of(study, records.trials())
    for name in ("projection-time-accuracy", "projection-size-accuracy"):
        drawn, before = (figures(each)[name][TimeAxis.SECONDS.value] for each in (view, plain))
        assert drawn["layout"] == before["layout"]
        added = [trace for trace in drawn["data"] if trace.get("meta") == "infeasible"]
        assert [trace for trace in drawn["data"] if trace not in added] == before["data"]
        (trace,) = added
        assert trace["customdata"] == [GUESS, ASIDE]
        assert trace["marker"]["opacity"] < 0.5
        # Far below and above what the axis shows: at its ends.
        low, high = drawn["layout"]["yaxis"]["range"]
        assert list(trace["y"]) == [low, min(high, 0.9999)]
    assert figures(view)["parallel"] == figures(plain)["parallel"]
    assert len(figures(view)["space"]["seconds"]["data"]) == 1 + len(
        figures(plain)["space"]["seconds"]["data"]
    )


def test_the_papers_wider_axes_move_them_to_their_own_ends(records: Records) -> None:
    view = view_of(records.study(budget=13), trials_of(records))
    for overlay in front_panel.overlays(front_panel.gather(view))["seconds"].values():
        assert [trace["meta"] for trace in overlay["below"]] == ["attained", "infeasible"]
    laid = front_panel.overlays(front_panel.gather(view))["seconds"]["projection-time-accuracy"]
    _, trace = laid["below"]
    assert trace["customdata"] == [GUESS, ASIDE]
    assert trace["y"][0] == pytest.approx(laid["yaxis"]["range"][0])
    # Faster than all that is shown.
    left = 10 ** laid["xaxis"]["range"][0]
    assert list(trace["x"]) == pytest.approx([left, left])


def test_a_study_of_nothing_feasible_has_a_page_that_says_so(
    records: Records, write: Callable[..., Path]
) -> None:
    trials = trials_of(records)[11:]
    view = view_of(records.study(), trials)
    assert (view.front, view.fronts) == ((), {})
    assert (progress.gather(view), importance.gather(view)) == (None, None)
    assert payload(view)["fronts"] == {}
    assert "No trial is feasible, so there is no front" in write(
        records.study(), trials
    ).read_text(encoding="utf-8")


def test_the_page_shows_them_with_their_reason(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    opened = open_page(write(records.study(budget=13), trials_of(records)))
    page = opened.page
    assert opened.trials("front-table") == records.front
    row = page.locator(f"#trials-table tr[data-trial='{GUESS}']")
    expect(row.locator("td.state small")).to_have_text("not better than guessing")
    page.get_by_label("Show").select_option("infeasible")
    assert opened.trials("trials-table") == [GUESS, ASIDE]
    expect_fragment(page, "#only=infeasible")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    expect(page.get_by_label("Show")).to_have_value("infeasible")
    assert opened.trials("trials-table") == [GUESS, ASIDE]
    page.locator(f"#trials-table tr[data-trial='{ASIDE}'] button").click()
    labels = page.locator("#card-facts dt").all_inner_texts()
    facts = dict(zip(labels, page.locator("#card-facts dd").all_inner_texts(), strict=True))
    assert facts["note"] == "set aside by ann: leaked <b>labels</b>"
    # 1,772,000,000 s are 20,509 days and 22,400 s: 6 h 13 min.
    assert facts["set aside"] == "by ann on desk, 2026-02-25 06:13 UTC"
    assert facts["on the front"] == "no, for it is infeasible"
    expect(page.locator("#card-commands")).not_to_contain_text("at least as good")
    page.locator("#prefer").select_option("time")
    expect(page.locator("#answer")).not_to_contain_text(f"trial {ASIDE}")
    hovered = page.evaluate(
        """number => document.querySelector("#projection-time-accuracy").data
            .filter(({ customdata }) => customdata?.includes(number))
            .map(({ customdata, hovertext }) => hovertext[customdata.indexOf(number)])""",
        ASIDE,
    )
    assert hovered[0].endswith("infeasible: set aside by ann: leaked &lt;b&gt;labels&lt;/b&gt;")
    assert opened.complaints() == []


def test_they_stand_and_are_marked_at_the_edge_of_the_papers_axes_too(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    path = write(records.study(budget=13), trials_of(records))
    page = open_page(path, fragment=f"#paper=1&trial={GUESS}").page
    place = page.locator("#projection-time-accuracy")
    expect(place.locator(f".ring[data-trial='{GUESS}'] circle")).to_have_count(1)
    corner, shown = place.evaluate(
        """(place, number) => {
            const { xaxis, yaxis } = place._fullLayout;
            const corner = [xaxis._offset, yaxis._offset + yaxis._length];
            const ring = place.querySelector(".ring circle");
            const at = ["cx", "cy"].map((key) => Number(ring.getAttribute(key)));
            const owners = place.data.flatMap(({ customdata }) => customdata ?? []);
            return [corner, [...at, owners.filter((owner) => owner === number).length]];
        }""",
        GUESS,
    )
    # Quickest and least accurate of all.
    assert shown == [pytest.approx(corner[0], abs=0.5), pytest.approx(corner[1], abs=0.5), 1]
