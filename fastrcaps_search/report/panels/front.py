"""The front: accuracy, training time and parameters in three linked figures, in 3D, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.report import text
from fastrcaps_search.report.fronts import PAIRS, Front
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.paper.overlay import overlay
from fastrcaps_search.report.paper.points import HARDWARE, PaperPoint, paper_points
from fastrcaps_search.report.plots import Drawing
from fastrcaps_search.report.projections import projections
from fastrcaps_search.report.space import space
from fastrcaps_search.report.style import OUTLINES
from fastrcaps_search.report.time_axis import TimeAxis
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView

MOST_LISTED = 200
"""Trials on the front that its table lists."""
MOST_NAMED = 8
"""Trials that a change of the measure brings or takes and that are named."""
SMALL = "M8 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8z"
STEPS = "M1 13H9V8H17V3H25"
BAR = "M8 1V15M5 1H11M5 15H11"
"""SVG paths of the legend."""


@dataclass(frozen=True, slots=True)
class FrontInfo:
    """What the figures and the table of the front show.

    Attributes:
        view: The study.
        paper: What the paper published for these images.
        hardware: What it trained on.
        legend: What is drawn beside the marks of policies: look, SVG path, words.
        listed: The trials in the table.
        columns: The table's columns beside trial and policy.
        table_note: What they say, and what they leave out.
    """

    view: ReportView
    paper: tuple[PaperPoint, ...]
    hardware: str
    legend: tuple[tuple[str, str, str], ...]
    listed: tuple[TrialView, ...]
    columns: tuple[Column, ...]
    table_note: tuple[str, ...]


def gather(view: ReportView) -> FrontInfo:
    """The facts; they are there without a front too, and say so."""
    listed = view.front[:MOST_LISTED]
    return FrontInfo(
        view,
        paper_points(view.definition),
        HARDWARE,
        tuple(mark for mark, is_drawn in _legend(view) if is_drawn),
        listed,
        columns(listed),
        table_note(view),
    )


def _legend(view: ReportView) -> Iterable[tuple[tuple[str, str, str], bool]]:
    shared = any(trial.shares_weights for trial in view.trials)
    yield ("open", OUTLINES["circle"], "hollow: shared weights"), shared
    yield (
        ("faint", SMALL, "small: infeasible, at the edge where it lies beyond"),
        len(view.complete) > len(view.feasible),
    )
    faint = len(view.feasible) > len(view.front)
    yield ("faint", OUTLINES["circle"], "faint: not on the front"), faint
    yield ("open line", STEPS, "attained"), True
    repeated = any(len(trial.record.results) > 1 for trial in view.front)
    yield ("open", BAR, "bar: lowest to highest run"), repeated


def draw(info: FrontInfo) -> tuple[Plot, ...]:
    """The three projections and the figure in 3D, in every measure of time."""
    fronts, trials = info.view.fronts, info.view.by_number
    if not fronts:
        return ()
    drawn: dict[str, dict[str, Drawing]] = {}
    for axis, front in fronts.items():
        figures = {**projections(trials, front), "space": space(trials, front)}
        for name, figure in figures.items():
            drawn.setdefault(name, {})[axis.value] = figure
    of = f"of {len(info.view.complete)} complete trials; on the front: "
    on_front = text.numbered("trial", [trial.number for trial in info.view.front])
    return (
        *(
            Plot(
                name=pair.name,
                by_time=drawn[pair.name],
                title=pair.title,
                words=f"Scatter plot: {pair.title.lower()} {of}{on_front}",
                has_keys=True,
            )
            for pair in PAIRS
        ),
        Plot(
            name="space",
            by_time=drawn["space"],
            title="All three objectives",
            words="Three-dimensional scatter plot of training time, parameters and accuracy; the "
            "tables hold the same values",
            caption="Up, left and near is better. Spheres have a constant batch size, diamonds "
            "one that grows; a line drops from each trial on the front. Drag to turn.",
        ),
    )


def note(info: FrontInfo) -> tuple[str, ...]:
    """What the front is, or why there is none."""
    view = info.view
    if view.front:
        return (
            "The trials that no other trial matches in every objective and beats in at least one: "
            "large, and numbered where there is room; the others faint. The line bounds what the "
            "study attains in two objectives alone; a trial on the front but off the line earns "
            "its place by the third.",
        )
    if view.complete:
        return ("No trial is feasible, so there is no front; the list of all trials says why.",)
    if view.trials:
        return ("No trial is complete yet, so there is no front.",)
    return ("No trial has started yet. The front appears here with the first complete trial.",)


def table_note(view: ReportView) -> tuple[str, ...]:
    """What the columns say, and what they leave out."""
    more = (
        f"The {MOST_LISTED} of highest accuracy out of {len(view.front):,}; the list of all "
        "trials below can show the front alone."
    )
    return (_uncertainty(view), more) if len(view.front) > MOST_LISTED else (_uncertainty(view),)


def _uncertainty(view: ReportView) -> str:
    left = view.stored.repeats_left
    if view.stored.front_probabilities:
        return _reach(view) + Markup(
            " On front: how probable it is that the trial is on the front, as "
            '<a href="#uncertainty">How sure</a> explains.'
        )
    if left:
        runs = "run says" if left == 1 else "runs say"
        return f"? nothing has been repeated yet; {left:,} planned {runs} how sure the front is."
    return Markup(
        "? nothing was repeated: <code>{}</code> says how sure the front is. The front is picked "
        "by single runs, which flatters it."
    ).format(view.repeat_command)


def _reach(view: ReportView) -> str:
    if not view.is_estimated:
        return (
            "± reaches the ends of the 95 % interval of the mean over a trial's runs "
            "(Student's t)."
        )
    return (
        "Accuracies are estimates, drawn towards those of the other trials by as much as luck is "
        "likely to be in them: the trials that were repeated were picked for good runs, so the "
        "plain means of their runs, which a trial's card has, flatter the best of them. ± reaches "
        "the farther end of the 95 % interval of the estimate, in seconds of the mean over the "
        "runs (Student's t)."
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its title, the texts of its cells, what stands small below them."""

    title: str
    cells: Sequence[str]
    below: Sequence[str] = ()
    is_number: bool = True


