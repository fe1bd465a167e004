"""Why: parallel coordinates of the parameters that vary and the objectives, a line a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.report import text
from fastrcaps_search.report.fronts import ACCURACY, PARAMETERS, TIME, Front
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.plots import Drawing, Trace, drawing, faint, label
from fastrcaps_search.report.style import CARD, GRID, MUTED, TEXT
from fastrcaps_search.report.time_axis import TimeAxis
from fastrcaps_search.report.traces import MANY, by_look
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView

JITTER = 0.05
"""Height over which trials of one choice are spread, in the order of their accuracy."""


@dataclass(frozen=True, slots=True)
class _Rail:
    """A vertical axis: its name, a height from 0 to 1 for each trial, and its ticks."""

    name: str
    heights: Mapping[int, float]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Feasible:
    """The feasible trials by number, and their front by seconds."""

    trials: Mapping[int, TrialView]
    front: Front


def gather(view: ReportView) -> Feasible | None:
    """The trials; ``None`` where there is nothing to compare."""
    measured = view.fronts.get(TimeAxis.SECONDS)
    if measured is None or len(measured.rows) < 2:
        return None
    return Feasible(view.by_number, measured)


def draw(found: Feasible) -> tuple[Plot]:
    """The figure."""
    return (
        Plot(
            name="parallel",
            drawing=parallel(found.trials, found.front),
            words="Parallel coordinates: the parameters that vary and the three objectives, a "
            "line for each feasible trial",
            title="Every trial through its parameters to its values",
            note="One line for each feasible trial, those on the front strong, shared weights "
            "dashed. On the last three axes up is better.",
            scrolls=True,
            has_keys=True,
        ),
    )


def parallel(trials: Mapping[int, TrialView], front: Front) -> Drawing:
    """The figure in one measure of time; better is up on the objectives' axes."""
    shown = [trials[number] for number in front.rows]
    rails = [*_choices(shown, front), *_objectives(front)]
    on_front = frozenset(front.numbers)
    data: list[Trace] = []
    for is_front in (False, True):
        members = [trial for trial in shown if (trial.number in on_front) is is_front]
        faded = 1.0 if is_front else faint(many=len(members) > MANY)
        data += [
            _lines(group, rails, is_front=is_front) | {"opacity": faded}
            for group in by_look(members)
        ]
    return drawing(
        data,
        xaxis={
            "range": [-0.35, len(rails) - 0.65],
            "tickmode": "array",
            "tickvals": list(range(len(rails))),
            "ticktext": [rail.name.replace(" ", "<br>", 1) for rail in rails],
            "tickangle": 0,
            "tickfont": {"size": 12, "color": TEXT.light},
            "side": "top",
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        yaxis={"range": [-0.06, 1.06], "visible": False, "fixedrange": True},
        margin={"l": 16, "r": 16, "t": 48, "b": 12},
        shapes=[
            {
                "type": "line",
                "layer": "below",
                **{"x0": place, "x1": place, "y0": 0, "y1": 1},
                "line": {"color": GRID.light, "width": 2},
            }
            for place in range(len(rails))
        ],
        annotations=[
            _tick(place, height, word, is_last=place == len(rails) - 1)
            for place, rail in enumerate(rails)
            for height, word in rail.ticks
        ],
    )


def _tick(place: int, height: float, word: str, *, is_last: bool) -> dict[str, Any]:
    return {
        "x": place,
        "y": height,
        "text": word,
        "showarrow": False,
        "xanchor": "right" if is_last else "left",
        "xshift": -5 if is_last else 5,
        "yshift": 9,
        "font": {"size": 11, "color": MUTED.light},
        "bgcolor": CARD.light,
        "opacity": 0.85,
        "borderpad": 0,
    }


def _lines(group: Sequence[TrialView], rails: Sequence[_Rail], *, is_front: bool) -> Trace:
    """One trace for trials that are drawn alike; gaps part their lines."""
    xs: list[int | None] = []
    ys: list[float | None] = []
    numbers: list[int] = []
    for trial in group:
        xs += [*range(len(rails)), None]
        ys += [*(round(rail.heights[trial.number], 4) for rail in rails), None]
        numbers += [trial.number] * (len(rails) + 1)
    mark, hollow = group[0].mark, group[0].shares_weights
    return {
        "type": "scatter",
        "x": xs,
        "y": ys,
        "customdata": numbers,
        "mode": "lines",
        "hoverinfo": "text",
        "line": {
            "color": mark.tone.light,
            "width": 2.2 if is_front else 1,
            "dash": "dash" if hollow else "solid",
        },
    }


def _choices(trials: Sequence[TrialView], front: Front) -> list[_Rail]:
    """An axis for each parameter with at least two values."""
    order = sorted(front.rows, key=lambda number: front.rows[number][ACCURACY])
    share = {number: place / max(len(order) - 1, 1) - 0.5 for place, number in enumerate(order)}
    found = []
    for name in TRIAL_PARAMETERS.names:
        values = {trial.number: trial.record.parameters[name] for trial in trials}
        distinct = sorted(set(values.values()) - {None}, key=text.rank)
        absent = [None] if None in values.values() else []
        levels = [*absent, *distinct]
        if len(levels) < 2:
            continue
        heights = {value: place / (len(levels) - 1) for place, value in enumerate(levels)}
        spread = JITTER if not TRIAL_PARAMETERS[name].is_range else 0.0
        found.append(
            _Rail(
                name.replace("_", " "),
                {n: heights[value] + share[n] * spread for n, value in values.items()},
                _ticks(levels, heights),
            )
        )
    return found


def _ticks(levels: Sequence[Any], heights: Mapping[Any, float]) -> tuple[tuple[float, str], ...]:
    shown = levels if len(levels) <= 12 else (levels[0], levels[-1])
    return tuple((heights[value], label(text.value(value))) for value in shown)


def _objectives(front: Front) -> list[_Rail]:
    show = {
        ACCURACY: ("accuracy", text.percent),
        TIME: (front.axis.words.split(" (")[0], text.seconds),
        PARAMETERS: ("parameters", text.count),
    }
    found = []
    for column, (name, words) in show.items():
        values = {number: row[column] for number, row in front.rows.items()}
        low, high = min(values.values()), max(values.values())
        worst, best = (low, high) if column == ACCURACY else (high, low)
        span = best - worst
        heights = {n: (value - worst) / span if span else 0.5 for n, value in values.items()}
        ticks = ((0.0, words(worst)), (1.0, words(best))) if span else ((0.5, words(low)),)
        found.append(_Rail(name, heights, ticks))
    return found


PANEL = Panel(name="why", title="Why?", link="Why", gather=gather, draw=draw)
