"""One trial as tables, figures and the card show it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastrcaps_search.analysis.rows import failure_reason
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report import text
from fastrcaps_search.report.style import Mark, mark
from fastrcaps_search.report.time_axis import NOTHING, TimeAxis, positions
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.records import RunRecord, TrialState, Values
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.policy import TrainingPlan, training_plan

MOST_SHOWN = 24
"""Trials on the front, the most accurate ones, that figures show one by one."""


@dataclass(frozen=True, slots=True)
class TrialView:
    """One trial.

    Attributes:
        record: What is stored.
        mark: How its policy is drawn.
        rates: What else the space varies of its training, in words; else empty.
        exponent: P, or a dash.
        plan: What its training follows.
        decoder: Decoder input, or a dash.
        shared: Whether weights are shared, in words, or a dash.
        values: Finite values of a complete trial.
        positions: Its training time in every measure that is known.
        on_front: Whether it is on the front, by seconds.
        front_probability: Of being on the front; ``None`` where nothing says how far runs scatter.
        note: How far it is, why it failed, or why it is infeasible.
    """

    record: TrialRecord
    mark: Mark
    rates: str
    exponent: str
    plan: TrainingPlan
    decoder: str
    shared: str
    values: Values | None
    positions: Mapping[TimeAxis, float]
    on_front: bool
    front_probability: float | None
    note: str

    @property
    def number(self) -> int:
        """Its number."""
        return self.record.number

    @property
    def state(self) -> TrialState:
        """Its state."""
        return self.record.state

    @property
    def shares_weights(self) -> bool:
        """Whether it shares weights, which is drawn hollow."""
        return bool(self.record.parameters.weight_sharing)

    def told(self, column: int) -> str:
        """The value of an objective, by its place; empty without one."""
        values = self.record.values
        return "" if values is None else text.VALUES[column](values.as_tuple()[column])

    @property
    def accuracy_margin(self) -> str:
        """How far the 95 % interval of its accuracy reaches; empty where that is not known."""
        values, spread = self.record.values, self.record.accuracy_spread
        return text.margin(spread.reach(values.accuracy, 1.0)) if values and spread else ""

    @property
    def seconds_margin(self) -> str:
        """The same of its seconds."""
        values, spread = self.record.values, self.record.seconds_spread
        if values is None or spread is None:
            return ""
        mean = values.training_seconds
        return text.seconds_margin(spread.reach(mean), mean)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers that trained it."""
        return tuple(sorted({epoch.worker for epoch in self.record.epochs}))

    @property
    def batch(self) -> str:
        """Batch sizes over the epochs, in words."""
        return text.batches(self.plan.batch_sizes)

    @property
    def test_accuracy(self) -> float | None:
        """Of the weights that gave the accuracy, where it was read."""
        return self.record.test_accuracy


def trial_view(
    definition: StudyDefinition,
    record: TrialRecord,
    *,
    on_front: bool,
    front_probability: float | None,
    leases: Sequence[LeaseRecord],
) -> TrialView:
    """Gather the facts of a trial."""
    parameters = record.parameters
    exponent, decoder = parameters.adabatch_exponent, parameters.decoder
    values = finite_values(record)
    return TrialView(
        record=record,
        mark=mark(parameters),
        rates=_rates(parameters),
        exponent=text.value(exponent),
        plan=training_plan(definition, parameters),
        decoder=text.value(decoder),
        shared=text.value(parameters.weight_sharing),
        values=values,
        positions=NOTHING if values is None else positions(record),
        on_front=on_front,
        front_probability=front_probability,
        note=_note(definition, record, leases),
    )


def finite_values(record: TrialRecord) -> Values | None:
    """The values of a complete trial, unless one is not a finite number."""
    values = record.values
    if record.state is not TrialState.COMPLETE or values is None:
        return None
    return values if all(map(math.isfinite, values.as_tuple())) else None


def _rates(parameters: TrialParameters) -> str:
    groups: dict[str, dict[str, float | None]] = {
        "{} epochs": {"{}": parameters.epochs},
        "learning rate {}": {"from {:.3g}": parameters.lr_min, "up to {:.3g}": parameters.lr_max},
        "decay {}": {
            "by {:.3g}": parameters.decay_rate,
            "every {:,} steps": parameters.decay_steps,
        },
        "cycles {}": {
            "of {} epochs": parameters.cycle_epochs,
            "growing {} times": parameters.cycle_growth,
        },
        "reconstruction weight {}": {"{:.3g}": parameters.reconstruction_weight},
        **{name.replace("_", " ") + " {}": {"{:.3g}": own} for name, own in parameters.own},
    }
    found = {
        words: " ".join(part.format(value) for part, value in parts.items() if value is not None)
        for words, parts in groups.items()
    }
    return ", ".join(words.format(text) for words, text in found.items() if text)


def _note(definition: StudyDefinition, record: TrialRecord, leases: Sequence[LeaseRecord]) -> str:
    if record.state is TrialState.FAILED:
        return failure_reason(record)
    under_way = [_run_note(definition, record, run, leases) for run in record.runs]
    if record.state is TrialState.COMPLETE:
        return "; ".join(filter(None, (record.infeasible or "", *under_way)))
    done = f"{len(record.results)} of {definition.runs_per_trial} runs done"
    return "; ".join(filter(None, ((definition.runs_per_trial > 1 and done) or "", *under_way)))


def _run_note(
    definition: StudyDefinition,
    record: TrialRecord,
    run: RunRecord,
    leases: Sequence[LeaseRecord],
) -> str:
    """How far a run is that has not ended."""
    if run.has_ended:
        return ""
    done = max((e.metrics.epoch for e in record.epochs if e.run == run.run), default=0)
    held = next((lease for lease in leases if lease.run == run.run), None)
    where = f"held by {held.host_name} ({held.device})" if held else "waiting for a worker"
    number = f"run {run.run}: " if run.run or definition.runs_per_trial > 1 else ""
    return f"{number}{done} of {definition.epochs_of(record.parameters)} epochs done, {where}"


def finite(values: Iterable[float | None]) -> tuple[float, ...]:
    """The finite ones."""
    return tuple(value for value in values if value is not None and math.isfinite(value))


def ranges(runs: Sequence[RunRecord]) -> dict[str, tuple[float, float]]:
    """Lowest and highest run in accuracy and in seconds; nothing of a single run."""
    columns = {
        "accuracy": finite(run.accuracy for run in runs),
        "training_seconds": finite(run.training_seconds for run in runs),
    }
    return {key: (min(found), max(found)) for key, found in columns.items() if len(found) > 1}
