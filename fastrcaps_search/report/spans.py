"""Who trained what when: one span for each claim of a run that was to train it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.store.holders import ClaimRecord
from fastrcaps_search.store.records import RunKey, RunRecord
from fastrcaps_search.store.trials import TrialRecord


class End(StrEnum):
    """How a claim ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    REPEATED = "one more run"


@dataclass(frozen=True, slots=True)
class Span:
    """A worker's time with a run.

    Attributes:
        trial: Number of the trial.
        run: Index of the run within it.
        token: Fencing token of the claim; above 1 the run was taken over or continued.
        worker: Name of the worker.
        host: Name of its machine.
        start: Seconds since 1970 of the claim.
        end: Seconds since 1970 of the end, or of the last epoch that an interrupted one stored.
        how: How it ended.
    """

    trial: int
    run: int
    token: int
    worker: str
    host: str
    start: float
    end: float
    how: End

    @property
    def took_over(self) -> bool:
        """Whether it went on with what another claim of the run had begun."""
        return self.token > 1


def spans(
    trials: Sequence[TrialRecord],
    claims: Iterable[ClaimRecord],
    *,
    held: Collection[RunKey],
    runs_per_trial: int,
    now: float,
) -> tuple[Span, ...]:
    """All spans by start.

    Args:
        trials: The trials, with their epochs.
        claims: Who was given which of their runs.
        held: Runs that a worker holds now.
        runs_per_trial: Runs that each trial has before it is complete; later ones are repeats.
        now: Seconds since 1970 at which the spans of those end.
    """
    by_run: dict[RunKey, list[ClaimRecord]] = {}
    for claim in claims:
        if claim.is_training:
            by_run.setdefault(claim.key, []).append(claim)
    found = []
    for trial in trials:
        stored = _last_stored(trial)
        for run in trial.runs:
            key = RunKey(trial.number, run.run)
            own = sorted(by_run.get(key, []), key=lambda claim: claim.token)
            for claim in own:
                end, how = stored.get((run.run, claim.token), 0.0), End.INTERRUPTED
                if claim is own[-1]:
                    is_repeat = run.run >= runs_per_trial
                    end, how = _end(run, end, held=key in held, repeat=is_repeat, now=now)
                found.append(_span(claim, end, how))
    return tuple(sorted(found, key=lambda span: (span.start, span.trial, span.run)))


def _last_stored(trial: TrialRecord) -> dict[tuple[int, int], float]:
    """When each claim stored its last epoch, by run and token: nothing is known of later."""
    found: dict[tuple[int, int], float] = {}
    for epoch in trial.epochs:
        key = (epoch.run, epoch.token)
        found[key] = max(found.get(key, 0.0), epoch.stored_at)
    return found


def _end(
    run: RunRecord, stored: float, *, held: bool, repeat: bool, now: float
) -> tuple[float, End]:
    """When and how the last claim of a run ended."""
    if run.has_ended:
        done = End.REPEATED if repeat else End.COMPLETE
        return run.finished_at or stored, done if run.failure is None else End.FAILED
    return (now, End.RUNNING) if held else (stored, End.INTERRUPTED)


def _span(claim: ClaimRecord, end: float, how: End) -> Span:
    return Span(
        trial=claim.number,
        run=claim.run,
        token=claim.token,
        worker=claim.worker,
        host=claim.host_name,
        start=claim.claimed_at,
        end=max(end, claim.claimed_at),
        how=how,
    )
