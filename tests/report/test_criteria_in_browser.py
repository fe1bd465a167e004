"""The page names the trial that ``select`` names, whatever is asked for."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, expect

from fastrcaps_search.front.criteria import Preference
from fastrcaps_search.front.selection import Candidate, NothingFits, Selection, select
from fastrcaps_search.store.records import Values
from fastrcaps_search.store.trials import TrialRecord
from tests.report.addresses import expect_fragment
from tests.triples import criteria_of, values_of

if TYPE_CHECKING:
    from tests.report.conftest import Opened, Records

Cli = Callable[..., subprocess.CompletedProcess[str]]

PREFERENCES: list[tuple[Preference, dict[str, Any]]] = [
    (Preference("accuracy"), {"rule": "accuracy"}),
    (Preference("time"), {"rule": "time"}),
    (Preference("size"), {"rule": "size"}),
    (Preference("knee"), {"rule": "knee"}),
    (Preference("weights", (3, 0.5, 1)), {"rule": "weights", "weights": [3, 0.5, 1]}),
]


def expect_named(page: Page, number: int, why: str) -> None:
    expect(page.locator("#answer")).to_have_attribute("data-trial", str(number))
    expect(page.locator("#answer")).to_have_text(f"trial {number}: {why}.")
    expect(page.locator("#card")).to_have_attribute("data-trial", str(number))


def test_bounds_and_preference_name_a_trial_and_stand_in_the_address(page: Page) -> None:
    # By hand from TRIALS: front 5 (97.0, 94.0, 1.92M), 2 (96.2, 118.0, 1.84M),
    # 9 (94.8, 104.4, 1.48M), 8 (94.4, 79.9, 1.48M), 7 (92.1, 62.3, 1.56M).
    expect_named(page, 5, "highest accuracy of the 5 trials on the front")
    page.get_by_label("at most parameters").fill("1841712")
    expect_named(page, 2, "highest accuracy of the 4 trials on the front that fit")
    page.get_by_label("at most seconds").fill("105")
    expect_named(page, 9, "highest accuracy of the 3 trials on the front that fit")
    page.get_by_label("prefer").select_option("time")
    expect_named(page, 7, "shortest training time of the 3 trials on the front that fit")
    page.get_by_label("at least accuracy").fill("94.4%")
    expect_named(page, 8, "shortest training time of the 2 trials on the front that fit")
    expect_fragment(
        page, "#min-accuracy=94.4%25&max-seconds=105&max-parameters=1841712&prefer=time"
    )
    for figure, lines in (
        ("#projection-time-accuracy", 2),
        ("#projection-size-accuracy", 2),
        ("#projection-time-size", 2),
    ):
        expect(page.locator(f"{figure} .shapelayer path")).to_have_count(lines)
    page.get_by_role("button", name="clear").click()
    expect_named(page, 5, "highest accuracy of the 5 trials on the front")
    expect_fragment(page, "")


def test_when_none_fits_the_nearest_ones_are_named(page: Page) -> None:
    page.get_by_label("at least accuracy").fill("0.97")
    page.get_by_label("at most seconds").fill("93.5")
    answer = page.locator("#answer")
    # Spans of the front: 0.049, 55.7 s. 5 misses 0.5 s; 2 misses 0.8 points and 24.5 s;
    # 8 misses 2.6 points, 9 misses 2.2 points and 10.9 s, 7 misses 4.9 points.
    expect(answer).to_have_text(
        "None of the 5 trials on the front fits. Nearest: trial 5 (0.50 s too long); "
        "trial 8 (accuracy 2.60 percentage points too low); "
        "trial 2 (accuracy 0.80 percentage points too low, 24.50 s too long)."
    )
    expect(page.locator("#card-empty")).to_be_visible()
    expect(page.locator("#card-body")).to_be_hidden()
    answer.get_by_role("button", name="trial 8").click()
    expect(page.locator("#card")).to_have_attribute("data-trial", "8")


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        (
            "at least accuracy",
            "98.5",
            "a fraction from 0 to 1, or a percentage with its sign as in 98.5%",
        ),
        ("at most seconds", "-1", "seconds above 0 and below 1000000000"),
        ("at most parameters", "1.5", "a whole number from 1 to 1000000000000"),
        ("at most parameters", "<b>", "a whole number from 1 to 1000000000000"),
    ],
)
def test_what_is_no_number_is_said_and_names_nothing(
    page: Page, field: str, text: str, says: str
) -> None:
    page.get_by_label(field).fill(text)
    expect(page.get_by_label(field)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text(f"Must be {says}.")).to_be_visible()
    expect(page.locator("#answer")).to_contain_text("until then no trial is named")
    expect(page.locator("#answer-line")).to_be_hidden()
    page.get_by_label(field).fill("")
    expect_named(page, 5, "highest accuracy of the 5 trials on the front")


def test_a_link_shows_the_same_view(
    full: Opened, page: Page, open_page: Callable[..., Opened]
) -> None:
    page.get_by_label("at most parameters").fill("1600000")
    page.get_by_label("prefer").select_option("knee")
    page.get_by_label("Training time as").select_option("steps")
    page.locator("#trials-table tr[data-trial='10'] button").click()
    page.get_by_role("searchbox").fill("decay")
    expect(page).to_have_url(re.compile("filter=decay"))
    fragment = page.evaluate("location.hash")
    other = open_page(full.path, fragment=fragment)
    expect(other.page.get_by_label("at most parameters")).to_have_value("1600000")
    expect(other.page.get_by_label("prefer")).to_have_value("knee")
    expect(other.page.get_by_label("Training time as")).to_have_value("steps")
    expect(other.page.get_by_role("searchbox")).to_have_value("decay")
    expect(other.page.locator("#card")).to_have_attribute("data-trial", "10")
    assert other.trials("trials-table") == [3, 10]
    assert other.page.locator("#answer").inner_text() == page.locator("#answer").inner_text()
    assert other.complaints() == []


def test_a_wrong_link_shows_the_usual_view(full: Opened, open_page: Callable[..., Opened]) -> None:
    opened = open_page(full.path, fragment="#time=years&prefer=best&sort=%00&trial=-1")
    expect_named(opened.page, 5, "highest accuracy of the 5 trials on the front")
    for fragment in ("#trial=999", "#=&&%", "#prefer=weights=0,0,0"):
        # Another view first, which each of them must end.
        opened.page.evaluate("location.hash = '#prefer=time&trial=2'")
        expect(opened.page.locator("#card")).to_have_attribute("data-trial", "2")
        opened.page.evaluate("fragment => { location.hash = fragment; }", fragment)
        expect_named(opened.page, 5, "highest accuracy of the 5 trials on the front")
    assert opened.complaints() == []


def random_trials(records: Records, seed: int) -> list[TrialRecord]:
    """Trials whose values often tie, so that every tie-break is needed."""
    draw = random.Random(seed)
    return [
        records.complete(
            number,
            draw.choice([0.9, 0.91, 0.92, 0.93, 0.1 + 0.2, draw.random()]),
            draw.choice([10.0, 20.0, 30.1, 100 * draw.random() + 1]),
            draw.choice([1000, 2000, 3000, 1_000_000]),
        )
        for number in range(draw.choice([1, 2, 8, 40]))
    ]


def candidates(front: list[dict[str, Any]]) -> list[Candidate]:
    return [Candidate(row["trial"], row["values"]) for row in front]


@pytest.mark.parametrize("seed", range(3))
def test_the_rule_of_the_page_is_that_of_select(
    records: Records, write: Callable[..., Path], open_page: Callable[..., Opened], seed: int
) -> None:
    trials = random_trials(records, seed)
    opened = open_page(write(records.study(budget=99), trials))
    front = candidates(opened.embedded_front())
    draw = random.Random(100 + seed)
    values = [trial.values for trial in trials if trial.values]

    def bound(of: Callable[[Values], float], spread: float) -> float | None:
        near = of(draw.choice(values))
        return draw.choice([None, near, near, max(1e-3, near + spread * (draw.random() - 0.5))])

    asked = []
    for _ in range(300):
        accuracy = bound(lambda v: v.accuracy, 0.1)
        parameters = bound(lambda v: v.parameters, 2000)
        bounds = (
            None if accuracy is None else min(accuracy, 1.0),
            bound(lambda v: v.training_seconds, 20),
            None if parameters is None else float(max(1, round(parameters))),
        )
        asked.append((bounds, draw.randrange(len(PREFERENCES))))
    said = opened.page.evaluate(
        "asked => asked.map(([bounds, prefer]) => report.criteria.choose(bounds, prefer))",
        [[bounds, PREFERENCES[place][1]] for bounds, place in asked],
    )
    fitted = 0
    for (bounds, place), answer in zip(asked, said, strict=True):
        criteria = criteria_of(*bounds, PREFERENCES[place][0])
        expected = select(front, criteria)
        if isinstance(expected, Selection):
            fitted += 1
            assert (answer["number"], answer["why"]) == (expected.number, expected.why)
        else:
            assert isinstance(expected, NothingFits)
            assert answer["number"] is None
            nearest = [(miss["number"], miss["shortfall"]) for miss in answer["nearest"]]
            assert nearest == [(miss.number, miss.shortfall) for miss in expected.nearest]
    assert 0 < fitted < 300


def test_page_and_commands_of_a_stored_study_agree(
    store_study: Callable[..., None],
    tmp_path: Path,
    open_page: Callable[..., Opened],
    cli: Cli,
    call: Cli,
) -> None:
    values = [
        values_of(0.9123456789012345, 12.345678901234567, 61_706.0),
        values_of(0.95, 30.000000000000004, 61_706.0),
        None,
        values_of(0.93, 20.1, 50_000.0),
        values_of(0.92, 40.0, 61_706.0),
    ]
    store_study(tmp_path / "fastrcaps.db", values)
    assert cli("report", "--study", "tiny").stdout == "reports/tiny.html\n"
    opened = open_page(tmp_path / "reports" / "tiny.html")
    page = opened.page
    front = json.loads(cli("front", "--study", "tiny", "--json").stdout)
    assert opened.embedded_front() == front
    assert opened.trials("front-table") == [row["trial"] for row in front] == [1, 3, 0]
    for texts in (
        {},
        {"min-accuracy": "92%", "prefer": "time"},
        {"max-seconds": "30.000000000000004", "prefer": "knee"},
        {"max-parameters": "50000"},
        {"min-accuracy": "0.9123456789012345", "max-seconds": "12.345678901234567"},
        {"prefer": "weights=1,2,0.5"},
    ):
        page.evaluate(
            "fields => report.state.set({ 'min-accuracy': '', 'max-seconds': '', "
            "'max-parameters': '', prefer: 'accuracy', trial: '', ...fields })",
            texts,
        )
        flags = [word for key, text in texts.items() for word in (f"--{key}", text)]
        selected = json.loads(call("select", "--study", "tiny", *flags, "--json").stdout)
        expect_named(page, selected["trial"], selected["why"])
        words = page.locator("#answer-command").inner_text().split()
        assert words == ["fastrcaps-search", "select", "--study", "tiny", *flags]
        # The card's own line names that trial again.
        line = page.locator("#card-commands code").first.inner_text()
        again = call(*line.split()[1:], "--json")
        assert json.loads(again.stdout)["trial"] == selected["trial"], again.stderr
    page.evaluate("report.state.set({ 'min-accuracy': '0.99' })")
    expect(page.locator("#answer")).to_contain_text("None of the 3 trials on the front fits.")
    refused = cli("select", "--study", "tiny", "--min-accuracy", "0.99")
    assert refused.returncode == 3
    assert opened.complaints() == []
