"""Every figure of every kind of study, held to Plotly's schema and to the records."""

from __future__ import annotations

import itertools
from math import log10
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go  # type: ignore[import-untyped]  # it ships no types
import pytest

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.report.fronts import TimeAxis, pairs_of
from fastrcaps_search.report.panel import ALWAYS
from fastrcaps_search.report.panels import front as front_panel
from fastrcaps_search.report.plotly_io import static
from fastrcaps_search.report.projections import HEIGHT, LETTER, LINE, WIDTH
from fastrcaps_search.report.view import ReportView
from tests.report.views import KINDS, figures, many, stored_of, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fastrcaps_search.report.plots import Drawing, Trace
    from tests.report.conftest import Records

PAIRS = pairs_of(COMMON)
BY_TIME = {*(pair.name for pair in PAIRS), "space"}
WITH_FRONT = {*BY_TIME, "accuracies", "curves", "rates", "batches"} | {
    "hypervolume-trials",
    "hypervolume-seconds",
}


@pytest.fixture(scope="session")
def view(records: Records) -> Callable[[str], ReportView]:
    """The view of a kind of study, gathered once."""
    found: dict[str, ReportView] = {}

    def gathered(kind: str) -> ReportView:
        if kind not in found:
            found[kind] = stored_of(kind, records)
        return found[kind]

    return gathered


def validate(drawing: Mapping[str, Any]) -> None:
    """Refuses what plotly.js does not know."""
    figure = go.Figure(drawing)
    assert len(figure.data) == len(drawing["data"])


@pytest.mark.parametrize("kind", KINDS)
def test_plotly_knows_all_that_is_drawn(view: Callable[[str], ReportView], kind: str) -> None:
    found = figures(view(kind))
    for variants in found.values():
        for drawing in variants.values():
            validate(drawing)
    for variants in front_panel.overlays(front_panel.gather(view(kind))).values():
        for overlay in variants.values():
            layout = {"xaxis": overlay["xaxis"], "yaxis": overlay["yaxis"]}
            validate({"data": [*overlay["below"], overlay["trace"]], "layout": layout})
    drawn = static(view(kind))
    if drawn is not None:
        validate(drawn)
    assert (drawn is None) == (not view(kind).complete)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("empty", set()),
        ("failed", {"timeline"}),
        ("running", {"curves", "timeline"}),
        ("one", WITH_FRONT),
        ("equal", WITH_FRONT | {"parallel"}),
        ("many", WITH_FRONT | {"parallel", "importances"}),
        ("full", WITH_FRONT | {"parallel", "importances", "timeline"}),
    ],
)
def test_a_study_gets_the_figures_that_it_has_facts_for(
    view: Callable[[str], ReportView], kind: str, expected: set[str]
) -> None:
    found = figures(view(kind))
    assert set(found) == expected
    for name, variants in found.items():
        measures = [axis.value for axis in view(kind).fronts]
        assert list(variants) == (measures if name in BY_TIME else [ALWAYS])


def of_trials(drawing: Drawing) -> Iterator[tuple[int, Trace, int]]:
    """Each marker that stands for a trial: its number, its trace and its place in it."""
    for trace in drawing["data"]:
        for place, number in enumerate(trace.get("customdata", ())):
            yield number, trace, place


@pytest.mark.parametrize("kind", ["one", "equal", "runs", "many", "rates", "instant", "full"])
def test_every_complete_trial_is_once_in_every_projection(
    view: Callable[[str], ReportView], kind: str
) -> None:
    shown = view(kind)
    complete = [trial.number for trial in shown.complete]
    drawn = figures(shown)
    assert set(shown.fronts) == set(TimeAxis)
    for axis, pair in itertools.product(TimeAxis, PAIRS):
        found = list(of_trials(drawn[pair.name][axis.value]))
        assert sorted(number for number, _, _ in found) == complete
        for number, trace, place in found:
            trial = shown.trials[number]
            assert trial.values is not None
            row = {**trial.values, "training_seconds": trial.positions[axis]}
            assert trace["x"][place] == pytest.approx(row[pair.x.name], rel=1e-6)
            assert trace["y"][place] == pytest.approx(row[pair.y.name], rel=1e-6)
            on_front = number in shown.fronts[axis].numbers
            assert trace["meta"] == ("front" if on_front else "others")
            assert trace["marker"]["color"] == trial.mark.tone.light
            hollow = trace["marker"]["symbol"].endswith("-open")
            assert hollow == bool(trial.record.parameters.weight_sharing)
    for axis in TimeAxis:
        found = list(of_trials(drawn["space"][axis.value]))
        assert sorted(number for number, _, _ in found) == complete


