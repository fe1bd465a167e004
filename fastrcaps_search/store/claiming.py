"""Claiming runs: each attempt is one transaction that holds only if all is as it was read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from sqlalchemy import Connection, func, insert, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import StudyMismatchError
from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.lease import Claim, lock_trial
from fastrcaps_search.store.place import LEASE_SECONDS
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord, TrialRecord
from fastrcaps_search.store.schema import run_row
from fastrcaps_search.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A worker that claims runs of a study.

    Attributes:
        store: The store, open for writing.
        study: The study, as the worker has joined it.
        worker: Name of the worker.
        device: Device that it trains on.
        lease_seconds: Silence after which another worker may take over what is claimed here.
    """

    store: Store
    study: StudyRecord
    worker: str
    device: str
    lease_seconds: float = LEASE_SECONDS
    _me: ProcessIdentity = field(default_factory=ProcessIdentity.current)

    def begin_trial(self, number: int, parameters: TrialParameters, key: str) -> Claim | None:
        """Store the next trial and claim its first run.

        Args:
            number: Of the trial: how many there were when ``parameters`` were proposed.
            parameters: Its assignment, which no trial before had.
            key: Its configuration.

        Returns:
            ``None`` where the study has more trials by now, or its budget is met.

        Raises:
            StudyMismatchError: The study has been defined anew.
        """
        claim = self._claim(RunKey(number, 0), 1, Purpose.TRAIN, parameters, key)
        table = schema.trials

        def begin(connection: Connection) -> bool:
            budget = self._locked_budget(connection)
            own = table.c.study_id == self.study.study_id
            known = connection.scalar(select(func.count()).select_from(table).where(own))
            if known != number or number >= budget:
                return False
            connection.execute(
                insert(table).values(
                    study_id=self.study.study_id,
                    number=number,
                    assignment=json.dumps(parameters.to_dict()),
                    configuration_key=key,
                    created_at=now(),
                )
            )
            return self._insert_run(connection, claim)

        return self._leased(claim, begin)

    def take(self, trial: TrialRecord, run: int, purpose: Purpose) -> Claim | None:
        """Claim a run of a trial: one that nobody has begun, or that its worker has lost or left.

        Args:
            trial: The trial as it was read.
            run: Index of the run.
            purpose: What for.

        Returns:
            ``None`` where the run is no longer as it was read.
        """
        before = next((one for one in trial.runs if one.run == run), None)
        claim = self._claim(
            RunKey(trial.number, run),
            1 if before is None else before.token + 1,
            purpose,
            trial.parameters,
            trial.configuration_key,
        )
        table = schema.runs

        def take(connection: Connection) -> bool:
            if before is None:
                lock_trial(connection, self.study.study_id, trial.number)
                return not self._has_failed_since(connection, trial) and self._insert_run(
                    connection, claim
                )
            ended = table.c.finished_at.is_not(None)
            as_read = run_row(table, self.study.study_id, claim.key)
            as_read &= (table.c.token == before.token) & (ended if before.has_ended else ~ended)
            taken = table.update().where(as_read).values(token=claim.token)
            return connection.execute(taken).rowcount == 1

        return self._leased(claim, take)

    def _claim(
        self, key: RunKey, token: int, purpose: Purpose, parameters: TrialParameters, name: str
    ) -> Claim:
        return Claim(
            study_id=self.study.study_id,
            key=key,
            token=token,
            purpose=purpose,
            # Run i of every trial has the same, and so the same order of images and shifts.
            seed=self.study.seed + key.run,
            worker=self.worker,
            device=self.device,
            parameters=parameters,
            configuration_key=name,
            lease_seconds=self.lease_seconds,
        )

    def _locked_budget(self, connection: Connection) -> int:
        """The study's budget, locked: who begins trials takes turns, and nobody redefines it."""
        table = schema.studies
        query = select(table.c.budget, table.c.uid)
        query = query.where(table.c.study_id == self.study.study_id).with_for_update()
        row = connection.execute(query).one_or_none()
        if row is None or row.uid != self.study.uid:
            raise redefined(self.study)
        return int(row.budget)

    def _has_failed_since(self, connection: Connection, trial: TrialRecord) -> bool:
        """Whether a run of the trial has failed since it was read: maybe the trial with it."""
        table = schema.runs
        own = (table.c.study_id == self.study.study_id) & (table.c.number == trial.number)
        query = select(func.count()).select_from(table)
        failed = connection.scalar(query.where(own, table.c.failure_kind.is_not(None)))
        return failed != sum(run.failure is not None for run in trial.runs)

    def _insert_run(self, connection: Connection, claim: Claim) -> bool:
        row = {**claim.row, "seed": claim.seed, "token": 1, "created_at": now()}
        return schema.insert_unless_there(connection, schema.runs, row)

    def _leased(self, claim: Claim, change: Callable[[Connection], bool]) -> Claim | None:
        """The claim, once ``change`` is done and the lease is stored with it; else ``None``."""
        nonce = uuid.uuid4().hex
        leases, claims = schema.leases, schema.claims

        def attempt(connection: Connection) -> bool:
            # It may have been done already, by a commit whose answer was lost.
            if connection.scalar(select(leases.c.run).where(leases.c.nonce == nonce)) is not None:
                return True
            if not change(connection):
                return False
            held = {
                **claim.row,
                "token": claim.token,
                "purpose": str(claim.purpose),
                "worker": claim.worker,
                "device": claim.device,
                "claimed_at": now(),
            }
            lease = {"renewed_at": now(), "lease_seconds": claim.lease_seconds, "nonce": nonce}
            me = asdict(self._me)
            if not schema.insert_unless_there(connection, leases, {**held, **lease, **me}):
                # Its holder has renewed it since it was read.
                connection.rollback()
                return False
            # For when the lease is gone.
            connection.execute(insert(claims).values(**held, host=self._me.host))
            return True

        return claim if self.store.write(attempt) else None


def redefined(study: StudyRecord) -> StudyMismatchError:
    """The error for a worker whose study is another by now."""
    return StudyMismatchError(
        f'study "{study.name}" must be the one that this worker has joined, but it was defined '
        "anew before its first trial; start the worker again"
    )
