"""Parallel coordinates, certainty, progress, importance, schedules and the timeline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.report.panel import ALWAYS
from fastrcaps_search.report.panels import importance
from fastrcaps_search.report.plotly_io import static
from fastrcaps_search.report.plots import ACCENT, BAD, MUTED
from tests.report.views import FAILURE, HOSTILE, figures, stored_of, view_of

if TYPE_CHECKING:
    from fastrcaps_search.report.plots import Drawing
    from tests.report.conftest import Records


@pytest.fixture(scope="session")
def full(records: Records) -> dict[str, Mapping[str, Drawing]]:
    return figures(stored_of("full", records))


def lines_of(drawing: Drawing) -> dict[int, list[float]]:
    """Heights of each trial's line in the parallel coordinates."""
    found: dict[int, list[float]] = {}
    for trace in drawing["data"]:
        rows = list(zip(trace["customdata"], trace["x"], trace["y"], strict=True))
        for number, x, y in rows:
            if x is not None:
                assert len(found.setdefault(number, [])) == x, "a trial has one line"
                found[number].append(y)
    return found


def test_each_trial_has_one_line_and_better_is_up(
    records: Records, full: dict[str, Mapping[str, Drawing]]
) -> None:
    drawing = full["parallel"][ALWAYS]
    names = drawing["layout"]["xaxis"]["ticktext"]
    assert names == [
        "lr<br>policy",
        "batch<br>policy",
        "adabatch<br>exponent",
        "decoder",
        "weight<br>sharing",
        "accuracy",
        "training<br>time",
        "learned<br>parameters",
    ]
    found = lines_of(drawing)
    assert sorted(found) == list(range(11))
    for number, trial in enumerate(records.trials()):
        assert trial.values is not None
        accuracy, seconds, parameters = found[number][-3:]
        assert accuracy == pytest.approx((trial.values.accuracy - 0.921) / 0.049, abs=1e-4)
        assert seconds == pytest.approx((171.0 - trial.values.training_seconds) / 108.7, abs=1e-4)
        span = 1_915_440 - 1_483_312
        assert parameters == pytest.approx((1_915_440 - trial.values.parameters) / span, abs=1e-4)
    # Decoder full below, reduced above; two trials of one choice are apart by their accuracy.
    assert found[5][3] == pytest.approx(0.0, abs=0.03)
    assert found[2][3] == pytest.approx(1.0, abs=0.03)
    assert found[7][3] < found[0][3] < found[5][3]


def test_the_front_is_drawn_over_the_others(
    records: Records, full: dict[str, Mapping[str, Drawing]]
) -> None:
    data = full["parallel"][ALWAYS]["data"]
    strong = [trace for trace in data if trace["opacity"] == 1.0]
    assert {n for trace in strong for n in trace["customdata"]} == set(records.front)
    assert data[-len(strong) :] == strong
    dashed = {n for t in data if t["line"]["dash"] == "dash" for n in t["customdata"]}
    assert dashed == {7, 8, 9}


def test_a_rail_of_many_values_names_its_ends_alone(records: Records) -> None:
    drawn = figures(stored_of("rates", records))["parallel"][ALWAYS]
    place = drawn["layout"]["xaxis"]["ticktext"].index("lr<br>max")
    words = [a["text"] for a in drawn["layout"]["annotations"] if a["x"] == place]
    assert words == ["0.0001", f"{1e-4 * 1.1**44:.3g}"]
    # Rates are not spread by their accuracy: each is a value of its own.
    heights = {n: line[place] for n, line in lines_of(drawn).items()}
    assert heights == pytest.approx({n: n / 44 for n in range(45)}, abs=1e-4)


def test_equal_trials_stand_in_the_middle(records: Records) -> None:
    drawn = figures(stored_of("equal", records))["parallel"][ALWAYS]
    assert set(lines_of(drawn)) == set(range(12))
    assert all(line == [0.5, 0.5, 0.5] for line in lines_of(drawn).values())


def test_the_first_of_the_front_is_the_top_row_of_certainty(
    records: Records, full: dict[str, Mapping[str, Drawing]]
) -> None:
    drawing = full["accuracies"][ALWAYS]
    accuracies, tested = drawing["data"]
    assert accuracies["customdata"] == records.front[::-1]
    assert drawing["layout"]["yaxis"]["ticktext"] == [f"trial {n}" for n in records.front[::-1]]
    assert accuracies["x"][-1] == 0.970
    # Of 485 right of 500, by SciPy: 0.9511 to 0.9817.
    up, down = accuracies["error_x"]["array"][-1], accuracies["error_x"]["arrayminus"][-1]
    assert 0.970 - down == pytest.approx(0.9511, abs=1e-4)
    assert 0.970 + up == pytest.approx(0.9817, abs=1e-4)
    assert tested["name"] == "accuracy on the test set"
    assert tested["x"] == pytest.approx([0.917, 0.940, 0.944, 0.958, 0.966])