def columns(front: Sequence[TrialView]) -> tuple[Column, ...]:
    """The columns beside trial and policy; those that say nothing are left out."""
    found = [
        Column("accuracy", [t.told(0) for t in front], [t.accuracy_margin for t in front]),
        Column("test\naccuracy", [text.percent(trial.test_accuracy) for trial in front]),
        Column("seconds", [t.told(1) for t in front], [t.seconds_margin for t in front]),
        Column("parameters", [trial.told(2) for trial in front]),
        Column("runs", [str(len(trial.record.results)) for trial in front]),
        Column("on\nfront", [text.share(trial.front_probability) for trial in front]),
        Column("P", [trial.exponent for trial in front], is_number=False),
        Column("batch size", [trial.batch for trial in front], is_number=False),
        Column("decoder", [trial.decoder for trial in front], is_number=False),
        Column("shared\nweights", [trial.shared for trial in front], is_number=False),
    ]
    optional = {"runs", "P", "decoder", "shared\nweights"}
    silent = {"1", text.NOTHING}
    return tuple(c for c in found if c.title not in optional or not set(c.cells) <= silent)


def overlays(view: ReportView) -> dict[str, dict[str, Any]]:
    """The paper's points by measure of time and figure, where the paper gives them."""
    points, trials = paper_points(view.definition), view.by_number
    found = {axis.value: overlay(points, trials, front) for axis, front in view.fronts.items()}
    return {axis: figures for axis, figures in found.items() if figures}


def changes(fronts: Mapping[TimeAxis, Front]) -> dict[str, str]:
    """What another measure of time changes of the front, in words, by measure."""
    measured = fronts[TimeAxis.SECONDS].numbers if fronts else ()
    return {
        axis.value: _change(measured, front.numbers)
        for axis, front in fronts.items()
        if axis is not TimeAxis.SECONDS
    }


def _change(measured: Sequence[int], now: Sequence[int]) -> str:
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
    columns = {pair.name: [COMMON[column] for column in (pair.x, pair.y)] for pair in PAIRS}
    return {
        "axes": columns,
        "changes": changes(info.view.fronts),
        "overlays": overlays(info.view),
    }


PANEL = Panel(
    name="front",
    title="Front",
    gather=gather,
    draw=draw,
    note=note,
    module=__file__,
    data=data,
)
