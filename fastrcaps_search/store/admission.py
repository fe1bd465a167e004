"""The one door of a study: under its lock the budget is exact and nothing is claimed twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sqlalchemy import Connection, insert

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.store import schema
from fastrcaps_search.store.enter import admission_lock
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.lease import Claim, identity
from fastrcaps_search.store.mirror import Mirror
from fastrcaps_search.store.records import StudyRecord, TrialRecord, TrialState
from fastrcaps_search.store.store import Store, read_leases, read_trials
from fastrcaps_search.store.summary import untested_front


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
    """

    def __init__(
        self, store: Store, study: StudyRecord, *, worker: str, device: str, propose: Proposal
    ) -> None:
        self._store = store
        self._study = study
        self._worker = worker
        self._device = device
        self._propose = propose
        self._mirror = Mirror(store.location)
        self._me = ProcessIdentity.current()
        self._untestable: set[int] = set()

    def give_up_testing(self, number: int) -> None:
        """Leave out a trial of the front whose weights this worker cannot read."""
        self._untestable.add(number)

    def close(self) -> None:
        """Close the connections of the mirror."""
        self._mirror.close()

    def next(self) -> Admitted:
        """Claim what is to be done next: interrupted trials first, then new ones."""
        with admission_lock(self._store.location):
            budget = self._store.study(self._study.name).budget
            with self._store.transaction() as connection:
                admitted = self._decide(connection, budget)
            if admitted.duty is Duty.TRAIN:
                self._repair()
        return admitted

    def settle(self) -> None:
        """Tell Optuna what has ended here."""
        with admission_lock(self._store.location):
            self._repair()

    def _repair(self) -> None:
        self._mirror.repair(self._study, self._store.trials(self._study))

    def _decide(self, connection: Connection, budget: int) -> Admitted:
        trials = read_trials(connection, self._study.study_id)
        held = self._reap(connection)
        running = [trial for trial in trials if not trial.is_finished]
        for trial in running:
            if trial.number not in held:
                return Admitted(Duty.TRAIN, self._claim(connection, trial))
        finished = len(trials) - len(running)
        if len(trials) < budget:
            proposal = self._propose(self._study, trials)
            if proposal is not None:
                return Admitted(Duty.TRAIN, self._claim_new(connection, len(trials), *proposal))
        if running:
            return Admitted(Duty.WAIT)
        return self._after_training(connection, trials, held, exhausted=finished < budget)

    def _reap(self, connection: Connection) -> set[int]:
        """Remove the leases of dead processes; the numbers of the trials still held."""
        held = set()
        for lease in read_leases(connection, self._study.study_id):
            if identity(lease).is_known_dead:
                table = schema.leases
                connection.execute(
                    table.delete().where(
                        table.c.study_id == self._study.study_id,
                        table.c.number == lease.number,
                    )
                )
            else:
                held.add(lease.number)
        return held

    def _after_training(
        self,
        connection: Connection,
        trials: Sequence[TrialRecord],
        held: set[int],
        *,
        exhausted: bool,
    ) -> Admitted:
        """With every trial ended, the test accuracies of the front are left to be read."""
        for number in untested_front(self._study, trials):
            if number not in held | self._untestable:
                return Admitted(Duty.TEST, self._claim(connection, trials[number]))
        return Admitted(Duty.EXHAUSTED if exhausted else Duty.DONE)

    def _claim_new(
        self, connection: Connection, number: int, parameters: TrialParameters, key: str
    ) -> Claim:
        connection.execute(
            insert(schema.trials).values(
                study_id=self._study.study_id,
                number=number,
                assignment=json.dumps(parameters.to_dict()),
                configuration_key=key,
                state=str(TrialState.RUNNING),
                token=1,
                created_at=time.time(),
            )
        )
        return self._lease(connection, number, 1, parameters, key)

    def _claim(self, connection: Connection, trial: TrialRecord) -> Claim:
        token = trial.token + 1
        table = schema.trials
        connection.execute(
            table.update()
            .where(table.c.study_id == self._study.study_id, table.c.number == trial.number)
            .values(token=token)
        )
        return self._lease(
            connection, trial.number, token, trial.parameters, trial.configuration_key
        )

    def _lease(
        self,
        connection: Connection,
        number: int,
        token: int,
        parameters: TrialParameters,
        key: str,
    ) -> Claim:
        connection.execute(
            insert(schema.leases).values(
                study_id=self._study.study_id,
                number=number,
                token=token,
                worker=self._worker,
                device=self._device,
                claimed_at=time.time(),
                **asdict(self._me),
            )
        )
        return Claim(
            study_id=self._study.study_id,
            number=number,
            token=token,
            worker=self._worker,
            device=self._device,
            parameters=parameters,
            configuration_key=key,
        )
