"""A study as its page tells it: what was read, and what several panels share of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from fastrcaps_search.analysis.comparing import Hits
from fastrcaps_search.analysis.remaining_work import RemainingWork, remaining_work
from fastrcaps_search.analysis.summary import StudySummary, summarise
from fastrcaps_search.analysis.uncertainty import probabilities
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.report.fronts import Front, Row, fronts
from fastrcaps_search.report.style import PALETTE, Mark
from fastrcaps_search.report.time_axis import TimeAxis, positions
from fastrcaps_search.report.trials import MOST_SHOWN, TrialView, finite_values, trial_view
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.trials import TrialRecord


# Not slotted: what takes many draws is computed once, when it is first asked for.
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
        return remaining_work(
            self.study,
            self.trials,
            possible=self.possible,
            probabilities=self.front_probabilities,
        )

    @property
    def repeats_left(self) -> int:
        """Planned repeats that are still to come."""
        return len(self.work.repeats)

    @property
    def in_progress(self) -> bool:
        """Whether trials or repeats are still to come, or a run is held, as to be tested."""
        return bool(self.leases or self.work.is_searching or self.work.repeats)


@dataclass(frozen=True, slots=True)
class ReportView:
    """What the panels of a page gather their facts from.

    Attributes:
        stored: What it was read from.
        written_at: When the page was written, in UTC.
        version: Version of this package.
        summary: Its progress.
        trials: All trials, by number.
        fronts: The front in every measure of time; empty without a feasible trial.
    """

    stored: StoredStudy
    written_at: datetime
    version: str
    summary: StudySummary
    trials: tuple[TrialView, ...]
    fronts: Mapping[TimeAxis, Front]

    @property
    def study(self) -> StudyRecord:
        """The study."""
        return self.stored.study

    @property
    def definition(self) -> StudyDefinition:
        """Its definition."""
        return self.study.definition

    @property
    def name(self) -> str:
        """Its name."""
        return self.study.name

    @property
    def subtitle(self) -> str:
        """Network and data set."""
        return f"{self.definition.network} on {self.definition.data_set}"

    @property
    def by_number(self) -> Mapping[int, TrialView]:
        """The trials by number."""
        return {trial.number: trial for trial in self.trials}

    @property
    def front(self) -> tuple[TrialView, ...]:
        """Those on the front by seconds, in the order of ``front --json``."""
        measured, trials = self.fronts.get(TimeAxis.SECONDS), self.by_number
        return () if measured is None else tuple(trials[number] for number in measured.numbers)

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

    @property
    def complete(self) -> tuple[TrialView, ...]:
        """The trials with values."""
        return tuple(trial for trial in self.trials if trial.values is not None)

    @property
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

    @property
    def storage_words(self) -> tuple[str, ...]:
        """The flag that finds the database again, as words of a shell; none for the default."""
        storage = self.stored.storage
        if storage == "":
            return ()
        # A server's URL may hold a password, so it stays in its variable, which must be set.
        return (
            "--storage",
            '"${FASTRCAPS_STORAGE:?}"' if storage is None else shlex.quote(storage),
        )

    @property
    def repeat_command(self) -> str:
        """The command line that says how sure the front is."""
        words = ("fastrcaps-search run --study", shlex.quote(self.name), *self.storage_words)
        return " ".join((*words, "--runs-on-front 5"))


def report_view(stored: StoredStudy, *, written_at: datetime, version: str) -> ReportView:
    """Gather what the panels share.

    Args:
        stored: What the store holds.
        written_at: Now, in UTC.
        version: Version of this package.
    """
    records = sorted(stored.trials, key=lambda trial: trial.number)
    found = _fronts(records)
    on_front = frozenset(found[TimeAxis.SECONDS].numbers if found else ())
    return ReportView(
        stored=stored,
        written_at=written_at,
        version=version,
        summary=summarise(
            stored.study,
            records,
            stored.leases,
            possible=stored.possible,
            probabilities=stored.front_probabilities,
        ),
        trials=tuple(
            trial_view(
                stored.study.definition,
                record,
                on_front=record.number in on_front,
                front_probability=stored.front_probabilities.get(record.number),
                leases=[lease for lease in stored.leases if lease.number == record.number],
            )
            for record in records
        ),
        fronts=found,
    )


def _fronts(records: Sequence[TrialRecord]) -> Mapping[TimeAxis, Front]:
    rows: dict[TimeAxis, dict[int, Row]] = {axis: {} for axis in TimeAxis}
    for record in records:
        values = finite_values(record)
        if values is not None:
            for axis, time in positions(record).items():
                rows[axis][record.number] = (values.accuracy, time, values.parameters)
    infeasible = {record.number for record in records if record.infeasible is not None}
    return fronts(rows, infeasible)