def test_each_run_has_a_tick_where_there_are_several(records: Records) -> None:
    drawing = figures(stored_of("runs", records))["accuracies"][ALWAYS]
    (runs,) = [trace for trace in drawing["data"] if trace["name"] == "each run"]
    places = {place: [] for place in runs["y"]}  # type: dict[int, list[float]]
    for x, y in zip(runs["x"], runs["y"], strict=True):
        places[y].append(x)
    assert places[max(places)] == pytest.approx([0.96, 0.98])
    assert {len(found) for found in places.values()} == {2}


def test_hypervolume_starts_from_nothing(full: dict[str, Mapping[str, Drawing]]) -> None:
    (by_trials,) = full["hypervolume-trials"][ALWAYS]["data"]
    (by_seconds,) = full["hypervolume-seconds"][ALWAYS]["data"]
    assert by_trials["x"] == list(range(13))
    assert by_trials["customdata"] == by_seconds["customdata"] == [None, *range(12)]
    assert by_trials["y"][0] == by_seconds["x"][0] == 0
    # Seconds of the eleven; the failed one had stored no epoch.
    spent = 96.1 + 95.0 + 118.0 + 171.0 + 97.2 + 94.0 + 150.5 + 62.3 + 79.9 + 104.4 + 98.0
    assert by_seconds["x"][-1] == by_seconds["x"][-2] == pytest.approx(spent)


def test_importances_are_columns_with_the_most_important_on_top(records: Records) -> None:
    view = view_of(records.study(), records.trials())
    found = importance.gather(view)
    assert found is not None
    data = figures(view)["importances"][ALWAYS]["data"]
    assert len(data) == 3
    for trace, shares in zip(data, found.shares.values(), strict=True):
        assert trace["y"][-1] == found.parameters[0].replace("_", " ")
        named = dict(zip(trace["y"], trace["x"], strict=True))
        assert named == {key.replace("_", " "): share for key, share in shares.items()}


def test_schedules_are_drawn_to_the_end(full: dict[str, Mapping[str, Drawing]]) -> None:
    batches = full["batches"][ALWAYS]["data"]
    assert [trace["y"] for trace in batches] == [
        [1, 8, 8, 8, 8, 8],
        [1, 16, 16, 16, 16, 16],
        [1, 32, 64, 128, 128, 128],
        [16] * 6,
    ]
    assert all(trace["x"] == [0, 1, 2, 3, 4, 5] for trace in batches)
    assert batches[2]["name"] == "1 → 32 → 64 → 128: trial 9"
    rates = full["rates"][ALWAYS]["data"]
    assert {trace["x"][-1] for trace in rates} == {5.0}
    assert max(max(trace["y"]) for trace in rates) == pytest.approx(1e-3)
    assert len({trace["line"]["dash"] for trace in rates}) == len(rates)


def test_the_timeline_has_a_bar_for_each_claim(
    records: Records, full: dict[str, Mapping[str, Drawing]]
) -> None:
    drawing = full["timeline"][ALWAYS]
    assert drawing["layout"]["yaxis"]["ticktext"] == ["worker-2", "worker-1"]
    bars = {trace["name"]: trace for trace in drawing["data"]}
    assert [(name, len(trace["y"])) for name, trace in bars.items()] == [
        ("complete", 11),
        ("failed", 1),
        ("lost or interrupted", 1),
        ("running", 1),
        ("lost here", 1),
        ("taken over or continued", 1),
    ]
    colours = [trace["marker"]["color"] for trace in bars.values()][:4]
    assert colours == [ACCENT.light, BAD.light, MUTED.light, ACCENT.light]
    # Trial 0 began at 0 s and ended after 96.1 s of training and 10 more.
    complete = bars["complete"]
    assert complete["customdata"][0] == 0
    assert complete["base"][0] == "1970-01-01 00:00:00.000"
    assert complete["x"][0] == 106_100
    # Lost without a stored time: known is only when it began.
    assert bars["lost here"]["x"] == [bars["lost or interrupted"]["base"][0]]
    assert bars["taken over or continued"]["x"] == ["1970-01-01 00:50:20.000"]
    place = complete["customdata"].index(3)
    assert complete["text"][place].startswith("<b>trial 3</b>, claim 2: complete<br>worker-2, ")
    assert complete["y"][place] == 0
    # One machine needs no name.
    assert not any("desk" in text for text in complete["text"])


