"""All facts of a report, gathered before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report import facts, text
from fastrcaps_search.report.facts import Fact, Tile
from fastrcaps_search.report.marks import COLOURS, Mark, mark
from fastrcaps_search.report.projections import Projection, projections
from fastrcaps_search.report.schedule_lines import (
    BatchLine,
    RateLine,
    batch_lines,
    rate_lines,
)
from fastrcaps_search.store.records import (
    Failure,
    LeaseRecord,
    StudyRecord,
    TrialRecord,
    TrialState,
    Values,
)
from fastrcaps_search.store.summary import failure_reason, front_numbers, front_rows, summarise
from fastrcaps_search.training.policy import training_plan


@dataclass(frozen=True, slots=True)
class TrialView:
    """One trial as tables and figures show it.

    Attributes:
        number: Its number.
        state: Its state.
        mark: How its policy is drawn.
        rates: Learning rates of its own, where the space varies them; else empty.
        exponent: P, or a dash.
        batch: Batch sizes over the epochs.
        decoder: Decoder input, or a dash.
        sharing: Whether weights are shared, or a dash.
        shares_weights: Whether weights are shared.
        values: Finite values of a complete trial.
        test_accuracy: Of the weights that gave the accuracy, where it was read.
        on_front: Whether it is on the front.
        device: Devices that trained it, or a dash.
        note: How far it is, or why it failed.
        failure: All that is known of a failure.
    """

    number: int
    state: TrialState
    mark: Mark
    rates: str
    exponent: str
    batch: str
    decoder: str
    sharing: str
    shares_weights: bool
    values: Values | None
    test_accuracy: float | None
    on_front: bool
    device: str
    note: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Accuracy of one run after each of its epochs; ``None`` where it is not finite."""

    trial: TrialView
    run: int
    epochs: tuple[int, ...]
    accuracies: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything that the page says.

    Attributes:
        name: Name of the study.
        subtitle: Network and data set.
        written_at: When the page was written, in UTC.
        tiles: Figures of the head.
        facts: Protocol, devices and versions.
        warnings: Sentences on what does not compare.
        trials: All trials, by number.
        front: Those on the front, in the order of ``front --json``.
        front_rows: The rows of ``front --json``.
        marks: Policies of the trials, in the order of the legend.
        projections: The three pairs of objectives; empty without a complete trial.
        curves: Learning curves.
        rates: Learning-rate schedules of the trials on the front.
        batches: Batch-size schedules of the trials on the front.
    """

    name: str
    subtitle: str
    written_at: str
    tiles: tuple[Tile, ...]
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    trials: tuple[TrialView, ...]
    front: tuple[TrialView, ...]
    front_rows: tuple[Mapping[str, Any], ...]
    marks: tuple[Mark, ...]
    projections: tuple[Projection, ...]
    curves: tuple[LearningCurve, ...]
    rates: tuple[RateLine, ...]
    batches: tuple[BatchLine, ...]

    @property
    def complete(self) -> tuple[TrialView, ...]:
        """The trials with values."""
        return tuple(trial for trial in self.trials if trial.values is not None)

    @property
    def several_devices(self) -> bool:
        """Whether trials differ in their device; else the protocol names the only one."""
        return len({trial.device for trial in self.trials} - {text.NOTHING}) > 1


def report_view(
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    leases: Sequence[LeaseRecord],
    *,
    written_at: datetime,
    version: str,
) -> ReportView:
    """Gather the facts of a study.

    Args:
        study: The study.
        trials: Its trials, with their epochs.
        leases: Who trains what now.
        written_at: Now, in UTC.
        version: Version of this package.
    """
    records = sorted(trials, key=lambda trial: trial.number)
    summary = summarise(study, records, leases)
    order = front_numbers(records)
    held = {lease.number: lease for lease in leases}
    views = {
        record.number: _trial_view(
            study.definition,
            record,
            on_front=record.number in order,
            lease=held.get(record.number),
        )
        for record in records
    }
    front = tuple(views[number] for number in order)
    on_front = [record for record in records if record.number in order]
    return ReportView(
        name=study.name,
        subtitle=f"{study.definition.network} on {study.definition.data_set}",
        written_at=f"{written_at:%Y-%m-%d %H:%M} UTC",
        tiles=facts.tiles(summary, on_front),
        facts=facts.protocol(study, summary, version=version),
        warnings=summary.warnings,
        trials=tuple(views.values()),
        front=front,
        front_rows=tuple(front_rows(records)),
        marks=_marks(views.values()),
        projections=projections(_finite(views.values())),
        curves=tuple(
            curve for record in records for curve in _curves(views[record.number], record)
        ),
        rates=rate_lines(study.definition, on_front),
        batches=batch_lines(study.definition, on_front),
    )


def _trial_view(
    definition: StudyDefinition,
    record: TrialRecord,
    *,
    on_front: bool,
    lease: LeaseRecord | None,
) -> TrialView:
    parameters = record.parameters
    plan = training_plan(definition, parameters)
    exponent, decoder = parameters.adabatch_exponent, parameters.decoder
    sharing = {None: text.NOTHING, False: "no", True: "yes"}[parameters.weight_sharing]
    return TrialView(
        number=record.number,
        state=record.state,
        mark=mark(parameters),
        rates=_rates(parameters),
        exponent=text.NOTHING if exponent is None else str(exponent),
        batch=text.batches(plan.batch_sizes),
        decoder=text.NOTHING if decoder is None else str(decoder),
        sharing=sharing,
        shares_weights=bool(parameters.weight_sharing),
        values=_finite_values(record),
        test_accuracy=record.test_accuracy,
        on_front=on_front,
        device=record.device or text.NOTHING,
        note=_note(definition, record, lease),
        failure=record.failure if record.state is TrialState.FAILED else None,
    )


def _rates(parameters: TrialParameters) -> str:
    rates = {"from": parameters.lr_min, "up to": parameters.lr_max}
    found = [f"{word} {rate:.3g}" for word, rate in rates.items() if rate is not None]
    return f"learning rate {' '.join(found)}" if found else ""


def _finite_values(record: TrialRecord) -> Values | None:
    values = record.values
    if record.state is not TrialState.COMPLETE or values is None:
        return None
    return values if all(map(math.isfinite, values.as_tuple())) else None


def _note(definition: StudyDefinition, record: TrialRecord, lease: LeaseRecord | None) -> str:
    if record.state is TrialState.FAILED:
        return failure_reason(record)
    if record.state is not TrialState.RUNNING:
        return ""
    last = max(
        ((epoch.run, epoch.metrics.epoch) for epoch in record.epochs),
        default=(max(len(record.runs) - 1, 0), 0),
    )
    runs = definition.runs_per_trial
    run = f"run {last[0] + 1} of {runs}, " if runs > 1 else ""
    done = f"{run}{last[1]} of {definition.epochs} epochs done"
    where = f"held by {lease.host_name} ({lease.device})" if lease else "waiting for a worker"
    return f"{done}, {where}"


def _marks(trials: Iterable[TrialView]) -> tuple[Mark, ...]:
    """Each policy once, in the order of the learning-rate policies."""
    found = {trial.mark for trial in trials}
    tones = list(COLOURS.values())
    return tuple(sorted(found, key=lambda mark: (tones.index(mark.tone), mark.adapts_batch)))


def _finite(trials: Iterable[TrialView]) -> list[Values]:
    return [trial.values for trial in trials if trial.values is not None]


def _curves(view: TrialView, record: TrialRecord) -> list[LearningCurve]:
    runs: dict[int, dict[int, float | None]] = {}
    for epoch in record.epochs:
        accuracy = epoch.metrics.accuracy
        known = accuracy if math.isfinite(accuracy) else None
        runs.setdefault(epoch.run, {})[epoch.metrics.epoch] = known
    return [
        LearningCurve(view, run, tuple(sorted(found)), tuple(found[key] for key in sorted(found)))
        for run, found in sorted(runs.items())
    ]
