"""One trial as tables, figures and the card show it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastrcaps_search.analysis.rows import trial_row
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report import text
from fastrcaps_search.report.fronts import TimeAxis, positions
from fastrcaps_search.report.plots import Mark
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.records import MEASURED, RunRecord, TrialState, Values
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.policy import TrainingPlan, training_plan

MOST_SHOWN = 24
"""Trials on the front, the most accurate ones, that figures show one by one."""
RATES = {
    "{} epochs": {"epochs": "{}"},
    "learning rate {}": {"lr_min": "from {:.3g}", "lr_max": "up to {:.3g}"},
    "decay {}": {"decay_rate": "by {:.3g}", "decay_steps": "every {:,} steps"},
    "cycles {}": {"cycle_epochs": "of {} epochs", "cycle_growth": "growing {} times"},
    "reconstruction weight {}": {"reconstruction_weight": "{:.3g}"},
}
"""How a trial's own values of these parameters are told together."""


# Not slotted: a plan and positions are worked out once.
@dataclass(frozen=True)
class TrialView:
    """One trial.

    Attributes:
        record: What is stored.
        definition: The study's.
        mark: How its policy is drawn.
        on_front: Whether it is on the front, by seconds.
        front_probability: Of being on the front; ``None`` where nothing says how far runs scatter.
        leases: Who trains which of its runs now.
    """

    record: TrialRecord
    definition: StudyDefinition
    mark: Mark
    on_front: bool
    front_probability: float | None
    leases: Sequence[LeaseRecord]

    @property
    def number(self) -> int:
        """Its number."""
        return self.record.number

    @cached_property
    def row(self) -> dict[str, Any]:
        """Its row of ``trials --json``."""
        return trial_row(self.record, self.front_probability, is_held=bool(self.leases))

    @cached_property
    def plan(self) -> TrainingPlan:
        """What its training follows."""
        return training_plan(self.definition, self.record.parameters)

    @cached_property
    def values(self) -> Values | None:
        """Finite values of a complete trial."""
        values = self.record.values
        if self.record.state is not TrialState.COMPLETE or values is None:
            return None
        return values if all(map(math.isfinite, values.values())) else None

    @cached_property
    def positions(self) -> Mapping[TimeAxis, float]:
        """Its training time in every measure that is known."""
        return {} if self.values is None else positions(self.record)

    @property
    def shares_weights(self) -> bool:
        """Whether it shares weights, which is drawn hollow."""
        return bool(self.record.parameters.weight_sharing)

    def chosen(self, name: str) -> str:
        """Its value of a parameter in words, or a dash."""
        return text.value(self.record.parameters[name])

    @property
    def batch(self) -> str:
        """Batch sizes over the epochs, in words."""
        return text.batches(self.plan.batch_sizes)

    def told(self, name: str) -> str:
        """The value of an objective without its unit; empty without one."""
        return "" if self.record.values is None else text.of_row(self.row, name)

    def margin(self, name: str) -> str:
        """How far the 95 % interval of a value reaches; empty where that is not known."""
        return text.margin(self.row, name)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers that trained it."""
        return tuple(sorted({epoch.worker for epoch in self.record.epochs}))

    @property
    def rates(self) -> str:
        """What else the space varies of its training, in words; else empty."""
        parameters = self.record.parameters
        own = {f"{name.replace('_', ' ')} {{}}": {name: "{:.3g}"} for name, _ in parameters.own}
        found = []
        for words, parts in (RATES | own).items():
            told = [
                part.format(parameters[name])
                for name, part in parts.items()
                if parameters[name] is not None
            ]
            found += [words.format(" ".join(told))] if told else []
        return ", ".join(found)

    @property
    def note(self) -> str:
        """How far it is, why it failed, or why it is infeasible."""
        record, planned = self.record, self.definition.runs_per_trial
        first = self.row.get("reason")
        if record.state is TrialState.FAILED:
            return str(first)
        if record.state is TrialState.RUNNING and planned > 1:
            first = f"{len(record.results)} of {planned} runs done"
        under_way = [self._run_note(run) for run in record.runs if not run.has_ended]
        return "; ".join(filter(None, (first, *under_way)))

    def _run_note(self, run: RunRecord) -> str:
        """How far a run is that has not ended."""
        epochs = (e.metrics.epoch for e in self.record.epochs if e.run == run.run)
        held = next((lease for lease in self.leases if lease.run == run.run), None)
        where = f"held by {held.host_name} ({held.device})" if held else "waiting for a worker"
        number = f"run {run.run}: " if run.run or self.definition.runs_per_trial > 1 else ""
        of = self.definition.epochs_of(self.record.parameters)
        return f"{number}{max(epochs, default=0)} of {of} epochs done, {where}"


def finite(values: Iterable[float | None]) -> tuple[float, ...]:
    """The finite ones."""
    return tuple(value for value in values if value is not None and math.isfinite(value))


def ranges(runs: Sequence[RunRecord]) -> dict[str, tuple[float, float]]:
    """Lowest and highest run in each value that differs; nothing of a single run."""
    columns = {name: finite(getattr(run, name) for run in runs) for name in MEASURED}
    return {key: (min(found), max(found)) for key, found in columns.items() if len(found) > 1}


def by_look(trials: Iterable[TrialView]) -> list[list[TrialView]]:
    """Trials in groups that are drawn alike: one policy, filled or hollow."""
    groups: dict[tuple[str, bool], list[TrialView]] = {}
    for trial in trials:
        groups.setdefault((trial.mark.policy, trial.shares_weights), []).append(trial)
    return list(groups.values())
