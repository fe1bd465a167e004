"""The card: all about one trial, the one under the pointer or the one that was picked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime
from itertools import count
from typing import Any

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.definition.toml import study_toml
from fastrcaps_search.report import axes, curves, plots, text
from fastrcaps_search.report.fronts import TimeAxis
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.trials import TrialView, finite, ranges
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import SecondsBasis, TrialState

MOST_TRACE = 4_000
"""Characters of a failure's trace, its end, that the page carries."""
MOST_POINTS = 60
"""Points of a schedule, unless it has more cycles than half of them."""

BRIEF = (
    *("on the front", "P", "batch size", "schedule", "decoder", "shared weights"),
    *("accuracy", "test accuracy", "training time", "parameters", "note"),
)
"""What is said of a trial beside the pointer, too."""

COUNTS = (
    (TimeAxis.EPOCHS, "best epoch", ""),
    (TimeAxis.SAMPLES, "samples", " up to the best epoch"),
    (TimeAxis.STEPS, "steps", " up to the best epoch"),
)

Fact = tuple[str, str]
"""A label and what it says."""


def facts(trial: TrialView) -> list[Fact]:
    """What the card lists; what there is nothing to say of is left out.

    Args:
        trial: The trial.
    """
    found = [*_state(trial), *_parameters(trial), *_values(trial), *_training(trial)]
    return [(label, said) for label, said in found if said]


def _state(trial: TrialView) -> Iterable[Fact]:
    record = trial.record
    yield "state", str(record.state)
    yield "note", trial.note
    if (aside := record.set_aside) is not None:
        when = datetime.fromtimestamp(aside.at, UTC)
        yield "set aside", f"by {aside.by} on {aside.host}, {when:%Y-%m-%d %H:%M} UTC"
    if record.state is TrialState.COMPLETE:
        known = trial.front_probability is not None
        sure = text.share(trial.front_probability) if known else "? (nothing was repeated)"
        yield "on the front", sure if record.is_feasible else "no, for it is infeasible"


def _parameters(trial: TrialView) -> Iterable[Fact]:
    own = trial.record.parameters
    yield "P", "" if own.adabatch_exponent is None else trial.chosen("adabatch_exponent")
    yield "batch size", trial.batch
    yield "schedule", trial.rates
    yield "decoder", "" if own.decoder is None else trial.chosen("decoder")
    yield "shared weights", "" if own.weight_sharing is None else trial.chosen("weight_sharing")


def _values(trial: TrialView) -> Iterable[Fact]:
    record, values = trial.record, trial.record.values
    accuracies = finite(run.accuracy for run in record.runs)
    if values is not None:
        words = (trial.told("accuracy"), trial.margin("accuracy"), _mean(trial))
        yield "accuracy", " ".join(filter(None, words))
    if len(accuracies) > 1:
        yield "each run", ", ".join(map(text.percent, accuracies))
    for run in record.runs:
        yield f"run {run.run} failed", "" if run.failure is None else run.failure.message
    if record.test_accuracy is not None:
        yield "test accuracy", text.percent(record.test_accuracy)
    if values is not None:
        ends = ranges(record.runs).get("training_seconds")
        reach = f"(runs {text.seconds(ends[0])} to {text.seconds(ends[1])})" if ends else ""
        seconds = f"{trial.told('training_seconds')} s"
        told = (seconds, trial.margin("training_seconds"), reach, _basis(trial))
        yield "training time", " ".join(filter(None, told))
        for name in trial.definition.objectives[2:]:
            yield OBJECTIVES[name].column, trial.told(name)
    for axis, label, what in COUNTS:
        at = trial.positions.get(axis)
        if at is not None:
            yield label, text.count(at) + what


def _mean(trial: TrialView) -> str:
    measured, runs = trial.record.measured, len(trial.record.results)
    of = f"mean of {runs} runs" if runs > 1 else "its run" if measured else ""
    if measured:
        return f"(estimate; {of} {text.percent(measured.accuracy)})"
    return f"({of})" if of else ""


def _basis(trial: TrialView) -> str:
    basis, measured = trial.record.seconds_basis, trial.record.measured_seconds
    if basis is SecondsBasis.MEASURED:
        return ""
    return f"({basis}; {text.seconds(measured)} s as measured)"


