"""How far an accuracy may be off: luck of the images and luck of the seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fastrcaps_search.front.certainty import NEAR
from fastrcaps_search.front.criteria import joined
from fastrcaps_search.report import text
from fastrcaps_search.report.intervals import AccuracyRow, accuracy_row, intervals
from fastrcaps_search.report.panel import Panel, Plot
from fastrcaps_search.report.trials import TrialView
from fastrcaps_search.report.view import ReportView

MOST_NEAR = 6
"""Trials near the front that are named one by one."""


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
        rows=tuple(
            accuracy_row(t, t.values, images) for t in view.shown_front if t.values is not None
        ),
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
    return (
        Plot(
            name="accuracies",
            drawing=intervals(found.rows, found.split),
            words=words,
            height=height,
        ),
    )


PANEL = Panel(
    name="uncertainty",
    title="How sure is it?",
    link="How sure",
    gather=gather,
    draw=draw,
    note=note,
)
