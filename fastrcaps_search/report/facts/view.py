"""All facts of a report, gathered before anything is drawn."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fastrcaps_search.analysis.comparing import Hits
from fastrcaps_search.analysis.front import front_numbers
from fastrcaps_search.analysis.remaining_work import RemainingWork, remaining_work
from fastrcaps_search.analysis.summary import summarise
from fastrcaps_search.analysis.uncertainty import probabilities
from fastrcaps_search.report import text
from fastrcaps_search.report.facts import head
from fastrcaps_search.report.facts.certainty import Certainty, certainty
from fastrcaps_search.report.facts.curves import Curves, curves
from fastrcaps_search.report.facts.head import Fact, Tile
from fastrcaps_search.report.facts.importance import Effect, Importance, effects, importance
from fastrcaps_search.report.facts.pairs import PairRow, pair_rows
from fastrcaps_search.report.facts.paper import PaperPoint, paper_points
from fastrcaps_search.report.facts.paper_table import Comparison, comparison
from fastrcaps_search.report.facts.progress import Progress, progress
from fastrcaps_search.report.facts.projections import Front, Row, fronts
from fastrcaps_search.report.facts.schedules import (
    BatchLine,
    Plans,
    RateLine,
    batch_lines,
    rate_lines,
)
from fastrcaps_search.report.facts.time_axis import TimeAxis
from fastrcaps_search.report.facts.timeline import Span, spans
from fastrcaps_search.report.facts.trials import MOST_SHOWN, TrialView, finite_values, trial_view
from fastrcaps_search.report.marks import PALETTE, Mark
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.records import StudyRecord, TrialRecord


@dataclass(frozen=True, slots=True)
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

    def work(self, probabilities: Mapping[int, float] | None = None) -> RemainingWork:
        """What is left to do; quicker where the probabilities are known."""
        return remaining_work(
            self.study, self.trials, possible=self.possible, probabilities=probabilities
        )

    @property
    def in_progress(self) -> bool:
        """Whether trials or repeats are still to come, or a run is held, as to be tested."""
        work = self.work()
        return bool(self.leases or work.is_searching or work.repeats)


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything that the page says.

    Attributes:
        stored: What it was read from.
        subtitle: Network and data set.
        written_at: When the page was written, in UTC.
        in_progress: Whether trials are still to come.
        tiles: Figures of the head.
        facts: Protocol, devices and versions.
        warnings: Sentences on what does not compare.
        trials: All trials, by number.
        front: Those on the front by seconds, in the order of ``front --json``.
        sureness: Probability of being on the front by number of each feasible trial; empty where
            nothing was repeated.
        repeats_left: Planned repeats that are still to come.
        fronts: The front in every measure of time; empty without a feasible trial.
        marks: Policies of the trials, in the order of the legend.
        plans: What each trial's training follows.
        certainty: How far the accuracies on the front may be off.
        pairs: Trials on the front beside the most accurate one, on the same images.
        curves: Learning curves.
        rates: Learning-rate schedules of the first trials on the front.
        batches: Batch-size schedules of the first trials on the front.
        progress: How the front grew.
        spans: Who trained what when.
        importance: Which parameters matter.
        effects: What each value of each parameter gave.
        paper: What the paper published for these images.
        comparison: The study beside the paper's tables, where it trained as the paper did.
    """

    stored: StoredStudy
    subtitle: str
    written_at: datetime
    in_progress: bool
    tiles: tuple[Tile, ...]
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    trials: tuple[TrialView, ...]
    front: tuple[TrialView, ...]
    sureness: Mapping[int, float]
    repeats_left: int
    fronts: Mapping[TimeAxis, Front]
    marks: tuple[Mark, ...]
    plans: Plans
    certainty: Certainty | None
    pairs: tuple[PairRow, ...]
    curves: Curves | None
    rates: tuple[RateLine, ...]
    batches: tuple[BatchLine, ...]
    progress: Progress | None
    spans: tuple[Span, ...]
    importance: Importance | None
    effects: tuple[Effect, ...]
    paper: tuple[PaperPoint, ...]
    comparison: Comparison | None

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.stored.study.name

    @property
    def estimated(self) -> bool:
        """Whether accuracies are estimates, some trials having been picked for more runs."""
        return any(trial.record.measured is not None for trial in self.trials)

    @property
    def complete(self) -> tuple[TrialView, ...]:
        """The trials with values."""
        return tuple(trial for trial in self.trials if trial.values is not None)

    @property
    def feasible(self) -> tuple[TrialView, ...]:
        """Those of them that may be on the front."""
        return tuple(trial for trial in self.complete if trial.record.is_feasible)

    @property
    def repeat_command(self) -> str:
        """The command line that says how sure the front is."""
        storage = self.stored.storage
        # A server's URL may hold a password, so it stays in its variable, which must be set.
        place = '"${FASTRCAPS_STORAGE:?}"' if storage is None else shlex.quote(storage)
        words = ["--storage", place] if storage != "" else []
        study = shlex.quote(self.name)
        return " ".join(["fastrcaps-search run --study", study, *words, "--repeat-front 5"])


