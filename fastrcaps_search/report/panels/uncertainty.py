"""How far an accuracy may be off: luck of the images and luck of the seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fastrcaps_search.front.certainty import NEAR
from fastrcaps_search.front.criteria import joined
from fastrcaps_search.front.paired import Z_95
from fastrcaps_search.report import axes, text
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.plots import ABOVE, Drawing, Trace, drawing
from fastrcaps_search.report.style import ATTAINED, MUTED, TEXT
from fastrcaps_search.report.traces import error_bar
from fastrcaps_search.report.trials import TrialView, finite
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import Values

BELOW = 0.3
"""How far the interval of the mean over runs stands below its trial's, in rows."""
MOST_NEAR = 6
"""Trials near the front that are named one by one."""


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """Accuracy of one trial on the front.

    Attributes:
        trial: The trial.
        accuracy: Its accuracy, which may be an estimate.
        measured: Mean over its runs, read off the images.
        interval: 95 % interval of that from the number of images.
        mean_interval: 95 % interval of the mean over its runs, or of the estimate, if any.
        runs: Accuracy of each run.
    """

    trial: TrialView
    accuracy: float
    measured: float
    interval: tuple[float, float]
    mean_interval: tuple[float, float] | None
    runs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How sure the front is.

    Attributes:
        split: Where the accuracies come from.
        images: Number of its images.
        largest_runs: Most runs of any trial on the front.
        fewest_runs: Fewest of them.
        repeated: Feasible trials of two runs or more, over which the spread is pooled.
        near: Trials behind the front that may well belong there, the most probable first.
        rows: The first trials on the front.
        is_estimated: Whether accuracies are estimates.
        has_probabilities: Whether something was repeated, which says how far runs scatter.
        repeat_command: The command line that repeats trials.
        cut: Says that there are only the first of the front, where it is so.
    """

    split: str
    images: int
    largest_runs: int
    fewest_runs: int
    repeated: int
    near: tuple[TrialView, ...]
    rows: tuple[AccuracyRow, ...]
    is_estimated: bool
    has_probabilities: bool
    repeat_command: str
    cut: tuple[str, ...]


def gather(view: ReportView) -> Uncertainty | None:
    """How sure the front and its accuracies are; ``None`` without one."""
    if not view.front:
        return None
    images = view.definition.evaluation_size
    counts = [len(trial.record.results) for trial in view.front]
    feasible = [trial.record for trial in view.trials if trial.record.is_feasible]
    return Uncertainty(
        split=view.definition.evaluate_on.images,
        images=images,
        largest_runs=max(counts),
        fewest_runs=min(counts),
        repeated=sum(len(record.results) > 1 for record in feasible),
        near=_near(view.trials),
        rows=tuple(_row(t, t.values, images) for t in view.shown_front if t.values is not None),
        is_estimated=view.is_estimated,
        has_probabilities=bool(view.stored.front_probabilities),
        repeat_command=view.repeat_command,
        cut=view.cut,
    )


def _near(trials: Iterable[TrialView]) -> tuple[TrialView, ...]:
    found = [
        (trial.front_probability, trial)
        for trial in trials
        if not trial.on_front
        and trial.front_probability is not None
        and trial.front_probability >= NEAR
    ]
    return tuple(trial for _, trial in sorted(found, key=lambda row: (-row[0], row[1].number)))


def _row(trial: TrialView, values: Values, images: int) -> AccuracyRow:
    spread = trial.record.accuracy_spread
    accuracy = values.accuracy
    measured = (trial.record.means or values).accuracy
    return AccuracyRow(
        trial=trial,
        accuracy=accuracy,
        measured=measured,
        interval=wilson(measured, images),
        mean_interval=None if spread is None else spread.ends(accuracy, 1.0),
        runs=finite(run.accuracy for run in trial.record.runs),
    )


def wilson(fraction: float, images: int) -> tuple[float, float]:
    """95 % score interval of a fraction of ``images`` (Wilson 1927, J. Am. Stat. Assoc. 22).

    It says how far the images alone may mislead: where another draw of as many may lie.

    Raises:
        ValueError: The fraction is not between 0 and 1, or there is no image.
    """
    if images < 1 or not 0.0 <= fraction <= 1.0:
        raise ValueError(f"needs a fraction of at least one image, got {fraction} of {images}")
    weight = Z_95**2 / images
    centre = (fraction + weight / 2) / (1 + weight)
    variance = fraction * (1 - fraction) / images + (Z_95 / images) ** 2 / 4
    half = Z_95 * math.sqrt(variance) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)


def note(found: Uncertainty) -> tuple[str, ...]:
    """What the bars are, and what nothing here says."""
    return (f"{_images(found)} {_runs(found)}", _probability(found), *found.cut)


def _images(found: Uncertainty) -> str:
    mean = ", here the mean over the trial's runs," if found.is_estimated else ""
    flattered = "and the front is chosen by it: both push it up, which no interval here corrects."
    if found.is_estimated:
        flattered = "which pushes it up, and no interval here corrects that."
    return (
        f"Read off the {found.images:,} images of the {found.split}, each accuracy{mean} has a "
        "95 % interval (Wilson) from the number of images alone: the bars. Each is the highest "
        f"over its epochs on these images, {flattered}"
    )


def _runs(found: Uncertainty) -> str:
    if found.largest_runs == 1:
        return (
            "Each trial on the front was trained once, so the luck of its seed is not in the "
            "interval; being picked for it flatters the most accurate one, by about 2 deviations "
            "from run to run where 40 trials are equally good."
        )
    of = "of the estimate" if found.is_estimated else "of their mean (Student's t)"
    if found.fewest_runs < found.largest_runs:
        return (
            f"Trials on the front were trained {found.fewest_runs} to {found.largest_runs} times; "
            f"the ticks are their runs, the thin bars below them the 95 % interval {of}."
        )
    return (
        f"Each trial on the front was trained {found.largest_runs} times; the ticks are its runs, "
        f"the thin bar below them the 95 % interval {of}."
    )


def _probability(found: Uncertainty) -> str:
    if not found.has_probabilities:
        return Markup(
            "Nothing was repeated, so nothing says how far luck of the seed reaches: "
            "<code>{}</code> trains each trial on or near the front with other seeds, until each "
            "has five runs, and says how sure the front is."
        ).format(found.repeat_command)
    trials = (
        "trial of the study that was" if found.repeated == 1 else "trials of the study that were"
    )
    return (
        "On front, at the right: how probable it is that the trial would be on the front if all "
        "were trained very many times. Such true means are drawn 2,000 times from what the runs "
        f"say; how far runs scatter is pooled over the {found.repeated:,} {trials} trained more "
        "than once, and taken to be the same for all. The probability is the share of the draws "
        "in which the trial is on the front: chance from seed to seed is in it, that of the "
        f"images is not.{_near_in_words(found.near)}"
    )


def _near_in_words(near: Sequence[TrialView]) -> str:
    if not near:
        return ""
    named = [
        f"trial {trial.number} ({text.share(trial.front_probability)})"
        for trial in near[:MOST_NEAR]
    ]
    more = [f"{len(near) - MOST_NEAR} more"] if len(near) > MOST_NEAR else []
    verb = "is" if len(near) == 1 else "are"
    return f" T{joined([*named, *more])[1:]} {verb} not on the front but may belong there."


def draw(found: Uncertainty) -> tuple[Plot]:
    """The figure."""
    height = 7 + (2 if found.largest_runs > 1 else 1.5) * len(found.rows)
    words = "Accuracy of the trials on the front with 95 % intervals, runs and test accuracy"
    return (Plot(name="accuracies", drawing=intervals(found), words=words, height=height),)


def intervals(found: Uncertainty) -> Drawing:
    """Accuracy of each trial with its interval, its runs and the test set's word on it."""
    rows = found.rows[::-1]
    data = [_accuracies(rows, f"accuracy on the {found.split}, 95 % interval")]
    if any(row.mean_interval for row in rows):
        data.append(_means(rows))
    runs = [
        (accuracy, place)
        for place, row in enumerate(rows)
        for accuracy in row.runs
        if len(row.runs) > 1
    ]
    tested = [
        (row.trial.test_accuracy, place)
        for place, row in enumerate(rows)
        if row.trial.test_accuracy is not None
    ]
    if runs:
        data.append(_ticks("each run", runs, "line-ns-open"))
    if tested:
        data.append(_ticks("accuracy on the test set", tested, "diamond-open"))
    ends = [end for row in rows for end in (*row.interval, *(row.mean_interval or ()))]
    beside = _probabilities(rows)
    low, high = axes.limits([*ends, *(x for trace in data for x in trace["x"])])
    return drawing(
        data,
        showlegend=True,
        legend=ABOVE,
        margin={"l": 64, "r": 68 if beside else 16, "t": 36, "b": 48},
        annotations=beside,
        xaxis=axes.plain(
            "accuracy", range=[low, min(high, 1.005)], tickformat=axes.decimals(high - low)
        ),
        yaxis=axes.rows([f"trial {row.trial.number}" for row in rows]),
    )


