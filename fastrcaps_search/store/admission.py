"""The one door of a study: under its lock the budget is exact and nothing is claimed twice."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sqlalchemy import Connection, insert, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import StudyMismatchError
from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.lease import Claim, failure_values, identity
from fastrcaps_search.store.lock import AdmissionLock
from fastrcaps_search.store.mirror import Mirror
from fastrcaps_search.store.place import LEASE_SECONDS
from fastrcaps_search.store.records import (
    Failure,
    LeaseRecord,
    StudyRecord,
    TrialRecord,
    TrialState,
)
from fastrcaps_search.store.store import Store, read_leases, read_trials
from fastrcaps_search.store.summary import untested_front

MOST_DEATHS = 10
"""Workers in a row that may die in one epoch of a trial before it counts as its own fault."""


class Duty(StrEnum):
    """What a worker is to do next."""

    TRAIN = "train"
    TEST = "test"
    WAIT = "wait"
    DONE = "done"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class Admitted:
    """Answer of the door: a duty, with a claim where there is something to do."""

    duty: Duty
    claim: Claim | None = None


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

    def give_up_testing(self, number: int) -> None:
        """Leave out a trial of the front whose weights this worker cannot read."""
        self._untestable.add(number)

    def close(self) -> None:
        """Close the connections of the mirror."""
        self._mirror.close()

    def next(self) -> Admitted:
        """Claim what is to be done next: interrupted trials first, then new ones.

        Raises:
            StudyMismatchError: The study has been defined anew.
            StoreError: The database cannot be used.
        """
        nonce = uuid.uuid4().hex
        admitted = self._store.patience(lambda: self._admit(nonce))
        self.settle()
        return admitted

    def settle(self) -> None:
        """Tell Optuna what has begun and what has ended, where that is news."""
        self._store.patience(self._settle)

    def _settle(self) -> None:
        if not self._mirror.lacks(self._trials()):
            return
        with self._lock.held():
            self._mirror.repair(self._study, self._trials())

    def _trials(self) -> list[TrialRecord]:
        # Not through the store's own patience: this is within it, and maybe under the lock.
        return self._store.try_once(
            lambda connection: read_trials(connection, self._study.study_id)
        )

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
        (trial,) = read_trials(connection, self._study.study_id, number=row.number)
        claim = self._described(trial.number, row.token, trial.parameters, trial.configuration_key)
        return Admitted(Duty.TEST if trial.is_finished else Duty.TRAIN, claim)

    def _decide(self, connection: Connection, nonce: str) -> Admitted:
        budget = self._budget(connection)
        held = self._reap(connection)
        # After the reaping, which may have ended a trial.
        trials = read_trials(connection, self._study.study_id)
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
        return self._after_training(connection, nonce, trials, held, exhausted=exhausted)

    def _budget(self, connection: Connection) -> int:
        """The study's budget, with a lock against a new definition while this one is used."""
        table = schema.studies
        query = select(table.c.budget, table.c.uid).where(table.c.study_id == self._study.study_id)
        row = connection.execute(query.with_for_update(read=True)).one_or_none()
        if row is None or row.uid != self._study.uid:
            raise StudyMismatchError(
                f'study "{self._study.name}" must be the one that this worker has joined, but it '
                "was defined anew before its first trial; start the worker again"
            )
        return int(row.budget)

    def _reap(self, connection: Connection) -> set[int]:
        """Remove the leases of lost workers; the numbers of the trials still held."""
        held = set()
        for lease in read_leases(connection, self._study.study_id):
            table = schema.leases
            key = (table.c.study_id == self._study.study_id) & (table.c.number == lease.number)
            if identity(lease).is_known_dead:
                connection.execute(table.delete().where(key))
                self._note_death(connection, lease)
            elif lease.is_lost:
                connection.execute(table.delete().where(key))
            else:
                held.add(lease.number)
                if lease.is_silent and lease.suspected_seconds is None:
                    connection.execute(table.update().where(key).values(suspected_at=now()))
        return held

    def _note_death(self, connection: Connection, lease: LeaseRecord) -> None:
        """Count a worker that died while it trained; end a trial that kills them one by one."""
        table = schema.trials
        key = (
            (table.c.study_id == self._study.study_id)
            & (table.c.number == lease.number)
            & (table.c.state == TrialState.RUNNING)
        )
        connection.execute(table.update().where(key).values(deaths=table.c.deaths + 1))
        deaths = connection.scalar(select(table.c.deaths).where(key))
        if deaths is None or deaths < MOST_DEATHS:
            return
        failure = Failure(
            "workers died",
            f"{deaths} workers in a row died in an epoch of this trial, maybe for want of memory",
            f"the last one was {lease.worker}, process {lease.pid} on {lease.host_name}",
            "",
        )
        connection.execute(
            table.update()
            .where(key)
            # The next token, in case that one of them is not dead after all.
            .values(
                state=str(TrialState.FAILED),
                token=table.c.token + 1,
                finished_at=now(),
                **failure_values(failure),
            )
        )

    def _after_training(
        self,
        connection: Connection,
        nonce: str,
        trials: Sequence[TrialRecord],
        held: set[int],
        *,
        exhausted: bool,
    ) -> Admitted:
        """With every trial ended, the test accuracies of the front are left to be read."""
        for number in untested_front(self._study, trials):
            if number not in held | self._untestable:
                return Admitted(Duty.TEST, self._claim(connection, nonce, trials[number]))
        return Admitted(Duty.EXHAUSTED if exhausted else Duty.DONE)

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
        connection.execute(
            table.update()
            .where(table.c.study_id == self._study.study_id, table.c.number == trial.number)
            .values(token=token)
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
