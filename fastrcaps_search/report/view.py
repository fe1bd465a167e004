"""A study as its page tells it: what was read, and what several panels share of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial

from fastrcaps_search.analysis.comparing import Hits
from fastrcaps_search.analysis.front import front_numbers, probabilities
from fastrcaps_search.analysis.summary import StudySummary, summarise
from fastrcaps_search.definition.objective import TRAINING_SECONDS, Objective, objectives
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.fronts import Front, Row, TimeAxis, fronts
from fastrcaps_search.report.plots import PALETTE, Mark, mark
from fastrcaps_search.report.trials import MOST_SHOWN, TrialView
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.trials import TrialRecord


# Not slotted: what takes many draws is computed once, when it is first asked for.
@dataclass(frozen=True)
class ReportView:
    """What is read from the store for a report, and what panels gather their facts from.

    Attributes:
        study: The study.
        records: Its trials, with their epochs.
        leases: Who trains what now.
        claims: Who trained what when.
        storage: What ``--storage`` must name to find it again: empty for the default, ``None``
            for a server, whose URL may hold secrets.
        flags: Those of the study's last run, each after a space.
        possible: Number of its configurations, where it is known.
        hits: Which evaluation images the runs of the front have right, by trial and run.
        written_at: The date that the report shows, in UTC.
    """

    study: StudyRecord
    records: Sequence[TrialRecord]
    leases: Sequence[LeaseRecord] = ()
    claims: Sequence[ClaimRecord] = ()
    storage: str | None = ""
    flags: str = ""
    possible: int | None = None
    hits: Hits = field(default_factory=dict)
    written_at: datetime = field(default_factory=partial(datetime.now, UTC))

    @cached_property
    def front_probabilities(self) -> Mapping[int, float]:
        """Probability of being on the front by number of each feasible trial.

        Empty where nothing was repeated.
        """
        return probabilities(self.records)

    @cached_property
    def summary(self) -> StudySummary:
        """Its progress, and what is left to do."""
        return summarise(self.study, self.records, self.leases, possible=self.possible)

    @property
    def in_progress(self) -> bool:
        """Whether trials or repeats are still to come, or a run is held, as to be tested."""
        work = self.summary.work
        return bool(self.leases or work.is_searching or work.repeats)

    @property
    def definition(self) -> StudyDefinition:
        """Its definition."""
        return self.study.definition

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What its trials are compared by."""
        return objectives(self.definition.objectives)

    @property
    def name(self) -> str:
        """Its name."""
        return self.study.name

    @property
    def subtitle(self) -> str:
        """Network and data set."""
        return f"{self.definition.network} on {self.definition.data_set}"

    @cached_property
    def trials(self) -> tuple[TrialView, ...]:
        """All trials, by number."""
        on_front = frozenset(front_numbers(self.records))
        return tuple(
            TrialView(
                record,
                self.definition,
                mark(record.parameters),
                on_front=record.number in on_front,
                front_probability=self.front_probabilities.get(record.number),
                leases=[held for held in self.leases if held.number == record.number],
            )
            for record in sorted(self.records, key=lambda trial: trial.number)
        )

    @cached_property
    def fronts(self) -> Mapping[TimeAxis, Front]:
        """The front in every measure of time; empty without a feasible trial."""
        rows: dict[TimeAxis, dict[int, Row]] = {axis: {} for axis in TimeAxis}
        for trial in self.trials:
            for axis, time in trial.positions.items():
                values = {**(trial.values or {}), TRAINING_SECONDS.name: time}
                rows[axis][trial.number] = values
        infeasible = {trial.number for trial in self.complete if not trial.record.is_feasible}
        return fronts(rows, infeasible)

    @cached_property
    def by_number(self) -> Mapping[int, TrialView]:
        """The trials by number."""
        return {trial.number: trial for trial in self.trials}

    @cached_property
    def front(self) -> tuple[TrialView, ...]:
        """Those on the front by seconds, in the order of ``front --json``."""
        return tuple(self.by_number[number] for number in front_numbers(self.records))

    @property
    def shown_front(self) -> tuple[TrialView, ...]:
        """The first of them, which figures show one by one."""
        return self.front[:MOST_SHOWN]

    @property
    def cut(self) -> tuple[str, ...]:
        """Says that figures show only the first of the front, where they do."""
        if len(self.front) <= MOST_SHOWN:
            return ()
        return (f"The {MOST_SHOWN} most accurate of the {len(self.front):,} trials on the front.",)

    @cached_property
    def complete(self) -> tuple[TrialView, ...]:
        """The trials with values."""
        return tuple(trial for trial in self.trials if trial.values is not None)

    @cached_property
    def feasible(self) -> tuple[TrialView, ...]:
        """Those of them that may be on the front."""
        return tuple(trial for trial in self.complete if trial.record.is_feasible)

    @property
    def is_estimated(self) -> bool:
        """Whether accuracies are estimates, some trials having been picked for more runs."""
        return any(trial.record.measured is not None for trial in self.trials)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """How each policy is drawn, in the order of the learning-rate policies."""
        found = {trial.mark for trial in self.trials}
        return tuple(sorted(found, key=lambda mark: (PALETTE.index(mark.tone), mark.policy)))

    def command(self, verb: str) -> str:
        """The command line that does something with the study."""
        words = [f"fastrcaps-search {verb} --study", shlex.quote(self.name)]
        if self.storage is None:
            # A server's URL may hold a password: it stays in its variable, which must be set.
            words.append('--storage "${FASTRCAPS_STORAGE:?}"')
        elif self.storage:
            words.append(f"--storage {shlex.quote(self.storage)}")
        return " ".join(words)

    @property
    def repeat_command(self) -> str:
        """The command line that says how sure the front is."""
        return f"{self.command('run')}{self.flags} --runs-on-front 5"
