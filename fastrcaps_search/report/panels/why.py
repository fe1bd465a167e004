"""Why: parallel coordinates of the parameters that vary and the objectives, a line a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastrcaps_search.definition.objective import ACCURACY, OBJECTIVES
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.report import axes, plots, text
from fastrcaps_search.report.fronts import Row, TimeAxis
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.projections import MANY
from fastrcaps_search.report.trials import TrialView, by_look
from fastrcaps_search.report.view import ReportView

JITTER = 0.05
"""Height over which trials of one choice are spread, in the order of their accuracy."""
MOST_TICKS = 12
"""Values of a parameter up to which each is named, and not the ends alone."""


@dataclass(frozen=True, slots=True)
class _Rail:
    """A vertical axis: its name, a height from 0 to 1 for each trial, and its ticks."""

    name: str
    heights: Mapping[int, float]
    ticks: Sequence[tuple[float, str]]


def gather(view: ReportView) -> ReportView | None:
    """The study; ``None`` where there is nothing to compare."""
    return view if len(view.feasible) > 1 else None


def draw(view: ReportView) -> Iterator[Plot]:
    """The figure."""
    yield Plot(
        name="parallel",
        drawing=parallel(view),
        words="Parallel coordinates: the parameters that vary and the objectives, a line for each "
        "feasible trial",
        title="Every trial through its parameters to its values",
        note="One line for each feasible trial, those on the front strong, shared weights dashed. "
        "On the axes of objectives up is better.",
        scrolls=True,
        has_keys=True,
    )


def parallel(view: ReportView) -> plots.Drawing:
    """The figure; better is up on the objectives' axes."""
    rows = view.fronts[TimeAxis.SECONDS].rows
    rails = [*_choices(view.feasible, rows), *_objectives(rows)]
    names = [rail.name.replace(" ", "<br>", 1) for rail in rails]
    line = {"color": plots.GRID.light, "width": 2}
    data: list[plots.Trace] = []
    for is_front in (False, True):
        members = [trial for trial in view.feasible if trial.on_front is is_front]
        faded = plots.FAINT / (1 + (len(members) > MANY))
        look = {"opacity": 1.0 if is_front else faded}
        data += [_lines(group, rails) | look for group in by_look(members)]
    return plots.drawing(
        data,
        xaxis={
            "range": [-0.35, len(rails) - 0.65],
            **axes.named(range(len(rails)), names),
            "tickangle": 0,
            "tickfont": plots.SMALL,
            "side": "top",
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        yaxis={"range": [-0.06, 1.06], "visible": False, "fixedrange": True},
        margin={"l": 16, "r": 16, "t": 48, "b": 12},
        shapes=[plots.upright(place, line=line) for place in range(len(rails))],
        annotations=[
            _tick(place, height, word, is_last=place == len(rails) - 1)
            for place, rail in enumerate(rails)
            for height, word in rail.ticks
        ],
    )


def _tick(place: int, height: float, word: str, *, is_last: bool) -> dict[str, Any]:
    side = {"xanchor": "right", "xshift": -5} if is_last else {"xanchor": "left", "xshift": 5}
    ground = {"bgcolor": plots.CARD.light, "opacity": 0.85, "borderpad": 0}
    font = {"size": 11, "color": plots.MUTED.light}
    return plots.words_at(place, height, word, yshift=9, font=font, **side, **ground)


def _lines(group: Sequence[TrialView], rails: Sequence[_Rail]) -> plots.Trace:
    """One trace for trials that are drawn alike; gaps part their lines."""
    xs: list[int | None] = []
    ys: list[float | None] = []
    for trial in group:
        xs += [*range(len(rails)), None]
        ys += [*(round(rail.heights[trial.number], 4) for rail in rails), None]
    first = group[0]
    dash = "dash" if first.shares_weights else "solid"
    width = 2.2 if first.on_front else 1
    return plots.scatter(
        "lines",
        xs,
        ys,
        customdata=[trial.number for trial in group for _ in range(len(rails) + 1)],
        hoverinfo="text",
        line={"color": first.mark.tone.light, "width": width, "dash": dash},
    )


def _choices(trials: Sequence[TrialView], rows: Mapping[int, Row]) -> list[_Rail]:
    """An axis for each parameter with at least two values."""
    order = sorted(rows, key=lambda number: rows[number][ACCURACY.name])
    share = {number: place / max(len(order) - 1, 1) - 0.5 for place, number in enumerate(order)}
    found = []
    for name in TRIAL_PARAMETERS.names:
        values = {trial.number: trial.record.parameters[name] for trial in trials}
        levels = sorted(set(values.values()), key=lambda v: (v is not None, text.rank(v)))
        if len(levels) < 2:
            continue
        heights = {value: place / (len(levels) - 1) for place, value in enumerate(levels)}
        spread = JITTER if not TRIAL_PARAMETERS[name].is_range else 0.0
        found.append(
            _Rail(
                name.replace("_", " "),
                {n: heights[value] + share[n] * spread for n, value in values.items()},
                [
                    (height, plots.label(text.value(value)))
                    for value, height in heights.items()
                    if len(levels) <= MOST_TICKS or height in (0.0, 1.0)
                ],
            )
        )
    return found


def _objectives(rows: Mapping[int, Row]) -> list[_Rail]:
    found = []
    for name in next(iter(rows.values())):
        objective = OBJECTIVES[name]
        values = {number: row[name] for number, row in rows.items()}
        worst = max(values.values(), key=objective.cost)
        best = min(values.values(), key=objective.cost)
        span = best - worst
        heights = {n: (value - worst) / span if span else 0.5 for n, value in values.items()}
        words = partial(text.without_unit, objective)
        ticks = [(0.0, words(worst)), (1.0, words(best))] if span else [(0.5, words(best))]
        found.append(_Rail(objective.label, heights, ticks))
    return found


PANEL = Panel(name="why", title="Why?", link="Why", gather=gather, draw=draw)