def report_view(stored: StoredStudy, *, written_at: datetime, version: str) -> ReportView:
    """Gather the facts of a study.

    Args:
        stored: What the store holds.
        written_at: Now, in UTC.
        version: Version of this package.
    """
    study = stored.study
    records = sorted(stored.trials, key=lambda trial: trial.number)
    summary = summarise(study, records, stored.leases, possible=stored.possible)
    order = front_numbers(records)
    plans = Plans(study.definition)
    sureness = probabilities(records)
    work = stored.work(sureness)
    left = len(work.repeats)
    trials = _trials(stored, records, plans, frozenset(order), sureness)
    by_number = {trial.number: trial for trial in trials}
    front = tuple(by_number[number] for number in order)
    on_front = [trial.record for trial in front]
    drawn = on_front[:MOST_SHOWN]
    valued = [r for r in records if r.is_feasible and finite_values(r) is not None]
    infeasible = {record.number for record in records if record.infeasible is not None}
    return ReportView(
        stored=stored,
        subtitle=f"{study.definition.network} on {study.definition.data_set}",
        written_at=written_at,
        in_progress=bool(stored.leases) or work.is_searching or left > 0,
        tiles=head.tiles(summary, on_front),
        facts=head.protocol(study, summary, repeats_left=left, version=version),
        warnings=summary.warnings,
        trials=trials,
        front=front,
        sureness=sureness,
        repeats_left=left,
        fronts=fronts(_rows(trials), infeasible),
        marks=_marks(trials),
        plans=plans,
        certainty=certainty(study.definition, trials, front),
        pairs=pair_rows(study.definition, front, stored.hits),
        curves=curves(trials, front),
        rates=rate_lines(plans, drawn),
        batches=batch_lines(plans, drawn),
        progress=progress(study, records),
        spans=spans(
            records,
            stored.claims,
            held={lease.key for lease in stored.leases},
            runs_per_trial=study.definition.runs_per_trial,
            now=written_at.timestamp(),
        ),
        importance=importance(study, valued),
        effects=effects(valued),
        paper=paper_points(study.definition),
        comparison=comparison(study.definition, records),
    )


def _trials(
    stored: StoredStudy,
    records: Sequence[TrialRecord],
    plans: Plans,
    on_front: frozenset[int],
    sureness: Mapping[int, float],
) -> tuple[TrialView, ...]:
    return tuple(
        trial_view(
            stored.study.definition,
            record,
            batch=text.batches(plans.of(record.parameters).batch_sizes),
            on_front=record.number in on_front,
            probability=sureness.get(record.number),
            leases=[lease for lease in stored.leases if lease.number == record.number],
        )
        for record in records
    )


def _rows(trials: Iterable[TrialView]) -> dict[TimeAxis, dict[int, Row]]:
    rows: dict[TimeAxis, dict[int, Row]] = {axis: {} for axis in TimeAxis}
    for trial in trials:
        if trial.values is not None:
            accuracy, _, parameters = trial.values.as_tuple()
            for axis, time in trial.positions.items():
                rows[axis][trial.number] = (accuracy, time, parameters)
    return rows


def _marks(trials: Iterable[TrialView]) -> tuple[Mark, ...]:
    """Each policy once, in the order of the learning-rate policies."""
    found = {trial.mark for trial in trials}
    return tuple(sorted(found, key=lambda mark: (PALETTE.index(mark.tone), mark.adapts_batch)))
