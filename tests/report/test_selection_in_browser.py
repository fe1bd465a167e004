"""Pointing at a trial, picking it, going on with the keys: it is marked wherever it is shown."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, expect

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.report.write import write_report
from fastrcaps_search.store.records import Failure
from fastrcaps_search.training.policy import training_plan
from tests.report.addresses import expect_fragment
from tests.report.views import with_runs
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.report.conftest import Opened, Records

BY_TIME, BY_SIZE = "#projection-time-accuracy", "#projection-size-accuracy"


RING_IS_ROUND = """([figure, number]) => {
    const place = document.querySelector(figure);
    const { xaxis, yaxis } = place._fullLayout;
    const ring = place.querySelector(".ring circle");
    return place.data.some(({ x, y, customdata }) => customdata?.some((owner, at) =>
        owner === number
        && Math.abs(xaxis._offset + xaxis.d2p(x[at]) - ring.getAttribute("cx")) < 1
        && Math.abs(yaxis._offset + yaxis.d2p(y[at]) - ring.getAttribute("cy")) < 1));
}"""
"""Whether the ring in a figure stands around the marker of the trial."""


def point(page: Page, figure: str, number: int) -> tuple[float, float]:
    """Where the marker of a trial is on the screen."""
    found = page.evaluate(
        """([figure, number]) => {
            const place = document.querySelector(figure);
            const { left, top } = place.getBoundingClientRect();
            const { xaxis, yaxis } = place._fullLayout;
            for (const { x, y, customdata } of place.data) {
                const at = customdata?.indexOf(number) ?? -1;
                if (at >= 0) {
                    return [left + xaxis._offset + xaxis.d2p(x[at]),
                            top + yaxis._offset + yaxis.d2p(y[at])];
                }
            }
        }""",
        [figure, number],
    )
    return found[0], found[1]


def expect_marked(page: Page, number: int) -> None:
    """The trial is marked in every figure in view, in the tables and on the card."""
    expect(page.locator("#card")).to_have_attribute("data-trial", str(number))
    expect(page.locator("#card-title")).to_contain_text(f"Trial {number}")
    for figure in (BY_TIME, BY_SIZE):
        expect(page.locator(f"{figure} .ring")).to_have_attribute("data-trial", str(number))
        assert page.evaluate(RING_IS_ROUND, [figure, number])
    marked = page.locator("tr.marked")
    numbers = {row.get_attribute("data-trial") for row in marked.all()}
    assert numbers == {str(number)}


def test_pointing_at_a_marker_marks_the_trial_until_the_pointer_leaves(page: Page) -> None:
    expect_marked(page, 5)
    page.mouse.move(*point(page, BY_TIME, 8))
    expect_marked(page, 8)
    page.mouse.move(*point(page, BY_SIZE, 2))
    expect_marked(page, 2)
    page.mouse.move(5, 5)
    # Nothing was picked: the card goes back to the one that the criteria name.
    expect_marked(page, 5)


def test_clicking_a_marker_picks_the_trial_and_says_so_in_the_address(page: Page) -> None:
    page.mouse.click(*point(page, BY_SIZE, 9))
    page.mouse.move(5, 5)
    expect_marked(page, 9)
    expect_fragment(page, "#trial=9")
    expect(page.locator("#card-title .badge")).to_have_text(["front", "picked"])
    page.keyboard.press("Escape")
    expect_marked(page, 5)
    expect_fragment(page, "")


def test_rows_of_both_tables_point_and_pick(page: Page) -> None:
    page.locator("#front-table tr[data-trial='7']").hover()
    expect_marked(page, 7)
    page.locator("#trials-table tr[data-trial='3'] button").click()
    page.mouse.move(5, 5)
    expect_marked(page, 3)
    expect_fragment(page, "#trial=3")


def test_a_picked_trial_is_on_the_card_at_once(page: Page) -> None:
    shown = page.evaluate(
        """() => {
            document.querySelector("#trials-table tr[data-trial='4'] button").click();
            return document.querySelector("#card-title").textContent;
        }"""
    )
    assert shown == "Trial 4picked"


def test_keys_go_along_the_axes(page: Page) -> None:
    page.locator(BY_TIME).focus()
    page.keyboard.press("Home")
    # By seconds: 7 (62.3), 8 (79.9), 5 (94.0), ... 3 (171.0).
    expect_marked(page, 7)
    page.keyboard.press("ArrowRight")
    expect_marked(page, 8)
    page.keyboard.press("ArrowRight")
    expect_marked(page, 5)
    page.keyboard.press("ArrowUp")
    # By accuracy 5 is the highest, and stays.
    expect_marked(page, 5)
    page.keyboard.press("ArrowDown")
    expect_marked(page, 2)
    page.keyboard.press("End")
    expect_marked(page, 3)
    expect(page.locator("#said")).to_contain_text("Trial 3, exponential_decay+adabatch: accuracy")


def test_keys_go_from_row_to_row(page: Page) -> None:
    page.locator("#trials-table tr[data-trial='4'] button").focus()
    page.keyboard.press("ArrowDown")
    expect_marked(page, 5)
    page.keyboard.press("ArrowDown")
    expect_marked(page, 6)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect_marked(page, 4)


def test_lines_and_bars_mark_and_point_too(page: Page) -> None:
    page.locator("#trials-table tr[data-trial='3'] button").click()
    # Scrolling must not bring another row under the pointer.
    page.mouse.move(5, 5)
    for figure, shape, pieces in (
        ("#parallel", "polyline", 1),
        ("#curves", "polyline", 1),
        # Lost by one worker and taken over by another: two bars, and a mark for both.
        ("#timeline", "*", 4),
        ("#hypervolume-trials", "circle", 1),
    ):
        place = page.locator(figure)
        place.scroll_into_view_if_needed()
        expect(place.locator(".ring")).to_have_attribute("data-trial", "3")
        assert place.locator(f".ring {shape}").count() == pieces
    page.keyboard.press("Escape")
    place = page.locator("#parallel")
    place.scroll_into_view_if_needed()
    # The accuracy's axis is the third from the right: trial 7 is at its foot.
    where = place.evaluate(
        """place => {
            const { left, top } = place.getBoundingClientRect();
            const { xaxis, yaxis } = place._fullLayout;
            const last = Math.max(...place.data[0].x.filter((value) => value !== null));
            return [
                left + xaxis._offset + xaxis.d2p(last - 2),
                top + yaxis._offset + yaxis.d2p(0),
            ];
        }"""
    )
    page.mouse.move(where[0] + 2, where[1] - 2)
    page.mouse.move(*where)
    expect(page.locator("#card")).to_have_attribute("data-trial", "7")


def facts(page: Page) -> dict[str, str]:
    """What the card says, by its labels."""
    labels = page.locator("#card-facts dt").all_inner_texts()
    values = page.locator("#card-facts dd").all_inner_texts()
    return {
        label: value.replace("\u00a0", " ") for label, value in zip(labels, values, strict=True)
    }


def test_the_card_says_all_about_the_trial(page: Page) -> None:
    page.locator("#trials-table tr[data-trial='9'] button").click()
    expect(page.locator("#card-policy")).to_have_text("warm_restarts+adabatch")
    found = facts(page)
    expected = {
        "state": "complete",
        "on the front": "? (nothing was repeated)",
        "P": "5",
        "batch size": "1 → 32 → 64 → 128",
        "decoder": "reduced",
        "shared weights": "yes",
        "accuracy": "94.80 %",
        "test accuracy": "94.40 %",
        "training time": "104.4 s",
        "parameters": "1,483,312",
        "best epoch": "5",
        "samples": "20,000 up to the best epoch",
        "steps": "1,250 up to the best epoch",
        "device": "Test CPU @ 2 GHz",
        "threads": "1",
        "workers per device": "1",
        "torch": "2.14.1, fp32",
        "seed": "7",
        "trained by": "worker-1",
    }
    assert found == expected
    page.locator("#trials-table tr[data-trial='11'] button").click()
    expect(page.locator("#card .failure summary")).to_have_text(
        "DivergedError: diverged at epoch 2"
    )
    expect(page.locator("#card .failure")).to_contain_text("log: a.log")
    expect(page.locator("#card-curve-note")).to_have_text("No epoch is stored yet.")


def drawn(page: Page, figure: str) -> tuple[list[float], list[float]]:
    """The line that a small figure of the card shows."""
    found = page.evaluate(
        "id => { const [{ x, y }] = document.getElementById(id).data; return [x, y]; }", figure
    )
    return found[0], found[1]


def test_the_card_draws_curve_and_schedules(page: Page, records: Records) -> None:
    page.locator("#trials-table tr[data-trial='9'] button").click()
    expect(page.locator("#card-curve .points path.point")).to_have_count(5)
    trial = records.trials()[9]
    expected = [epoch.metrics.accuracy for epoch in trial.epochs]
    # The curve of the trial before stands there until this one is drawn.
    page.wait_for_function(
        "y => Math.abs(document.getElementById('card-curve').data[0].y[0] - y) < 1e-4",
        arg=expected[0],
    )
    assert drawn(page, "card-curve")[0] == [1, 2, 3, 4, 5]
    assert drawn(page, "card-curve")[1] == pytest.approx(expected, abs=1.1e-5)
    page.locator("[data-by=seconds]").click()
    expect(page.locator("#card-curve .xtitle")).to_have_text("training seconds")
    spent = [104.4 / 5 * epoch for epoch in range(1, 6)]
    assert drawn(page, "card-curve")[0] == pytest.approx(spent, rel=1e-4)
    expect(page).to_have_url(re.compile(re.escape("by=seconds")))

    plan = training_plan(records.study().definition, trial.parameters)
    epochs, rates = drawn(page, "card-rate")
    inside = [(e, r) for e, r in zip(epochs, rates, strict=True) if e % 1]
    # Sixty points over five cycles.
    assert len(inside) == 55
    for epoch, rate in inside:
        assert rate == pytest.approx(
            plan.rates.segments[int(epoch)].rate(epoch * 4000), abs=1e-4 * max(rates)
        )
    assert drawn(page, "card-batch") == ([0, 1, 2, 3, 5], [1, 32, 64, 128, 128])


def test_every_schedule_is_drawn_as_it_is_trained(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    policies = (
        "fixed",
        "exponential_decay",
        "one_cycle",
        "warm_restarts",
        "polynomial_restarts",
    )
    trials = [
        records.complete(number, 0.9, 10, 10, choice=records.parameters_of(policy))
        for number, policy in enumerate(policies)
    ]
    knobs: list[tuple[str, dict[str, Any]]] = [
        ("exponential_decay", {"decay_rate": 0.5, "decay_steps": 100}),
        ("warm_restarts", {"cycle_epochs": 2}),
        ("polynomial_restarts", {"cycle_growth": 2}),
        ("one_cycle", {"epochs": 3}),
        ("warm_restarts", {"cycle_epochs": 7, "epochs": 3}),
    ]
    trials += [
        records.complete(number, 0.9, 10, 10, choice=replace(records.parameters_of(policy), **own))
        for number, (policy, own) in enumerate(knobs, start=len(trials))
    ]
    space = {
        "lr_policy": policies,
        "epochs": [3, 5],
        "decay_rate": [0.5, 0.9],
        "decay_steps": [100],
        "cycle_epochs": [2, 7],
        "cycle_growth": [2],
    }
    study = records.study(space=space)
    opened = open_page(write(study, trials))
    for trial in trials:
        plan = training_plan(study.definition, trial.parameters)
        xs, ys = opened.page.evaluate(
            "number => report.card.schedules(report.byNumber.get(number))[0]",
            trial.number,
        )
        assert xs[0] == 0
        assert xs[-1] == pytest.approx(plan.epochs)
        for x, y in zip(xs, ys, strict=True):
            near = [s for s in plan.rates.segments if s.start - 1e-6 <= 4000 * x <= s.end + 1e-6]
            # As many digits as a small figure can show.
            assert any(y == pytest.approx(s.rate(4000 * x), abs=1e-4 * max(ys)) for s in near)


def test_several_runs_show_their_spread(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    one = records.trials()[5]
    runs = tuple(
        replace(one.runs[0], run=run, seed=7 + run, accuracy=accuracy, training_seconds=seconds)
        for run, (accuracy, seconds) in enumerate([(0.96, 90.0), (0.98, 98.0)])
    )
    opened = open_page(write(records.study(runs_per_trial=2), [replace(one, runs=runs)]))
    found = facts(opened.page)
    assert found["accuracy"] == "97.00 % (mean of 2 runs)"
    assert found["each run"] == "96.00 %, 98.00 %"
    assert found["training time"] == "94.0 s (runs 90.0 to 98.0)"
    assert found["seeds"] == "7, 8"
    assert opened.page.locator(f"{BY_TIME} .yerror").count() == 1
    assert opened.page.locator(f"{BY_TIME} .xerror").count() == 1
    assert "bar: lowest to highest run" in opened.page.locator(".legend").inner_text()
    assert opened.complaints() == []


def test_bars_are_those_of_the_runs_where_an_estimate_lies_beyond_them(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    one = with_runs(records.trials()[5], [(0.96, 90.0), (0.98, 98.0)])
    beyond = replace(one, values=values_of(0.95, 100.0, 1_915_440.0), measured=one.values)
    page = open_page(write(records.study(), [beyond])).page
    ends = page.locator(BY_TIME).evaluate(
        """(place) => {
            const { xaxis, yaxis } = place._fullLayout;
            const [x, y] = ["xerror", "yerror"].map((name) =>
                place.querySelector(`.${name}`).getBBox());
            return [xaxis.p2d(x.x), xaxis.p2d(x.x + x.width),
                yaxis.p2d(y.y + y.height), yaxis.p2d(y.y)];
        }"""
    )
    assert ends == pytest.approx([90.0, 98.0, 0.96, 0.98], rel=1e-3)


def test_a_network_that_was_removed_is_not_offered(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    kept, gone = records.complete(0, 0.9, 5.0, 10), records.complete(1, 0.8, 9.0, 10)
    gone = replace(gone, runs=(replace(gone.runs[0], removed=True),))
    page = open_page(write(records.study(), [kept, gone])).page
    for number, lines in ((0, ["export --study mnist-mini --trial 0"]), (1, [])):
        page.locator(f"#trials-table tr[data-trial='{number}'] button").click()
        codes = page.locator("#card-commands code").all_inner_texts()
        found = [code for code in codes if "export" in code]
        assert len(found) == len(lines)
        assert all(line in code for line, code in zip(lines, found, strict=True))


def test_the_command_lines_are_those_of_the_trial(
    page: Page, tmp_path: Path, records: Records
) -> None:
    page.locator("#trials-table tr[data-trial='2'] button").click()
    codes = page.locator("#card-commands code").all_inner_texts()
    assert codes == [
        "fastrcaps-search select --study mnist-mini --min-accuracy 0.962 --max-seconds 118 "
        "--max-parameters 1841712",
        "fastrcaps-search export --study mnist-mini --trial 2 --out mnist-mini-trial-2",
        "fastrcaps-search run --study mnist-mini-trial-2.toml --trials 1 --seed 7",
    ]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="save mnist-mini-trial-2.toml").click()
    saved = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(saved)
    assert saved.name == "mnist-mini-trial-2.toml"
    definition = load_study(str(saved))
    assert definition.name == "mnist-mini-trial-2"
    trial, study = records.trials()[2], records.study()
    assert definition.configurations == (trial.parameters,)
    again = training_plan(definition, definition.configurations[0])
    assert again == training_plan(study.definition, trial.parameters)
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "fastrcaps_search", "studies", str(saved)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "valid; 1 configurations" in listed.stdout


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("$(touch x).db", " --storage '$(touch x).db'"),
        (None, ' --storage "${FASTRCAPS_STORAGE:?}"'),
    ],
)
def test_the_command_lines_name_the_database(
    records: Records,
    tmp_path: Path,
    open_page: Callable[..., Opened],
    storage: str | None,
    words: str,
) -> None:
    path = tmp_path / "page.html"
    write_report(ReportView(records.study(), records.trials()[:1], storage=storage), path=path)
    line = open_page(path).page.locator("#answer-command").inner_text()
    assert line == f"fastrcaps-search select --study mnist-mini{words}"


def test_a_failure_shows_its_trace_as_it_is(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened]
) -> None:
    failure = Failure("ValueError", "went wrong", "Traceback\n  <b>line 1</b>", "logs/3.log")
    opened = open_page(write(records.study(), [records.failed(0, failure)]))
    opened.page.locator("#trials-table tr[data-trial='0'] button").click()
    opened.page.locator("#card .failure summary").click()
    assert opened.page.locator("#card .failure pre").inner_text() == failure.trace
    assert opened.complaints() == []
