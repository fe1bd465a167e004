"""The card: all about one trial, the one under the pointer or the one that was picked."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime
from typing import Any

from fastrcaps_search.definition.toml import study_toml
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.report import axes, text
from fastrcaps_search.report.curves import UNITS, UNKNOWN, carried, curve
from fastrcaps_search.report.panel import Panel
from fastrcaps_search.report.plots import drawing
from fastrcaps_search.report.schedules import Points, rate_points, size_points
from fastrcaps_search.report.style import MUTED
from fastrcaps_search.report.time_axis import TimeAxis
from fastrcaps_search.report.trials import TrialView, finite, ranges
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import RunRecord, TrialState

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
    aside = record.set_aside
    if aside is not None:
        when = datetime.fromtimestamp(aside.at, UTC)
        yield "set aside", f"by {aside.by} on {aside.host}, {when:%Y-%m-%d %H:%M} UTC"
    if record.state is TrialState.COMPLETE:
        yield "on the front", _on_front(trial)


def _on_front(trial: TrialView) -> str:
    if not trial.record.is_feasible:
        return "no, for it is infeasible"
    if trial.front_probability is None:
        return "? (nothing was repeated)"
    return text.share(trial.front_probability)


def _parameters(trial: TrialView) -> Iterable[Fact]:
    parameters = trial.record.parameters
    yield "P", _given(parameters.adabatch_exponent)
    yield "batch size", trial.batch
    yield "schedule", trial.rates
    yield "decoder", _given(parameters.decoder)
    yield "shared weights", "" if parameters.weight_sharing is None else trial.shared


def _given(value: object) -> str:
    return "" if value is None else str(value)


def _values(trial: TrialView) -> Iterable[Fact]:
    record, values = trial.record, trial.record.values
    accuracies = finite(run.accuracy for run in record.runs)
    if values is not None:
        words = (trial.told(0), trial.accuracy_margin, _mean(trial))
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
        words = (f"{trial.told(1)} s", trial.seconds_margin, reach)
        yield "training time", " ".join(filter(None, words))
        yield "parameters", trial.told(2)
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


def _training(trial: TrialView) -> Iterable[Fact]:
    record = trial.record

    def each(of: Callable[[RunRecord], object]) -> str:
        return ", ".join(dict.fromkeys(str(of(run)) for run in record.runs))

    def where(of: Callable[[RunSetting], object]) -> str:
        return ", ".join(dict.fromkeys(str(of(r.setting)) for r in record.runs if r.setting))

    yield "device", where(lambda setting: setting.device_name)
    yield "threads", where(lambda setting: setting.threads)
    yield "workers per device", ", ".join(map(str, sorted({e.sharing for e in record.epochs})))
    yield "torch", where(lambda setting: f"{setting.torch_version}, {setting.precision}")
    yield "seeds" if len(record.runs) > 1 else "seed", each(lambda run: run.seed)
    yield "trained by", ", ".join(trial.workers)
    # Of each run the first claim takes nothing over.
    claims = {(epoch.run, epoch.token) for epoch in record.epochs}
    again = len(claims) - len({run for run, _ in claims})
    if again:
        yield "claims with a stored epoch", f"{len(claims)} ({again} continued or taken over)"
    if not all(run.bit_equal for run in record.runs):
        yield "bit-equal", "no: continued with other threads, kernels or device"


def failure(trial: TrialView) -> dict[str, str | None] | None:
    """What is known of why it failed."""
    found = trial.record.failure
    if found is None or trial.state is not TrialState.FAILED:
        return None
    return {
        "kind": found.kind,
        "trace": found.trace[-MOST_TRACE:],
        "log": found.log_path,
    }


def data(view: ReportView) -> dict[str, Any]:
    """The cards of all trials, in their order, and what they share."""
    shown = carried(view.trials)
    said, lines = Pool(), Pool()
    trials = []
    for trial in view.trials:
        runs = trial.record.runs
        found = {
            "facts": [said.place(fact) for fact in facts(trial)],
            "rate": scaled(rate_points(trial.plan, most=MOST_POINTS), lines),
            "batch": [*map(lines.place, size_points(trial.plan)), 0, 1],
            "runs": [curve(trial, run) for run in runs] if trial.number in shown else None,
            "failure": failure(trial),
            "isKept": any(map(_is_kept, runs)),
        }
        trials.append({key: value for key, value in found.items() if value not in (None, False)})
    return {
        "trials": trials,
        "said": said.items,
        "brief": BRIEF,
        "lines": lines.items,
        "units": UNITS,
        "unknown": UNKNOWN,
        "layout": layout(),
        **commands(view),
    }


class Pool:
    """What many trials have in common, carried once."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}

    def place(self, item: Hashable) -> int:
        """Where the item stands."""
        return self._places.setdefault(item, len(self._places))

    @property
    def items(self) -> list[Hashable]:
        """All of them."""
        return list(self._places)


def scaled(points: Points, lines: Pool) -> list[float]:
    """A line as the places of its progress and of its shape, from 0 to 1, and its two ends.

    Schedules of one policy have one shape, whatever their rates.
    """
    epochs, values = points
    low, high = min(values), max(values)
    shape = ((value - low) / ((high - low) or 1.0) for value in values)
    return [lines.place(_short(epochs)), lines.place(_short(shape)), low, high]


def _short(values: Iterable[float]) -> tuple[float, ...]:
    """As many digits as a small figure can show."""
    return tuple(float(f"{value:.5g}") for value in values)


def _is_kept(run: RunRecord) -> bool:
    """Whether there is a network to write out."""
    return run.accuracy is not None and math.isfinite(run.accuracy) and not run.removed


def commands(view: ReportView) -> dict[str, Any]:
    """Beginnings of the command lines of a trial, and the protocol of its study file."""
    place = view.storage_words
    return {
        "select": " ".join(["fastrcaps-search select --study", shlex.quote(view.name), *place]),
        "export": " ".join(["fastrcaps-search export --study", shlex.quote(view.name), *place]),
        "seed": view.study.seed,
        "file": study_toml(view.definition, without=("name", "space", "configuration")),
    }


def layout() -> dict[str, Any]:
    """The style of the card's small figures; the page fills in their lines and titles."""
    small = {"size": 11, "color": MUTED.light}
    axis = axes.plain("", tickfont=small, nticks=5)
    axis["title"] = {"text": "", "standoff": 4, "font": small}
    margin = {"l": 44, "r": 8, "t": 6, "b": 34}
    found: dict[str, Any] = drawing([], xaxis=axis, yaxis=axis, margin=margin, hovermode="x")
    return dict(found["layout"])


PANEL = Panel(
    name="card",
    title="Details",
    link="",
    gather=lambda view: view,
    module=__file__,
    data=data,
    is_aside=True,
)