def _training(trial: TrialView) -> Iterable[Fact]:
    record = trial.record
    settings = [run.setting for run in record.runs if run.setting]
    yield "device", _each(setting.device_name for setting in settings)
    yield "threads", _each(setting.threads for setting in settings)
    yield "workers per device", _each(sorted({epoch.sharing for epoch in record.epochs}))
    yield "torch", _each(f"{setting.torch_version}, {setting.precision}" for setting in settings)
    yield "seeds" if len(record.runs) > 1 else "seed", _each(run.seed for run in record.runs)
    yield "trained by", ", ".join(trial.workers)
    # Of each run the first claim takes nothing over.
    claims = {(epoch.run, epoch.token) for epoch in record.epochs}
    again = len(claims) - len({run for run, _ in claims})
    if again:
        yield "claims with a stored epoch", f"{len(claims)} ({again} continued or taken over)"
    if not all(run.bit_equal for run in record.runs):
        yield "bit-equal", "no: continued with other threads, kernels or device"


def _each(values: Iterable[object]) -> str:
    """The distinct ones, in their order."""
    return ", ".join(dict.fromkeys(map(str, values)))


def data(view: ReportView) -> dict[str, Any]:
    """The cards of all trials, in their order, and what they share."""
    shown = curves.carried(view.trials)
    # What many trials have in common is carried once: facts and lines, by their places.
    said, lines = (defaultdict[Hashable, int](count().__next__) for _ in range(2))
    trials = []
    for trial in view.trials:
        runs, failure = trial.record.runs, trial.record.failure
        found = {
            "facts": [said[fact] for fact in facts(trial)],
            "rate": scaled(curves.rate_points(trial.plan, most=MOST_POINTS), lines),
            "batch": [*map(lines.__getitem__, curves.size_points(trial.plan)), 0, 1],
            "runs": [curves.curve(trial, run) for run in runs] if trial.number in shown else None,
            # What is known of why it failed.
            "failure": failure
            and {
                "kind": failure.kind,
                "trace": failure.trace[-MOST_TRACE:],
                "log": failure.log_path,
            },
            # Whether there is a network to write out.
            "isKept": any(finite([run.accuracy]) and not run.removed for run in runs),
        }
        trials.append({key: value for key, value in found.items() if value not in (None, False)})
    return {
        "trials": trials,
        "said": list(said),
        "brief": BRIEF,
        "lines": list(lines),
        "units": curves.UNITS,
        "unknown": curves.UNKNOWN,
        "layout": layout(),
        # Beginnings of the command lines of a trial, and the protocol of its study file.
        "select": view.command("select"),
        "export": view.command("export"),
        "seed": view.study.seed,
        "file": study_toml(view.definition, without=("name", "space", "configuration")),
    }


def scaled(points: curves.Points, lines: dict[Hashable, int]) -> list[float]:
    """A line as the places of its progress and of its shape, from 0 to 1, and its two ends.

    Schedules of one policy have one shape, whatever their rates.
    """
    epochs, values = points
    low, high = min(values), max(values)
    shape = ((value - low) / ((high - low) or 1.0) for value in values)
    return [lines[_short(epochs)], lines[_short(shape)], low, high]


def _short(values: Iterable[float]) -> tuple[float, ...]:
    """As many digits as a small figure can show."""
    return tuple(float(f"{value:.5g}") for value in values)


def layout() -> Any:  # noqa: ANN401 - Plotly's own values
    """The style of the card's small figures; the page fills in their lines and titles."""
    small = {"size": 11, "color": plots.MUTED.light}
    axis = axes.plain("", tickfont=small, nticks=5)
    axis["title"] = {"text": "", "standoff": 4, "font": small}
    margin = {"l": 44, "r": 8, "t": 6, "b": 34}
    return plots.drawing([], xaxis=axis, yaxis=axis, margin=margin, hovermode="x")["layout"]


PANEL = Panel(
    name="card",
    title="Details",
    link="",
    gather=lambda view: view,
    module=__file__,
    data=data,
    is_aside=True,
)
