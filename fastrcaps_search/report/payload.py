"""What the page's scripts read: trials, fronts and figures as JSON values."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastrcaps_search.analysis.rows import trial_row
from fastrcaps_search.definition.parameters import TRIAL_PARAMETERS
from fastrcaps_search.definition.toml import study_toml
from fastrcaps_search.report.drawings import axes
from fastrcaps_search.report.drawings.base import drawing
from fastrcaps_search.report.drawings.figures import figures, overlays
from fastrcaps_search.report.facts.certainty import ranges
from fastrcaps_search.report.facts.schedules import phases, stretches
from fastrcaps_search.report.facts.trials import TrialView
from fastrcaps_search.report.facts.view import ReportView
from fastrcaps_search.report.marks import MUTED, TEXT, dark_colours
from fastrcaps_search.store.records import RunRecord, TrialState
from fastrcaps_search.training.policy import TrainingPlan

MOST_EPOCHS = 300_000
"""Stored epochs up to which the page carries every learning curve."""
UNITS = 50_000
"""Parts of a packed fraction; the images of each split divide it, so accuracies are exact."""
UNKNOWN = 65_535
"""Packed number that stands for none."""
MOST_TRACE = 4_000
"""Characters of a failure's trace, its end, that the page carries."""


def payload(view: ReportView) -> dict[str, Any]:
    """All that the scripts need; the keys are theirs."""
    plans = [view.plans.of(trial.record.parameters) for trial in view.trials]
    schedules: dict[int, int] = {}
    for plan in plans:
        schedules.setdefault(id(plan), len(schedules))
    distinct = {schedules[id(plan)]: plan for plan in plans}
    carried = _carried(view)
    return {
        "study": _study(view),
        "rows": [trial_row(trial.record, view.sureness) for trial in view.trials],
        "more": [
            _more(view, trial, schedules[id(plan)], curves=trial.number in carried)
            for trial, plan in zip(view.trials, plans, strict=True)
        ],
        "schedules": [_schedule(distinct[place]) for place in range(len(distinct))],
        "fronts": {axis.value: list(front.numbers) for axis, front in view.fronts.items()},
        "axes": [axis.value for axis in view.fronts],
        "marks": [
            {
                "policy": mark.policy,
                "light": mark.tone.light,
                "dark": mark.tone.dark,
                "outline": mark.outline,
            }
            for mark in view.marks
        ],
        "parameters": TRIAL_PARAMETERS.names,
        "figures": figures(view),
        "overlays": overlays(view),
        "card": _card_figure(),
        "dark": dark_colours(),
    }


def _study(view: ReportView) -> dict[str, Any]:
    definition = view.stored.study.definition
    return {
        "name": view.name,
        "seed": view.stored.study.seed,
        "units": UNITS,
        "unknown": UNKNOWN,
        "storage": view.stored.storage or "",
        "onServer": view.stored.storage is None,
        "inProgress": view.in_progress,
        "file": study_toml(definition, without=("name", "space", "configuration")),
    }


def _carried(view: ReportView) -> set[int]:
    """Trials whose curves fit: those on the front first, then by number."""
    left = MOST_EPOCHS
    found = set()
    for trial in sorted(view.trials, key=lambda trial: not trial.on_front):
        left -= len(trial.record.epochs)
        if left < 0:
            break
        found.add(trial.number)
    return found


def _more(view: ReportView, trial: TrialView, schedule: int, *, curves: bool) -> dict[str, Any]:
    """What the row of ``trials --json`` does not say; parts that say nothing are left out."""
    record = trial.record
    # Of each run the first claim takes nothing over.
    claims = {(epoch.run, epoch.token) for epoch in record.epochs}
    runs = {epoch.run for epoch in record.epochs}
    found: dict[str, Any] = {
        "policy": trial.mark.policy,
        "rates": trial.rates,
        "batch": trial.batch,
        "schedule": schedule,
        "note": trial.note,
        "positions": {axis.value: value for axis, value in trial.positions.items()},
        "ranges": ranges(record.runs),
        "workers": sorted({epoch.worker for epoch in record.epochs}),
        "sharing": sorted({epoch.sharing for epoch in record.epochs}),
        "runs": [_run(trial, run, curves=curves) for run in record.begun_runs],
        "claims": 1 + len(claims) - len(runs) if claims else 0,
    }
    failure = record.failure
    if failure is not None and record.state is TrialState.FAILED:
        found["failure"] = {
            "kind": failure.kind,
            "trace": failure.trace[-MOST_TRACE:],
            "log": failure.log_path,
        }
    return {key: value for key, value in found.items() if value not in ("", [], {}, None)}


def _run(trial: TrialView, run: RunRecord, *, curves: bool) -> dict[str, Any]:
    setting = run.setting
    found: dict[str, Any] = {"seed": run.seed, "bitEqual": run.bit_equal}
    if setting is not None:
        found |= {
            "device": setting.device_name,
            "torch": setting.torch_version,
            "precision": setting.precision,
            "threads": setting.threads,
        }
    if run.removed:
        found["removed"] = True
    if run.accuracy is not None and math.isfinite(run.accuracy):
        found["accuracy"] = run.accuracy
    if run.failure is not None:
        found["failure"] = run.failure.message
    if curves:
        epochs = [epoch.metrics for epoch in trial.record.epochs if epoch.run == run.run]
        seconds = [epoch.training_seconds for epoch in epochs]
        longest = max(filter(math.isfinite, seconds), default=0.0)
        found["curve"] = _packed([epoch.accuracy for epoch in epochs], UNITS)
        found["longest"] = longest
        found["spent"] = _packed([spent / (longest or 1.0) for spent in seconds], UNITS)
    return found


def _packed(fractions: Sequence[float], units: int) -> str:
    """Numbers of 16 bits in base64: a page of 100,000 epochs has no room for decimals."""
    whole = np.array(fractions, dtype=float) * units
    known = np.isfinite(whole)
    packed = np.where(known, np.clip(np.rint(np.where(known, whole, 0)), 0, units), UNKNOWN)
    return base64.b64encode(packed.astype("<u2").tobytes()).decode()


def _schedule(plan: TrainingPlan) -> dict[str, Any]:
    return {
        "rates": [
            [
                str(part.curve),
                part.start,
                part.length,
                part.count,
                part.first,
                part.last,
                part.power,
            ]
            for part in stretches(plan)
        ],
        "sizes": phases(plan),
    }


def _card_figure() -> dict[str, Any]:
    """The style of the card's small figures; the page fills in their lines and titles."""
    small = {"size": 11, "color": MUTED.light}
    axis = axes.plain("", tickfont=small, nticks=5)
    axis["title"] = {"text": "", "standoff": 4, "font": small}
    margin = {"l": 44, "r": 8, "t": 6, "b": 34}
    layout = drawing([], xaxis=axis, yaxis=axis, margin=margin, hovermode="x")["layout"]
    return {"layout": layout, "muted": MUTED.light, "text": TEXT.light}
