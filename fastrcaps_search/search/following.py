"""What workers do that a run does not hear: the events that they tell, by the database."""

from __future__ import annotations

from typing import Any

from fastrcaps_search.search.events import WorkerEvent, named
from fastrcaps_search.search.outcome import RunOutcome
from fastrcaps_search.search.supervise import Heard
from fastrcaps_search.store.holders import ClaimRecord
from fastrcaps_search.store.records import GIVEN_UP, RunKey, RunRecord, StudyRecord
from fastrcaps_search.store.store import Store


class Follower:
    """Follows the runs of a study, whoever trains them.

    Args:
        store: The database.
        study: The study.
    """

    def __init__(self, store: Store, study: StudyRecord) -> None:
        self._store, self._study = store, study
        self._seen: set[tuple[RunKey, int | None]] | None = None

    def news(self, outcome: RunOutcome) -> list[Heard]:
        """What has begun or ended since it was last asked, the oldest first; at first nothing.

        Args:
            outcome: How the study stands.

        Raises:
            StoreError: The database cannot be used.
        """
        trials = outcome.trials
        runs = {RunKey(one.number, run.run): (one, run) for one in trials for run in one.runs}
        found: dict[tuple[RunKey, int | None], tuple[float, Heard]] = {}
        # Read after the runs: whatever has ended was claimed before.
        for claim in self._store.claims(self._study):
            if claim.key not in runs:
                continue
            trial, run = runs[claim.key]
            begins: dict[str, Any] = {"event": WorkerEvent.TESTING}
            if claim.is_training:
                begins = {"event": WorkerEvent.BEGINS, "policy": trial.parameters.described}
            found[claim.key, claim.token] = claim.claimed_at, self._heard(claim, begins)
            if claim.is_training and (end := _end(run)):
                # Of several claims the last one's.
                found[claim.key, None] = run.finished_at or 0.0, self._heard(claim, end)
        seen, self._seen = self._seen, set(found)
        new = [] if seen is None else [one for key, one in found.items() if key not in seen]
        return [heard for _, heard in sorted(new, key=lambda one: one[0])]

    def _heard(self, claim: ClaimRecord, event: dict[str, Any]) -> Heard:
        return f"{claim.worker} on {claim.host_name}", event | named(self._study, claim.key)


def _end(run: RunRecord) -> dict[str, Any] | None:
    """How a run has ended, if it has, and by itself."""
    if run.accuracy is not None:
        return {"event": WorkerEvent.COMPLETE}
    if run.failure is None or run.failure.kind == GIVEN_UP:
        return None
    return {"event": WorkerEvent.FAILED, "reason": run.failure.message}
