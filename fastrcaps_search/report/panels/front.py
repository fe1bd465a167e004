"""The front: each pair of objectives in linked figures, the common three in 3D, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition.objective import ACCURACY, Objective
from fastrcaps_search.report import text
from fastrcaps_search.report.fronts import TimeAxis, pairs_of
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.paper import Published, published
from fastrcaps_search.report.projections import overlay, projections, space
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.words import numbered

MOST_LISTED = 200
"""Trials on the front that its table lists."""
MOST_NAMED = 8
"""Trials that a change of the measure brings or takes and that are named."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its title, the texts of its cells, what stands small below them."""

    title: str
    cells: Sequence[str]
    below: Sequence[str] = ()
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class FrontInfo:
    """What the figures and the table of the front show.

    Attributes:
        view: The study.
        paper: What the paper published for these images.
        listed: The trials in the table.
        columns: The table's columns beside trial and policy.
    """

    view: ReportView
    paper: Published | None
    listed: Sequence[TrialView]
    columns: Sequence[Column]


def gather(view: ReportView) -> FrontInfo:
    """The facts; they are there without a front too, and say so."""
    listed = view.front[:MOST_LISTED]
    return FrontInfo(view, published(view.definition), listed, columns(view.objectives, listed))


def draw(info: FrontInfo) -> Iterator[Plot]:
    """The projections and the figure in 3D, in every measure of time."""
    fronts, trials = info.view.fronts, info.view.by_number
    if not fronts:
        return
    drawn = {axis.value: projections(trials, front) for axis, front in fronts.items()}
    of = f"of {len(info.view.complete)} complete trials; on the front: "
    on_front = numbered("trial", [trial.number for trial in info.view.front])
    for pair in pairs_of(info.view.definition.objectives):
        yield Plot(
            name=pair.name,
            by_time={axis: figures[pair.name] for axis, figures in drawn.items()},
            title=pair.title,
            words=f"Scatter plot: {pair.title.lower()} {of}{on_front}",
            has_keys=True,
        )
    yield Plot(
        name="space",
        by_time={axis.value: space(trials, front) for axis, front in fronts.items()},
        title="Accuracy, time and parameters at once",
        words="Three-dimensional scatter plot of training time, parameters and accuracy; the "
        "tables hold the same values",
        caption="Up, left and near is better. Spheres have a constant batch size, diamonds one "
        "that grows; a line drops from each trial on the front. Drag to turn.",
    )


def columns(objectives: Sequence[Objective], front: Sequence[TrialView]) -> tuple[Column, ...]:
    """The columns beside trial and policy; those that say nothing are left out."""
    values = [
        Column(one.column, [t.told(one.name) for t in front], [t.margin(one.name) for t in front])
        for one in objectives
    ]
    tested = Column("test\naccuracy", [text.percent(t.record.test_accuracy) for t in front])
    values.insert(objectives.index(ACCURACY) + 1, tested)
    found = [
        *values,
        Column("runs", [str(len(t.record.results)) for t in front]),
        Column("on\nfront", [text.share(t.front_probability) for t in front]),
        Column("P", [t.chosen("adabatch_exponent") for t in front], is_number=False),
        Column("batch size", [t.batch for t in front], is_number=False),
        Column("decoder", [t.chosen("decoder") for t in front], is_number=False),
        Column("shared\nweights", [t.chosen("weight_sharing") for t in front], is_number=False),
    ]
    optional = {"runs", "P", "decoder", "shared\nweights"}
    silent = {"1", text.NOTHING}
    return tuple(c for c in found if c.title not in optional or not set(c.cells) <= silent)


def overlays(info: FrontInfo) -> dict[str, dict[str, Any]]:
    """The paper's points by measure of time and figure, where the paper gives them."""
    fronts, paper, trials = info.view.fronts, info.paper, info.view.by_number
    found = {axis.value: overlay(paper, trials, front) for axis, front in fronts.items() if paper}
    return {axis: figures for axis, figures in found.items() if figures}


def change(measured: Sequence[int], now: Sequence[int]) -> str:
    """What another measure of time changes of the front, in words."""
    gone = [number for number in measured if number not in now]
    come = [number for number in now if number not in measured]
    told = [
        f"{word} {', '.join(map(str, found[:MOST_NAMED]))}{'…' * (len(found) > MOST_NAMED)}"
        for word, found in (("without", gone), ("with", come))
        if found
    ]
    return (
        f"Front in this measure: {'; '.join(told) or 'the same trials'} (against training "
        "seconds, by which tables, badges, the criteria and select go)."
    )


def data(info: FrontInfo) -> dict[str, Any]:
    """What the switches of the page show."""
    pairs = pairs_of(info.view.definition.objectives)
    numbers = {axis: front.numbers for axis, front in info.view.fronts.items()}
    measured = numbers.pop(TimeAxis.SECONDS, ())
    return {
        "axes": {pair.name: [pair.x.name, pair.y.name] for pair in pairs},
        "changes": {axis.value: change(measured, now) for axis, now in numbers.items()},
        "overlays": overlays(info),
    }


PANEL = Panel(
    name="front",
    title="Front",
    gather=gather,
    draw=draw,
    module=__file__,
    data=data,
)
