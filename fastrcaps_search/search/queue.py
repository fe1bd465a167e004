"""The queue of a study: new trials, their runs, more runs of the front, and the test set.

What is to be done next is decided on what was read, outside any lock; what is claimed is stored
only if all is still as it was read. So the budget is exact, nothing is claimed twice, and nobody
waits for a sampler that thinks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import StrEnum

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.remaining_work import RemainingWork, remaining_work
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.store.claiming import Claim, Claimant, redefined
from fastrcaps_search.store.ending import reap
from fastrcaps_search.store.reading import Mark, Snapshot
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord
from fastrcaps_search.store.trials import TrialRecord

LONGEST_SUSPICION_SECONDS = 30.0
"""The longest last third of a lease for which a new trial waits, so that a lost run is first."""

Sampler = Callable[[StudyRecord, Sequence[TrialRecord], str], tuple[TrialParameters, str] | None]
"""Next assignment and its configuration key, or ``None`` when every one has been taken.

Given the study, its trials, and the worker: two that ask at the same moment should differ.
"""


class Idle(StrEnum):
    """Why there is nothing to claim."""

    WAIT = "wait"
    DONE = "done"


class TrialQueue:
    """Gives this process what is to be done next in one study.

    Args:
        claimant: The worker, its store and its study.
        propose: Gives the assignments of new trials.
    """

    def __init__(self, claimant: Claimant, propose: Sampler) -> None:
        self._claimant = claimant
        self._store = claimant.store
        self._propose = propose
        self._possible = configuration_count(claimant.study.definition)
        self._untestable: set[RunKey] = set()
        # Posterior draws take a moment, and an idle worker asks twice a second.
        self._known: tuple[Snapshot, list[TrialRecord], RemainingWork] | None = None
        # Where there was nothing to claim, and is not until something has changed.
        self._waits_at: Mark | None = None

    def give_up_testing(self, key: RunKey) -> None:
        """Leave out a run of the front whose weights this worker cannot read."""
        self._untestable.add(key)

    def claim_next(self) -> Claim | Idle:
        """Claim what is to be done next.

        Runs that have lost their worker come first, then the planned runs of begun trials, new
        trials, more runs of the front, and the test set. Where a lease has run out, it is waited
        for what becomes of its run before a new trial begins, unless the lease is long.

        Raises:
            StudyMismatchError: The study has been defined anew.
            StoreError: The database cannot be used.
        """
        if self._waits_at is not None and not self._has_changed():
            return Idle.WAIT
        while True:
            seen = self._seen()
            # Which may end a trial.
            if not reap(self._store, seen.study, seen.leases):
                found = self._claim(seen)
                if found is not None:
                    # No mark tells that one whose lease has run out has renewed it after all.
                    can_wait = found is Idle.WAIT and not self._is_free_soon(seen)
                    self._waits_at = seen.mark if can_wait else None
                    return found

    def is_over(self) -> bool:
        """Whether nothing is left to claim: a run that another worker holds may yet come back."""
        _, work = self._work(self._seen())
        tests = set(work.tests) - self._untestable
        return not (work.is_searching or work.repeats or tests)

    def _has_changed(self) -> bool:
        """Whether there may be something to claim by now."""
        study = self._claimant.study
        mark, doubtful = self._store.glance(study)
        return mark != self._waits_at or reap(self._store, study, doubtful)

    def _seen(self) -> Snapshot:
        seen = self._store.snapshot(self._claimant.study.name)
        if seen.study.uid != self._claimant.study.uid:
            raise redefined(self._claimant.study)
        return seen

    def _work(self, seen: Snapshot) -> tuple[list[TrialRecord], RemainingWork]:
        known = self._known
        if known is not None and (seen.study, seen.trials) == (known[0].study, known[0].trials):
            return known[1:]
        trials = estimated(seen.trials, study=seen.study)
        work = remaining_work(seen.study, trials, possible=self._possible)
        self._known = (seen, trials, work)
        return trials, work

    def _is_free_soon(self, seen: Snapshot) -> bool:
        """Whether a planned run, whose lease has run out, is free in a moment or held again."""
        _, work = self._work(seen)
        return any(
            lease.has_run_out
            and lease.lease_seconds / 3 <= LONGEST_SUSPICION_SECONDS
            and lease.key in work.runs
            for lease in seen.leases
        )

    def _claim(self, seen: Snapshot) -> Claim | Idle | None:
        """What can be claimed; ``None`` where it has changed since it was read."""
        trials, work = self._work(seen)
        held = {lease.key for lease in seen.leases}
        if work.trials and held.issuperset(work.runs):
            if self._is_free_soon(seen):
                return Idle.WAIT
            proposal = self._propose(seen.study, trials, self._claimant.worker)
            if proposal is not None:
                return self._claimant.begin_trial(*proposal)
            # A continuous space may have no more to offer; the front is repeated and tested.
            work = remaining_work(seen.study, trials, possible=len(trials))
        tests = [key for key in work.tests if key not in self._untestable]
        for keys in (work.runs, work.repeats, tests):
            free = [key for key in keys if key not in held]
            if free:
                purpose = Purpose.TEST if keys is tests else Purpose.TRAIN
                # Where another worker is quicker, many are after these runs at once: in one order,
                # each would lose one run after the other to those before it.
                free[1:] = sorted(free[1:], key=lambda key: (key.run, random.random()))
                # The first one that nobody has taken since.
                taken = (self._claimant.take(trials[key.number], key.run, purpose) for key in free)
                return next((claim for claim in taken if claim is not None), None)
            if keys:
                return Idle.WAIT
        return Idle.DONE
