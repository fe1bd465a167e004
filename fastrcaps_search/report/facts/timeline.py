"""Who trained what when: one span for each claim of a trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.store.records import ClaimRecord, EpochRecord, TrialRecord, TrialState


class End(StrEnum):
    """How a claim ended."""

    COMPLETE = "complete"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"


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
    """

    trial: int
    token: int
    worker: str
    host: str
    start: float
    end: float
    how: End

    @property
    def took_over(self) -> bool:
        """Whether another claim of the trial came before."""
        return self.token > 1


def spans(
    trials: Sequence[TrialRecord],
    claims: Iterable[ClaimRecord],
    *,
    held: Collection[int],
    now: float,
) -> tuple[Span, ...]:
    """All spans by start.

    A claim after the end of its trial, to read the test accuracy, is none of training. A trial of
    a release that kept no claims has no span.

    Args:
        trials: The trials, with their epochs.
        claims: Who was given which of them.
        held: Trials that a worker holds now.
        now: Seconds since 1970 at which the spans of those end.
    """
    by_trial: dict[int, list[ClaimRecord]] = {}
    for claim in claims:
        by_trial.setdefault(claim.number, []).append(claim)
    found = []
    for trial in trials:
        own = [c for c in by_trial.get(trial.number, []) if _is_training(trial, c)]
        own.sort(key=lambda claim: claim.token)
        for claim in own:
            over = claim is not own[-1] or not (trial.is_finished or trial.number in held)
            found.append(_span(trial, claim, over=over, now=now))
    return tuple(sorted(found, key=lambda span: (span.start, span.trial)))


def _is_training(trial: TrialRecord, claim: ClaimRecord) -> bool:
    return trial.finished_at is None or claim.claimed_at < trial.finished_at


def _span(trial: TrialRecord, claim: ClaimRecord, *, over: bool, now: float) -> Span:
    """The span of a claim; ``over`` is one that ended before its trial did."""
    if over:
        end, how = _last_stored(trial.epochs, claim), End.INTERRUPTED
    elif trial.state is TrialState.RUNNING:
        end, how = now, End.RUNNING
    else:
        end, how = trial.finished_at or now, End(trial.state.value)
    return Span(
        trial=trial.number,
        token=claim.token,
        worker=claim.worker,
        host=claim.host_name,
        start=claim.claimed_at,
        end=max(end, claim.claimed_at),
        how=how,
    )


def _last_stored(epochs: Iterable[EpochRecord], claim: ClaimRecord) -> float:
    """When the claim stored its last epoch; nothing is known of what came after it."""
    times = [epoch.stored_at for epoch in epochs if epoch.token == claim.token and epoch.stored_at]
    return max(times, default=claim.claimed_at)
