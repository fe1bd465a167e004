"""The one door of a study: under its lock the budget is exact and nothing is claimed twice."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict

from sqlalchemy import Connection, insert, select

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.summary import untested_front
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import (
    FastrcapsError,
    StoreUnavailableError,
    StudyMismatchError,
)
from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.duties import Admitted, Duty
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.lease import Claim, ClaimedTrial
from fastrcaps_search.store.lock import AdmissionLock
from fastrcaps_search.store.mirror import Mirror
from fastrcaps_search.store.place import LEASE_SECONDS
from fastrcaps_search.store.reading import read_trials
from fastrcaps_search.store.reaping import reap
from fastrcaps_search.store.records import (
    StudyRecord,
    TrialRecord,
    TrialState,
)
from fastrcaps_search.store.repeats import DueRepeats
from fastrcaps_search.store.store import Store

Proposal = Callable[[StudyRecord, Sequence[TrialRecord]], tuple[TrialParameters, str] | None]
"""Next assignment and its configuration key, or ``None`` when every one has been taken."""


class Door:
    """Admits this process to one study.

    Args:
        store: The store, open for writing.
        study: The study.
        worker: Name of the worker.
        device: Device that it trains on.
        propose: Gives the next assignment.
        lease_seconds: Silence after which another worker may take over what is claimed here.
    """

    def __init__(
        self,
        store: Store,
        study: StudyRecord,
        *,
        worker: str,
        device: str,
        propose: Proposal,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._store = store
        self._study = study
        self._worker = worker
        self._device = device
        self._propose = propose
        self._lease_seconds = lease_seconds
        self._lock = AdmissionLock(store.location, store.engine, study.name)
        self._mirror = store.patience(lambda: Mirror(store.location))
        self._me = ProcessIdentity.current()
        self._untestable: set[int] = set()
        self._due_repeats = DueRepeats()

    def give_up_testing(self, number: int) -> None:
        """Leave out a trial of the front whose weights this worker cannot read."""
        self._untestable.add(number)

    def close(self) -> None:
        """Close the connections of the mirror."""
        self._mirror.close()

    def next(self) -> Admitted:
        """Claim what is to be done next: interrupted trials, new ones, repeats, the test set.

        Raises:
            StudyMismatchError: The study has been defined anew.
            StoreError: The database cannot be used.
        """
        nonce = uuid.uuid4().hex
        admitted = self._store.patience(lambda: self._admit(nonce))
        try:
            self.settle()
        except BaseException:
            if admitted.claim is not None:
                with suppress(FastrcapsError):
                    ClaimedTrial(self._store, admitted.claim).release()
            raise
        return admitted

    def over(self) -> Duty | None:
        """``DONE`` or ``EXHAUSTED`` where nothing is left to claim, without claiming anything.

        A trial that another worker holds may yet come back.
        """
        store, study = self._store, self._study
        trials = store.trials(study)
        if any(not trial.is_finished for trial in trials) or untested_front(study, trials):
            return None
        stored = store.study(study.name)
        if self._due_repeats(trials, stored.repeats):
            return None
        if len(trials) >= stored.budget:
            return Duty.DONE
        return None if self._propose(study, trials) else Duty.EXHAUSTED

    def settle(self) -> None:
        """Tell Optuna what has begun and what has ended, where that is news."""
        self._store.patience(self._settle)

    def _settle(self) -> None:
        if not self._mirror.lacks(self._trials()):
            return
        with self._lock.held() as require_lock:
            self._mirror.repair(self._study, self._trials(), require_lock=require_lock)

    def _trials(self) -> list[TrialRecord]:
        # Not through the store's own patience: this is within it, and maybe under the lock.
        return self._store.try_once(lambda connection: read_trials(connection, self._study))

    def _estimated(self, connection: Connection) -> list[TrialRecord]:
        return estimated(read_trials(connection, self._study), study=self._study)

    def _admit(self, nonce: str) -> Admitted:
        with self._lock.transaction() as connection:
            return self._earlier(connection, nonce) or self._decide(connection, nonce)

    def _earlier(self, connection: Connection, nonce: str) -> Admitted | None:
        """What an attempt claimed whose answer was lost on its way."""
        table = schema.leases
        query = select(table.c.number, table.c.token).where(table.c.nonce == nonce)
        row = connection.execute(query).one_or_none()
        if row is None:
            return None
        trials = self._estimated(connection)
        trial = trials[row.number]
        duty = Duty.TRAIN
        if trial.is_finished:
            _, repeats = self._plan(connection)
            due = {trial.number for trial in self._due_repeats(trials, repeats)}
            duty = Duty.REPEAT if row.number in due else Duty.TEST
        claim = self._described(trial.number, row.token, trial.parameters, trial.configuration_key)
        return Admitted(duty, claim)

    def _decide(self, connection: Connection, nonce: str) -> Admitted:
        budget, repeats = self._plan(connection)
        held = reap(connection, self._study.study_id)
        # After the reaping, which may have ended a trial.
        trials = self._estimated(connection)
        running = [trial for trial in trials if not trial.is_finished]
        for trial in running:
            if trial.number not in held:
                return Admitted(Duty.TRAIN, self._claim(connection, nonce, trial))
        finished = len(trials) - len(running)
        if len(trials) < budget:
            proposal = self._propose(self._study, trials)
            if proposal is not None:
                claim = self._claim_new(connection, nonce, len(trials), *proposal)
                return Admitted(Duty.TRAIN, claim)
        if running:
            return Admitted(Duty.WAIT)
        exhausted = finished < budget
        due = [trial.number for trial in self._due_repeats(trials, repeats)]
        return (
            self._give(connection, nonce, Duty.REPEAT, trials, due, held)
            or self._to_test(connection, nonce, trials, held)
            or Admitted(Duty.EXHAUSTED if exhausted else Duty.DONE)
        )

    def _plan(self, connection: Connection) -> tuple[int, int]:
        """Budget and repeats, with a lock against a new definition while this one is used."""
        table = schema.studies
        query = select(table.c.budget, table.c.repeats, table.c.uid)
        query = query.where(table.c.study_id == self._study.study_id)
        row = connection.execute(query.with_for_update(read=True)).one_or_none()
        if row is None or row.uid != self._study.uid:
            raise StudyMismatchError(
                f'study "{self._study.name}" must be the one that this worker has joined, but it '
                "was defined anew before its first trial; start the worker again"
            )
        return int(row.budget), int(row.repeats)

    def _to_test(
        self,
        connection: Connection,
        nonce: str,
        trials: Sequence[TrialRecord],
        held: set[int],
    ) -> Admitted | None:
        """With every run ended, the test accuracies of the front are left to be read."""
        untested = set(untested_front(self._study, trials)) - self._untestable
        return self._give(connection, nonce, Duty.TEST, trials, sorted(untested), held)

    def _give(
        self,
        connection: Connection,
        nonce: str,
        duty: Duty,
        trials: Sequence[TrialRecord],
        wanted: Sequence[int],
        held: set[int],
    ) -> Admitted | None:
        """The first of the wanted trials that nobody holds; ``None`` where none is wanted."""
        if not wanted:
            return None
        for number in wanted:
            if number not in held:
                return Admitted(duty, self._claim(connection, nonce, trials[number]))
        return Admitted(Duty.WAIT)

    def _claim_new(
        self,
        connection: Connection,
        nonce: str,
        number: int,
        parameters: TrialParameters,
        key: str,
    ) -> Claim:
        connection.execute(
            insert(schema.trials).values(
                study_id=self._study.study_id,
                number=number,
                assignment=json.dumps(parameters.to_dict()),
                configuration_key=key,
                state=str(TrialState.RUNNING),
                token=1,
                created_at=now(),
            )
        )
        return self._lease(connection, nonce, self._described(number, 1, parameters, key))

    def _claim(self, connection: Connection, nonce: str, trial: TrialRecord) -> Claim:
        token = trial.token + 1
        table = schema.trials
        # As it was read: its holder may just have come back, or its last commit have come through.
        taken = connection.execute(
            table.update()
            .where(
                table.c.study_id == self._study.study_id,
                table.c.number == trial.number,
                table.c.token == trial.token,
                table.c.state == str(trial.state),
            )
            .values(token=token)
        )
        if taken.rowcount != 1:
            raise StoreUnavailableError(
                f"trial {trial.number} must stay as it is to be claimed, but it has just changed"
            )
        claim = self._described(trial.number, token, trial.parameters, trial.configuration_key)
        return self._lease(connection, nonce, claim)

    def _lease(self, connection: Connection, nonce: str, claim: Claim) -> Claim:
        connection.execute(
            insert(schema.leases).values(
                study_id=claim.study_id,
                number=claim.number,
                token=claim.token,
                worker=claim.worker,
                device=claim.device,
                claimed_at=now(),
                renewed_at=now(),
                lease_seconds=claim.lease_seconds,
                nonce=nonce,
                **asdict(self._me),
            )
        )
        leases, names = schema.leases, schema.claims.c.keys()
        held = select(*(leases.c[name] for name in names)).where(
            leases.c.study_id == claim.study_id, leases.c.number == claim.number
        )
        # For when the lease is gone.
        connection.execute(insert(schema.claims).from_select(names, held))
        return claim

    def _described(self, number: int, token: int, parameters: TrialParameters, key: str) -> Claim:
        return Claim(
            study_id=self._study.study_id,
            number=number,
            token=token,
            worker=self._worker,
            device=self._device,
            parameters=parameters,
            configuration_key=key,
            lease_seconds=self._lease_seconds,
        )