def test_workers_of_several_machines_have_lanes_apart(records: Records) -> None:
    drawing = figures(stored_of("devices", records))["timeline"][ALWAYS]
    lanes = drawing["layout"]["yaxis"]["ticktext"]
    assert lanes == ["worker-1 on server", "worker-1 on desk"]


def texts_in(value: Any) -> list[str]:  # noqa: ANN401 - any of Plotly's values
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for part in value for text in texts_in(part)] if isinstance(value, list) else []


def test_texts_from_outside_are_no_markup(records: Records) -> None:
    study = replace(records.study(), name=HOSTILE)
    setting = replace(records.setting, device_name=HOSTILE)
    trials = [
        replace(trial, runs=(replace(trial.runs[0], setting=setting),))
        for trial in records.trials()
    ]
    trials.append(records.failed(11, replace(FAILURE, message=HOSTILE)))
    claims = [records.claim(0, 1, HOSTILE, 1.0, host=HOSTILE), records.claim(1, 1, "b", 2.0)]
    view = view_of(study, trials, claims=claims)
    drawn = static(view)
    assert drawn is not None
    found = [*texts_in(figures(view)), *texts_in(drawn)]
    # What Plotly would read as markup beside the tags of our own.
    hostile = [text for text in found if re.search("<(?!/?(b|br|sub|extra)>)", text)]
    assert hostile == []
    assert not any("<b>bold" in text for text in found)
    escaped = [text for text in found if "&lt;img src=x" in text]
    # The image's title, a lane, and the texts of a bar.
    assert len(escaped) >= 3


def test_a_policys_label_is_no_markup(records: Records) -> None:
    view = view_of(records.study(), records.trials()[:1])
    (mark,) = view.marks
    trial = replace(view.trials[0], mark=replace(mark, policy="<i>odd</i>"))
    # As if it had been worked out from what is stored.
    vars(view)["trials"] = (trial,)
    drawn = static(view)
    assert drawn is not None
    assert drawn["data"][0]["name"] == "&lt;i&gt;odd&lt;/i&gt;"


def test_the_mean_over_runs_is_a_second_thin_bar(records: Records) -> None:
    view = stored_of("repeated", records)
    drawing = figures(view)["accuracies"][ALWAYS]
    names = [trace["name"] for trace in drawing["data"]]
    assert names == [
        "accuracy on the validation split, 95 % interval",
        "mean of its runs, 95 % interval",
        "each run",
        "accuracy on the test set",
    ]
    images, means = drawing["data"][:2]
    # From below: 7, 8, 9, 2, 5; the last three have several runs.
    assert images["y"] == [0, 1, 2, 3, 4]
    assert means["y"] == pytest.approx([1.7, 2.7, 3.7])
    assert means["x"] == pytest.approx([0.948, 0.962, 0.970])
    assert means["error_x"]["array"][:2] == pytest.approx([12.706205 * 0.002] * 2, abs=1e-7)
    assert means["error_x"]["arrayminus"] == pytest.approx(means["error_x"]["array"])
    assert means["error_x"]["thickness"] < images["error_x"]["thickness"]
    # At the right the probability of each, in its row.
    words = [(note["y"], note["text"]) for note in drawing["layout"]["annotations"]]
    expected = [
        (place, f"{100 * view.front_probabilities[number]:.0f}\u00a0%")
        for place, number in enumerate(records.front[::-1])
    ]
    assert words == [*expected, (0, "on front")]


def test_nothing_stands_at_the_right_where_nothing_was_repeated(
    full: dict[str, Mapping[str, Drawing]],
) -> None:
    drawing = full["accuracies"][ALWAYS]
    assert drawing["layout"]["annotations"] == []
    assert not any("mean of" in trace["name"] for trace in drawing["data"])


def test_one_more_run_is_a_bar_and_takes_nothing_over(records: Records) -> None:
    drawing = figures(stored_of("repeated", records))["timeline"][ALWAYS]
    bars = {trace["name"]: trace["customdata"] for trace in drawing["data"]}
    assert bars == {
        "complete": list(range(11)),
        "failed": [3, 9],
        "running": [2],
        "one more run": [2, 5, 9, 5, 5, 5],
    }
    (more,) = (trace for trace in drawing["data"] if trace["name"] == "one more run")
    assert more["text"][0].startswith("<b>trial 2</b> run 1: one more run<br>w, ")
