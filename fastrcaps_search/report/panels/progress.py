"""How the front grew: hypervolume after each finished trial."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

from fastrcaps_search.report import axes, plots
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.trials import TrialRecord


@dataclass(frozen=True, slots=True)
class Progress:
    """Hypervolume of the front so far, over the finished trials in the order of their ends.

    Attributes:
        trials: Their numbers.
        spent_seconds: Training seconds of all epochs of all of them so far, past the best
            epochs too and those of failed trials; without repeats, which come after them all.
        hypervolumes: Share of the study's box, never falling; the last one is the hypervolume that
            the head names.
        is_repeated: Whether repeats were planned.
    """

    trials: tuple[int, ...]
    spent_seconds: tuple[float, ...]
    hypervolumes: tuple[float, ...]
    is_repeated: bool


def gather(view: ReportView) -> Progress | None:
    """Progress of a study; ``None`` before its first feasible trial."""
    study = view.study
    ended = [trial.record for trial in view.trials if trial.record.is_finished]
    ended.sort(key=lambda trial: (trial.finished_at or 0.0, trial.number))
    means = [trial.feasible_means for trial in ended]
    if study.box is None or not any(means):
        return None
    # Later runs are repeats.
    runs = study.definition.runs_per_trial
    return Progress(
        trials=tuple(trial.number for trial in ended),
        spent_seconds=tuple(accumulate(_spent(trial, runs) for trial in ended)),
        hypervolumes=tuple(study.box.shares([values or {} for values in means])),
        is_repeated=study.front_runs > 0,
    )


def _spent(trial: TrialRecord, runs: int) -> float:
    seconds = (epoch.seconds for epoch in trial.epochs if epoch.run < runs)
    return math.fsum(filter(math.isfinite, seconds))


def note(progress: Progress) -> tuple[str, ...]:
    """What the hypervolume is measured in."""
    box = Markup(
        "Measured in the study's own box, which is fixed with its first complete trial "
        '(see <a href="#protocol">Protocol</a>).'
    )
    repeats = (
        " Accuracies and seconds are means over all runs so far; the seconds leave repeats out, "
        "which come after the search."
    )
    return (box + repeats if progress.is_repeated else box,)


def draw(progress: Progress) -> Iterator[Plot]:
    """Hypervolume by finished trials and by the seconds that they cost."""
    finished = range(1, len(progress.trials) + 1)
    yield Plot(
        name="hypervolume-trials",
        drawing=_drawing(progress, finished, "finished trials"),
        title="Hypervolume by finished trials",
        words="Step chart of the hypervolume after each finished trial",
    )
    yield Plot(
        name="hypervolume-seconds",
        drawing=_drawing(progress, progress.spent_seconds, "training seconds of all workers"),
        title="Hypervolume by training seconds",
        words="Step chart of the hypervolume by training seconds spent",
    )


def _drawing(progress: Progress, xs: Sequence[float], title: str) -> plots.Drawing:
    trace = plots.scatter(
        "lines+markers" if len(xs) <= 60 else "lines",
        plots.short([0, *xs]),
        plots.short([0, *progress.hypervolumes]),
        customdata=[None, *progress.trials],
        line={"shape": "hv", "color": plots.ACCENT.light, "width": 2},
        marker={"size": 5, "color": plots.ACCENT.light},
        hovertemplate="%{x:,.0f}: hypervolume %{y:.3f}<br>trial %{customdata} "
        "finished<extra></extra>",
    )
    highest = max(progress.hypervolumes)
    return plots.drawing(
        [trace],
        xaxis=axes.plain(title, rangemode="tozero", nticks=7, tickangle=0),
        yaxis=axes.plain("hypervolume", range=[0, 1.03 * highest or 1]),
    )


PANEL = Panel(name="progress", title="Progress", gather=gather, draw=draw, note=note)
