"""Learning rates and batch sizes on the front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from fastrcaps_search.report import axes, plots
from fastrcaps_search.report.curves import Points, rate_points
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.training.policy import TrainingPlan
from fastrcaps_search.words import numbered

MOST_NAMED = 12
"""Lines up to which a legend names them."""
MOST_POINTS = 800
"""Points per line; a study of very many epochs gets fewer for each of its cycles."""


@dataclass(frozen=True, slots=True)
class Line:
    """One schedule.

    Attributes:
        name: In words.
        tone: Colour of the one policy that uses it, or the text's colour for several.
        trials: Numbers of the trials that follow it.
        epochs: Progress in epochs, from 0.
        values: Learning rate or batch size there; two of one progress are a restart.
    """

    name: str
    tone: plots.Tone
    trials: tuple[int, ...]
    epochs: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Schedules:
    """The distinct schedules of the first trials on the front, in their order."""

    rates: Sequence[Line]
    sizes: Sequence[Line]
    cut: Sequence[str]


def gather(view: ReportView) -> Schedules | None:
    """The schedules; ``None`` without a front."""
    if not view.front:
        return None
    trials, rates = view.shown_front, partial(rate_points, most=MOST_POINTS)
    return Schedules(
        _lines(trials, lambda t: t.record.parameters.lr_policy, rates),
        _lines(trials, lambda t: t.batch, _sizes),
        view.cut,
    )


def _lines(
    trials: Sequence[TrialView],
    name: Callable[[TrialView], str],
    points: Callable[[TrainingPlan], Points],
) -> list[Line]:
    """A line for each distinct schedule of the trials."""
    groups: dict[tuple[str, Points], list[TrialView]] = {}
    for trial in trials:
        groups.setdefault((name(trial), points(trial.plan)), []).append(trial)
    found = []
    for (named, places), members in groups.items():
        tones = {trial.mark.tone for trial in members}
        tone = tones.pop() if len(tones) == 1 else plots.TEXT
        numbers = tuple(sorted(trial.number for trial in members))
        found.append(Line(named, tone, numbers, *places))
    return found


def _sizes(plan: TrainingPlan) -> Points:
    return tuple(range(plan.epochs + 1)), (*plan.batch_sizes, plan.batch_sizes[-1])


def draw(found: Schedules) -> Iterator[Plot]:
    """Both figures."""
    highest = max(rate for line in found.rates for rate in line.values)
    rate = axes.plain("learning rate", range=[0, highest * 1.06], tickformat="~g")
    sizes = axes.powers_of_two([int(size) for line in found.sizes for size in line.values])
    size = axes.plain("batch size (log scale)", **sizes)
    yield Plot(
        name="rates",
        drawing=_drawing(found.rates, "epoch %{x:.2f}: %{y:.3g}", rate),
        title="Learning rates",
        words="Line chart of the learning rate over training for the trials on the front",
    )
    yield Plot(
        name="batches",
        drawing=_drawing(found.sizes, "batch %{y}", size, shape="hv"),
        title="Batch sizes",
        words="Step chart of the batch size by epoch for the trials on the front",
    )


def _drawing(
    lines: Sequence[Line], beside: str, y: dict[str, Any], *, shape: str = "linear"
) -> plots.Drawing:
    last = max(line.epochs[-1] for line in lines)
    return plots.drawing(
        [
            plots.scatter(
                "lines",
                list(line.epochs),
                list(line.values),
                line={"shape": shape, "color": line.tone.light, "width": 2, "dash": dash},
                name=f"{line.name}: {numbered('trial', line.trials)}",
                hovertemplate=f"{beside}<extra>%{{fullData.name}}</extra>",
            )
            for line, dash in zip(lines, cycle(plots.DASHES), strict=False)
        ],
        showlegend=len(lines) <= MOST_NAMED,
        xaxis=axes.plain("progress in epochs", range=[0, last], **axes.whole(last)),
        yaxis=y,
    )


PANEL = Panel(
    name="schedules",
    title="Schedules on the front",
    link="",
    gather=gather,
    draw=draw,
    note=lambda found: found.cut,
)
