"""Learning rates and batch sizes on the front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.report import axes, text
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.plots import DASHES, Drawing, drawing
from fastrcaps_search.report.schedules import Points, rate_points
from fastrcaps_search.report.style import TEXT, Tone
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.training.policy import TrainingPlan

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
    tone: Tone
    trials: tuple[int, ...]
    epochs: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Schedules:
    """The distinct schedules of the first trials on the front, in their order."""

    rates: tuple[Line, ...]
    sizes: tuple[Line, ...]
    cut: tuple[str, ...]


def gather(view: ReportView) -> Schedules | None:
    """The schedules; ``None`` without a front."""
    groups: tuple[dict[object, list[TrialView]], ...] = ({}, {})
    for trial in view.shown_front:
        for found, part in zip(groups, (trial.plan.rates, trial.plan.batch_sizes), strict=True):
            found.setdefault(part, []).append(trial)
    rates, sizes = (list(found.values()) for found in groups)
    if not rates:
        return None
    return Schedules(
        tuple(_line(group, str(group[0].record.parameters.lr_policy), _rates) for group in rates),
        tuple(_line(group, group[0].batch, _sizes) for group in sizes),
        view.cut,
    )


def _line(group: Sequence[TrialView], name: str, of: Callable[[TrainingPlan], Points]) -> Line:
    tones = {trial.mark.tone for trial in group}
    tone = tones.pop() if len(tones) == 1 else TEXT
    return Line(name, tone, tuple(sorted(trial.number for trial in group)), *of(group[0].plan))


def _rates(plan: TrainingPlan) -> Points:
    return rate_points(plan, most=MOST_POINTS)


def _sizes(plan: TrainingPlan) -> Points:
    return tuple(range(plan.epochs + 1)), (*plan.batch_sizes, plan.batch_sizes[-1])


def draw(found: Schedules) -> tuple[Plot, ...]:
    """Both figures."""
    highest = max(rate for line in found.rates for rate in line.values)
    sizes = [int(size) for line in found.sizes for size in line.values]
    return (
        Plot(
            name="rates",
            drawing=_drawing(
                found.rates,
                "epoch %{x:.2f}: %{y:.3g}",
                axes.plain("learning rate", range=[0, highest * 1.06], tickformat="~g"),
            ),
            title="Learning rates",
            words="Line chart of the learning rate over training for the trials on the front",
        ),
        Plot(
            name="batches",
            drawing=_drawing(
                found.sizes,
                "batch %{y}",
                axes.plain("batch size (log scale)", **axes.powers_of_two(sizes)),
                shape="hv",
            ),
            title="Batch sizes",
            words="Step chart of the batch size by epoch for the trials on the front",
        ),
    )


def _drawing(
    lines: Sequence[Line], beside: str, y: dict[str, Any], *, shape: str = "linear"
) -> Drawing:
    last = max(line.epochs[-1] for line in lines)
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": list(line.epochs),
            "y": list(line.values),
            "line": {
                "shape": shape,
                "color": line.tone.light,
                "width": 2,
                "dash": DASHES[place % len(DASHES)],
            },
            "name": f"{line.name}: {text.numbered('trial', line.trials)}",
            "hovertemplate": f"{beside}<extra>%{{fullData.name}}</extra>",
        }
        for place, line in enumerate(lines)
    ]
    return drawing(
        data,
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
