"""Rows of ``trials --json`` and ``front --json``: what is said of each trial."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fastrcaps_search.analysis.front import front_numbers, probabilities
from fastrcaps_search.errors import NothingFitsError
from fastrcaps_search.store.holders import LeaseRecord, held_trials
from fastrcaps_search.store.records import MEASURED, SecondsBasis, TrialState
from fastrcaps_search.store.trials import TrialRecord

INTERRUPTED = "interrupted"
MOST_REASONS = 3
"""Reasons that are named where no trial is feasible."""


def trial_rows(
    trials: Sequence[TrialRecord], live: Sequence[LeaseRecord] = ()
) -> list[dict[str, Any]]:
    """Rows of ``trials --json``, by number.

    Args:
        trials: The trials.
        live: The live leases of their runs.
    """
    sureness, held = probabilities(trials), held_trials(live)
    order = sorted(trials, key=lambda trial: trial.number)
    return [
        trial_row(trial, sureness.get(trial.number), is_held=trial.number in held)
        for trial in order
    ]


def front_rows(trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Rows of ``front --json``, in the order of :func:`front_numbers`."""
    by_number = {trial.number: trial for trial in trials}
    sureness = probabilities(trials)
    return [trial_row(by_number[n], sureness.get(n)) for n in front_numbers(trials)]


def choosable_rows(trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Rows of the front, to choose one of.

    Raises:
        NothingFitsError: There are complete trials, but no feasible one.
    """
    rows = front_rows(trials)
    reasons = Counter(trial.infeasible for trial in trials if trial.infeasible is not None)
    if reasons and not rows:
        listed = ", ".join(f"{count} {why}" for why, count in reasons.most_common(MOST_REASONS))
        raise NothingFitsError(
            f"the trial must be feasible, but none of the {reasons.total()} complete trials is: "
            f"{listed}{', ...' * (len(reasons) > MOST_REASONS)}; run more trials"
        )
    return rows


def trial_row(
    trial: TrialRecord, sureness: float | None = None, *, is_held: bool = False
) -> dict[str, Any]:
    """JSON values of one trial.

    ``state`` of a trial without an end is ``running`` where a worker holds a run of it, else
    ``interrupted``.
    ``values`` always has a key for each objective, null while there is no value. ``runs`` is
    the number of runs that gave the values; while there are none, of those that were begun.
    ``measured`` is there where the accuracy is an estimate: the mean of the runs. ``spread`` is
    there for two runs and more, and, of the accuracy, with estimates: the standard deviation of
    the runs (null for one), and the 95 % interval. ``front_probability`` of a
    feasible trial is null where nothing was repeated. ``feasible`` of a complete trial says
    whether it may be on the front. ``seconds_basis`` and ``measured_seconds`` are there where the
    training seconds were computed for the study's reference device: ``computed`` or ``partly
    computed``, and the mean of what the runs took where they trained. ``test_accuracy`` is there
    when it is known, ``reason`` when the trial failed or is infeasible, ``set_aside`` (``by``,
    ``host``, ``why``, ``at``) when it was excluded.

    Args:
        trial: The trial.
        sureness: Probability of being on the front, where it is known.
        is_held: Whether a worker holds a run of it.
    """
    values: dict[str, float | None] = dict.fromkeys(trial.objectives)
    if trial.values is not None:
        values = {name: _json_number(value) for name, value in trial.values.items()}
        values["parameters"] = _whole(values["parameters"])
    row: dict[str, Any] = {
        "trial": trial.number,
        "state": shown_state(trial, is_held=is_held),
        "params": trial.parameters.to_dict(),
        "values": values,
        "runs": len(trial.results if trial.state is TrialState.COMPLETE else trial.runs),
        "device": trial.device,
    }
    if trial.measured is not None:
        row["measured"] = {"accuracy": trial.measured.accuracy}
    row |= _computed(trial)
    spreads = _spreads(trial)
    if spreads:
        row["spread"] = spreads
    if trial.is_feasible:
        row["front_probability"] = sureness
    if trial.state is TrialState.COMPLETE:
        row["feasible"] = trial.is_feasible
    if trial.test_accuracy is not None:
        row["test_accuracy"] = _json_number(trial.test_accuracy)
    if trial.state is TrialState.FAILED:
        row["reason"] = failure_reason(trial)
    elif trial.infeasible is not None:
        row["reason"] = trial.infeasible
    if trial.set_aside is not None:
        row["set_aside"] = asdict(trial.set_aside)
    return row


def shown_state(trial: TrialRecord, *, is_held: bool) -> str:
    """The state of a trial; ``interrupted`` for one without an end that no worker holds."""
    lies_still = trial.state is TrialState.RUNNING and not is_held
    return INTERRUPTED if lies_still else str(trial.state)


def _computed(trial: TrialRecord) -> dict[str, Any]:
    if trial.values is None or trial.seconds_basis is SecondsBasis.MEASURED:
        return {}
    return {
        "seconds_basis": str(trial.seconds_basis),
        "measured_seconds": trial.measured_seconds,
    }


def _spreads(trial: TrialRecord) -> dict[str, dict[str, float | None]]:
    spreads = zip(MEASURED, (trial.accuracy_spread, trial.seconds_spread), strict=True)
    return {
        name: {
            "deviation": spread.deviation,
            "margin": spread.reach(trial.values[name]),
            "low": spread.low,
            "high": spread.high,
        }
        for name, spread in spreads
        if spread is not None and trial.values is not None
    }


def failure_reason(trial: TrialRecord) -> str:
    """Why a trial failed, in one line."""
    if trial.failure is None:
        return "no reason was stored"
    return trial.failure.message or trial.failure.kind


def _json_number(value: float) -> float | None:
    """The value, or null where JSON has no word for it."""
    return value if math.isfinite(value) else None


def _whole(value: float | None) -> float | None:
    """A count without ``.0``."""
    return int(value) if value is not None and float(value).is_integer() else value
