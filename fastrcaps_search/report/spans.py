"""Who trained what when: one span for each claim of a trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.store.holders import ClaimRecord
from fastrcaps_search.store.records import EpochRecord, RunRecord, TrialRecord, TrialState


class End(StrEnum):
    """How a claim ended."""

    COMPLETE = "complete"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    REPEATED = "one more run"


@dataclass(frozen=True, slots=True)
class Span:
    """A worker's time with a trial.

    Attributes:
        trial: Number of the trial.
        token: Fencing token of the claim; above 1 the trial was taken over or continued.
        worker: Name of the worker.
        host: Name of its machine.
        start: Seconds since 1970 of the claim.
        end: Seconds since 1970 of the end, or of the last epoch that an interrupted one stored.
        how: How it ended.
        begins_repeat: Whether it began one more run of a complete trial.
    """

    trial: int
    token: int
    worker: str
    host: str
    start: float
    end: float
    how: End
    begins_repeat: bool = False

    @property
    def took_over(self) -> bool:
        """Whether it went on with what another claim of the trial had begun."""
        return self.token > 1 and not self.begins_repeat


def spans(
    trials: Sequence[TrialRecord],
    claims: Iterable[ClaimRecord],
    *,
    held: Collection[int],
    runs_per_trial: int,
    now: float,
) -> tuple[Span, ...]:
    """All spans by start.

    A claim after the end of its trial that stored epochs, or that holds it for a run, is one more
    run of it; any other, to read the test accuracy, is none of training. A trial of a release
    that kept no claims has no span.

    Args:
        trials: The trials, with their epochs.
        claims: Who was given which of them.
        held: Trials that a worker holds now.
        runs_per_trial: Runs that each trial has before it is complete; later ones are repeats.
        now: Seconds since 1970 at which the spans of those end.
    """
    by_trial: dict[int, list[ClaimRecord]] = {}
    for claim in claims:
        by_trial.setdefault(claim.number, []).append(claim)
    found: list[Span] = []
    for trial in trials:
        own = sorted(by_trial.get(trial.number, []), key=lambda claim: claim.token)
        found += _Claims(trial, own, trial.number in held, runs_per_trial, now).spans()
    return tuple(sorted(found, key=lambda span: (span.start, span.trial)))


@dataclass(frozen=True, slots=True)
class _Claims:
    """All claims of one trial, by token."""

    trial: TrialRecord
    claims: Sequence[ClaimRecord]
    is_held: bool
    runs_per_trial: int
    now: float

    def spans(self) -> list[Span]:
        """The spans of those that trained."""
        repeated = {claim.token: run for claim in self.claims if (run := self._repeat(claim))}
        training = [c for c in self.claims if c.token not in repeated and self._is_training(c)]
        found = [self._span(c, *self._end(c, is_last=c is training[-1])) for c in training]
        begun: set[int] = set()
        for claim in self.claims:
            run = repeated.get(claim.token)
            if run is not None:
                is_first = run.run not in begun
                begun.add(run.run)
                end, how = self._repeat_end(claim, run)
                found.append(self._span(claim, end, how, begins_repeat=is_first))
        return found

    def _repeat(self, claim: ClaimRecord) -> RunRecord | None:
        """The run beyond the trial's own that a claim trained; the trial was complete before."""
        repeats = [run for run in self.trial.runs if run.run >= self.runs_per_trial]
        if not repeats:
            return None
        stored = {epoch.run for epoch in self.trial.epochs if epoch.token == claim.token}
        by_epochs = next((run for run in repeats if run.run in stored), None)
        if by_epochs is not None or claim is not self.claims[-1] or stored:
            return by_epochs
        # It has stored nothing: it is about to, or diverged in the first epoch.
        if self._failed_by_repeat:
            return next((run for run in repeats[::-1] if run.failure is not None), None)
        if self.is_held and self.trial.state is TrialState.COMPLETE:
            return next((run for run in repeats if not run.has_ended), None)
        return None

    @property
    def _failed_by_repeat(self) -> bool:
        """Only a repeat stores a failure with its run, and only it fails a complete trial."""
        failed = any(run.failure is not None for run in self.trial.runs)
        return failed and self.trial.state is TrialState.FAILED

    def _is_training(self, claim: ClaimRecord) -> bool:
        if self._failed_by_repeat:
            # When it was complete is not known any more: what stored epochs has trained.
            return any(epoch.token == claim.token for epoch in self.trial.epochs)
        ended = self.trial.finished_at
        return ended is None or claim.claimed_at < ended

    def _end(self, claim: ClaimRecord, *, is_last: bool) -> tuple[float, End]:
        """When and how a claim of the trial's own runs ended."""
        trial = self.trial
        if is_last and self._failed_by_repeat:
            return _last_stored(trial.epochs, claim), End.COMPLETE
        if not is_last or not (trial.is_finished or self.is_held):
            return _last_stored(trial.epochs, claim), End.INTERRUPTED
        if trial.state is TrialState.RUNNING:
            return self.now, End.RUNNING
        return trial.finished_at or self.now, End(trial.state.value)

    def _repeat_end(self, claim: ClaimRecord, run: RunRecord) -> tuple[float, End]:
        """When and how a claim of one more run ended."""
        epochs = self.trial.epochs
        is_last = claim is self.claims[-1]
        if is_last and self._failed_by_repeat:
            return self.trial.finished_at or self.now, End.FAILED
        if is_last and self.is_held and not run.has_ended:
            return self.now, End.RUNNING
        later = any(e.run == run.run and e.token > claim.token for e in epochs)
        how = End.FAILED if run.failure is not None else End.REPEATED
        if later or not run.has_ended:
            how = End.INTERRUPTED
        return _last_stored(epochs, claim), how

    def _span(
        self, claim: ClaimRecord, end: float, how: End, *, begins_repeat: bool = False
    ) -> Span:
        return Span(
            trial=self.trial.number,
            token=claim.token,
            worker=claim.worker,
            host=claim.host_name,
            start=claim.claimed_at,
            end=max(end, claim.claimed_at),
            how=how,
            begins_repeat=begins_repeat,
        )


def _last_stored(epochs: Iterable[EpochRecord], claim: ClaimRecord) -> float:
    """When the claim stored its last epoch; nothing is known of what came after it."""
    times = [epoch.stored_at for epoch in epochs if epoch.token == claim.token]
    return max(times, default=claim.claimed_at)