@pytest.mark.parametrize("kind", ["one", "equal", "runs", "many", "instant", "full"])
def test_the_attainment_line_bounds_every_trial(
    view: Callable[[str], ReportView], kind: str
) -> None:
    shown = view(kind)
    drawn = figures(shown)
    for axis, pair in itertools.product(TimeAxis, PAIRS):
        drawing = drawn[pair.name][axis.value]
        (line,) = [trace for trace in drawing["data"] if trace["meta"] == "attained"]
        assert line["line"]["shape"] == "hv"
        up = pair.name.endswith("accuracy")
        sign = 1 if up else -1
        xs, ys = line["x"], [sign * y for y in line["y"]]
        assert xs == sorted(xs)
        assert ys == sorted(ys)
        # From the edge of the figure to the edge of the figure.
        x_range = drawing["layout"]["xaxis"]["range"]
        right = 10 ** x_range[1] if drawing["layout"]["xaxis"].get("type") == "log" else x_range[1]
        assert xs[-1] == pytest.approx(right)
        assert line["y"][0] == drawing["layout"]["yaxis"]["range"][0 if up else 1]
        for row in shown.fronts[axis].rows.values():
            # Corners at or before the trial: the last one's height is the best that is attained.
            reached = [y for x, y in zip(xs[1:], ys[1:], strict=True) if x <= row[pair.x.name]]
            assert reached
            assert sign * row[pair.y.name] <= reached[-1]


@pytest.mark.parametrize("kind", ["runs", "many", "rates", "full", "paper"])
def test_labels_name_their_trials_and_do_not_meet(
    view: Callable[[str], ReportView], kind: str
) -> None:
    drawn = figures(view(kind))
    for axis, pair in itertools.product(TimeAxis, PAIRS):
        drawing = drawn[pair.name][axis.value]
        x_axis, y_axis = drawing["layout"]["xaxis"], drawing["layout"]["yaxis"]
        labelled = [
            (number, trace["text"][place], trace["x"][place], trace["y"][place])
            for number, trace, place in of_trials(drawing)
            if "text" in trace and trace["text"][place]
        ]
        assert labelled
        boxes = []
        for number, words, x, y in labelled:
            assert number in map(int, words.rstrip("…").split(", "))
            right, middle = WIDTH * inside(x_axis, x), HEIGHT * inside(y_axis, y)
            boxes.append((right - LETTER * len(words), right, middle))
        for first, second in itertools.combinations(boxes, 2):
            apart = first[1] <= second[0] or second[1] <= first[0]
            assert apart or abs(first[2] - second[2]) >= LINE - 0.01


def inside(axis: Mapping[str, Any], value: float) -> float:
    """Where a value lies on an axis, by Plotly's own rule."""
    low, high = axis["range"]
    place = log10(value) if axis.get("type") == "log" else value
    return float((place - low) / (high - low))


def test_trials_of_one_place_share_a_label(records: Records) -> None:
    def labels(count: int) -> list[str]:
        trials = [records.complete(number, 0.9, 50.0, 9.0) for number in range(count)]
        drawn = figures(view_of(records.study(), trials))
        drawing = drawn[PAIRS[0].name]["seconds"]
        return [words for trace in drawing["data"] for words in trace.get("text", ()) if words]

    assert labels(3) == ["0, 1, 2"]
    assert labels(12) == ["0, 1, 2, 3…"]


def test_many_trials_are_drawn_smaller_and_fainter(records: Records) -> None:
    def faintest(count: int) -> tuple[float, int]:
        drawn = figures(view_of(records.study(), many(records, count)))[PAIRS[0].name]["seconds"]
        markers = [t["marker"] for t in drawn["data"] if t["meta"] == "others"]
        return min((marker["opacity"], marker["size"]) for marker in markers)

    assert faintest(300) < faintest(100) < (1.0, 13)


def test_bars_reach_from_the_lowest_run_to_the_highest(view: Callable[[str], ReportView]) -> None:
    shown = view("runs")
    drawn = figures(shown)[PAIRS[0].name]
    for number, trace, place in of_trials(drawn["seconds"]):
        values = shown.trials[number].values
        assert values is not None
        accuracy, seconds = values.accuracy, values.training_seconds
        up, down = trace["error_y"]["array"][place], trace["error_y"]["arrayminus"][place]
        assert (up, down) == (pytest.approx(0.01), pytest.approx(0.01))
        ends = sorted((seconds, 120.0))
        right = trace["error_x"]["array"][place]
        left = trace["error_x"]["arrayminus"][place]
        assert (right, left) == (
            pytest.approx(ends[1] - seconds),
            pytest.approx(seconds - ends[0]),
        )
        assert accuracy - down < accuracy < accuracy + up
    # Only seconds are known of each run; other measures have no bars along time.
    assert not any("error_x" in trace for trace in drawn["epochs"]["data"])
    assert any("error_y" in trace for trace in drawn["epochs"]["data"])


