"""A study as its page tells it: what was read, and what several panels share of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from fastrcaps_search.analysis.comparing import Hits
from fastrcaps_search.analysis.front import probabilities
from fastrcaps_search.analysis.remaining_work import RemainingWork, remaining_work
from fastrcaps_search.analysis.summary import StudySummary, summarise
from fastrcaps_search.definition.objective import TRAINING_SECONDS, Objective, objectives
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.fronts import Front, Row, TimeAxis, fronts, positions
from fastrcaps_search.report.plots import PALETTE, Mark, mark
from fastrcaps_search.report.trials import MOST_SHOWN, TrialView, finite_values
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.trials import TrialRecord


# Neither is slotted: what takes many draws is computed once, when it is first asked for.
@dataclass(frozen=True)
class StoredStudy:
    """What is read from the store for a report.

    Attributes:
        study: The study.
        trials: Its trials, with their epochs.
        leases: Who trains what now.
        claims: Who trained what when.
        storage: What ``--storage`` must name to find it again: empty for the default, ``None``
            for a server, whose URL may hold secrets.
        possible: Number of its configurations, where it is known.
        hits: Which evaluation images the runs of the front have right, by trial and run.
    """

    study: StudyRecord
    trials: Sequence[TrialRecord]
    leases: Sequence[LeaseRecord] = ()
    claims: Sequence[ClaimRecord] = ()
    storage: str | None = ""
    possible: int | None = None
    hits: Hits = field(default_factory=dict)

    @cached_property
    def front_probabilities(self) -> Mapping[int, float]:
        """Probability of being on the front by number of each feasible trial.

        Empty where nothing was repeated.
        """
        return probabilities(self.trials)

    @cached_property
    def work(self) -> RemainingWork:
        """What is left to do."""
        return remaining_work(self.study, self.trials, possible=self.possible)

    @property
    def in_progress(self) -> bool:
        """Whether trials or repeats are still to come, or a run is held, as to be tested."""
        return bool(self.leases or self.work.is_searching or self.work.repeats)


@dataclass(frozen=True)
class ReportView:
    """What the panels of a page gather their facts from.

    Attributes:
        stored: What it was read from.
        written_at: When the page was written, in UTC.
        version: Version of this package.
    """

    stored: StoredStudy
    written_at: datetime
    version: str

    @property
    def study(self) -> StudyRecord:
        """The study."""
        return self.stored.study

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
    def summary(self) -> StudySummary:
        """Its progress."""
        return summarise(
            self.study,
            self.stored.trials,
            self.stored.leases,
            possible=self.stored.possible,
        )

    @cached_property
    def fronts(self) -> Mapping[TimeAxis, Front]:
        """The front in every measure of time; empty without a feasible trial."""
        records = sorted(self.stored.trials, key=lambda trial: trial.number)
        rows: dict[TimeAxis, dict[int, Row]] = {axis: {} for axis in TimeAxis}
        for record in records:
            if (values := finite_values(record)) is not None:
                for axis, time in positions(record).items():
                    rows[axis][record.number] = {**values, TRAINING_SECONDS.name: time}
        return fronts(rows, {trial.number for trial in records if trial.infeasible is not None})

    @cached_property
    def trials(self) -> tuple[TrialView, ...]:
        """All trials, by number."""
        on_front = frozenset(self.fronts[TimeAxis.SECONDS].numbers if self.fronts else ())
        return tuple(
            TrialView(
                record,
                self.definition,
                mark(record.parameters),
                on_front=record.number in on_front,
                front_probability=self.stored.front_probabilities.get(record.number),
                leases=[held for held in self.stored.leases if held.number == record.number],
            )
            for record in sorted(self.stored.trials, key=lambda trial: trial.number)
        )

    @cached_property
    def by_number(self) -> Mapping[int, TrialView]:
        """The trials by number."""
        return {trial.number: trial for trial in self.trials}

    @cached_property
    def front(self) -> tuple[TrialView, ...]:
        """Those on the front by seconds, in the order of ``front --json``."""
        measured = self.fronts.get(TimeAxis.SECONDS)
        return tuple(self.by_number[number] for number in measured.numbers) if measured else ()

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
        return tuple(sorted(found, key=lambda mark: (PALETTE.index(mark.tone), mark.adapts_batch)))

    def command(self, verb: str) -> str:
        """The command line that does something with the study."""
        words = [f"fastrcaps-search {verb} --study", shlex.quote(self.name)]
        storage = self.stored.storage
        if storage is None:
            # A server's URL may hold a password: it stays in its variable, which must be set.
            words.append('--storage "${FASTRCAPS_STORAGE:?}"')
        elif storage:
            words.append(f"--storage {shlex.quote(storage)}")
        return " ".join(words)

    @property
    def repeat_command(self) -> str:
        """The command line that says how sure the front is."""
        return f"{self.command('run')} --runs-on-front 5"