def _accuracies(rows: Sequence[AccuracyRow], name: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row.measured for row in rows],
        "y": list(range(len(rows))),
        "customdata": [row.trial.number for row in rows],
        "error_x": error_bar(
            [row.measured for row in rows],
            [row.interval for row in rows],
            **{"color": ATTAINED.light, "thickness": 2, "width": 0},
        ),
        "marker": {
            "size": 10,
            "symbol": [row.trial.mark.symbol for row in rows],
            "color": [row.trial.mark.tone.light for row in rows],
        },
        "hovertemplate": "%{x:.2%}<extra></extra>",
    }


def _means(rows: Sequence[AccuracyRow]) -> Trace:
    """The intervals of the means over runs, or of estimates: thin, each below its trial's."""
    estimated = any(row.trial.record.measured is not None for row in rows)
    what = "estimate of the mean" if estimated else "mean of its runs"
    known = [
        (place, row.accuracy, row.mean_interval)
        for place, row in enumerate(rows)
        if row.mean_interval is not None
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{what}, 95 % interval",
        "x": [accuracy for _, accuracy, _ in known],
        "y": [place - BELOW for place, _, _ in known],
        "error_x": error_bar(
            [accuracy for _, accuracy, _ in known],
            [interval for _, _, interval in known],
            **{"color": TEXT.light, "thickness": 1, "width": 3},
        ),
        # In the legend a thin bar too; in the figure it lies within the interval.
        "marker": {
            "size": 8,
            "symbol": "line-ew-open",
            "color": TEXT.light,
            "line": {"width": 1, "color": TEXT.light},
        },
        "hovertemplate": f"%{{x:.2%}}, {what}<extra></extra>",
    }


def _probabilities(rows: Sequence[AccuracyRow]) -> list[dict[str, Any]]:
    """At the right end of each row how probably its trial is on the front, where that is known."""
    known = [
        (place, text.share(row.trial.front_probability))
        for place, row in enumerate(rows)
        if row.trial.front_probability is not None
    ]
    if not known:
        return []
    shared = {"xref": "paper", "x": 1.01, "xanchor": "left", "showarrow": False, "align": "left"}
    head = {"yref": "paper", "y": 0, "yanchor": "top", "yshift": -4, "text": "on front"}
    numbers = [
        {"y": place, "text": words, "font": {"size": 12, "color": TEXT.light}}
        for place, words in known
    ]
    muted = {"font": {"size": 12, "color": MUTED.light}}
    return [shared | each for each in (*numbers, head | muted)]


def _ticks(name: str, points: Sequence[tuple[float, int]], symbol: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "marker": {"symbol": symbol, "size": 10, "color": TEXT.light, "line": {"width": 1.5}},
        "hovertemplate": f"%{{x:.2%}}, {name}<extra></extra>",
    }


PANEL = Panel(
    name="uncertainty",
    title="How sure is it?",
    link="How sure",
    gather=gather,
    draw=draw,
    note=note,
)