def test_single_runs_have_no_bars(view: Callable[[str], ReportView]) -> None:
    drawn = figures(view("full"))[PAIRS[0].name]["seconds"]
    assert not any("error_x" in trace or "error_y" in trace for trace in drawn["data"])


def test_the_paper_is_laid_over_where_it_gives_figures(view: Callable[[str], ReportView]) -> None:
    found = front_panel.overlays(front_panel.gather(view("paper")))
    # The paper counts no steps.
    assert set(found) == {"seconds", "epochs", "samples", "paper"}
    overlay = found["seconds"][PAIRS[0].name]
    trace = overlay["trace"]
    assert len(trace["x"]) == 8
    words = trace["hovertext"][0].split("<br>")
    assert words == [
        "<b>paper: fixed</b>",
        "accuracy 99.37\u00a0%, mean of 5 runs",
        "epoch 29, 8,215,728 parameters",
        "8,700 s on two Nvidia GTX 1080 Ti",
    ]
    assert (trace["x"][0], trace["y"][0]) == (8_700.0, pytest.approx(0.99366))
    # The wider axes hold the paper's points and the study's.
    for x in (*trace["x"], 62.3, 171.0):
        assert 0 < inside(overlay["xaxis"], x) < 1
    for y in (*trace["y"], 0.921, 0.97):
        assert 0 < inside(overlay["yaxis"], y) < 1


def test_the_attainment_line_reaches_the_edges_of_the_wider_axes(
    view: Callable[[str], ReportView],
) -> None:
    drawn = figures(view("paper"))[PAIRS[0].name]["seconds"]
    overlay = front_panel.overlays(front_panel.gather(view("paper")))["seconds"][PAIRS[0].name]
    narrow, wide = drawn["data"][0], overlay["below"][0]
    # The corners are the study's own: the paper's points move none of them.
    assert wide["x"][:-1] == narrow["x"][:-1]
    assert wide["y"][1:] == narrow["y"][1:]
    assert wide["x"][-1] == pytest.approx(10 ** overlay["xaxis"]["range"][1])
    assert wide["y"][0] == overlay["yaxis"]["range"][0]
    assert wide["x"][-1] > narrow["x"][-1]


def test_lenet5_is_laid_over_with_what_is_known(view: Callable[[str], ReportView]) -> None:
    found = front_panel.overlays(front_panel.gather(view("lenet5")))
    assert len(found["epochs"][PAIRS[0].name]["trace"]["x"]) == 5
    assert found["seconds"][PAIRS[0].name]["trace"]["x"] == [289.0]


def test_a_stem_drops_from_every_trial_on_the_front(
    view: Callable[[str], ReportView], records: Records
) -> None:
    drawing = figures(view("full"))["space"]["seconds"]
    floor = drawing["layout"]["scene"]["zaxis"]["range"][0]
    dropped = set()
    for number, trace, place in of_trials(drawing):
        if "error_z" in trace:
            dropped.add(number)
            stem = trace["error_z"]
            assert trace["z"][place] - stem["arrayminus"][place] == pytest.approx(floor)
            assert stem["array"][place] == 0
    assert dropped == set(records.front)


def test_the_image_names_the_study_its_policies_and_its_front(
    view: Callable[[str], ReportView],
) -> None:
    drawing = static(view("full"))
    assert drawing is not None
    title = drawing["layout"]["title"]["text"]
    assert title.startswith("mnist-mini<br><sub>capsnet-narrow on mnist-mini; front: 5 of 11 ")
    assert "2026-03-01 14:05 UTC" in title
    legend = [trace["name"] for trace in drawing["data"] if trace.get("showlegend", True)]
    policies = [mark.policy for mark in view("full").marks]
    assert legend == [*policies, "hollow: shared weights"]
    for suffix in ("", "2", "3"):
        on_axes = [
            number
            for number, trace, _ in of_trials(drawing)
            if (trace["xaxis"], trace["yaxis"]) == (f"x{suffix}", f"y{suffix}")
        ]
        assert sorted(on_axes) == list(range(11))
    domains = [drawing["layout"][f"xaxis{suffix}"]["domain"] for suffix in ("", "2", "3")]
    assert domains == sorted(domains)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(domains))


def test_an_image_without_shared_weights_says_nothing_of_them(
    view: Callable[[str], ReportView],
) -> None:
    drawing = static(view("one"))
    assert drawing is not None
    assert not any("hollow" in trace.get("name", "") for trace in drawing["data"])
