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
from fastrcaps_search.store.failing import lock_trial
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.lease import Claim
from fastrcaps_search.store.place import LEASE_SECONDS
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord
from fastrcaps_search.store.schema import run_row
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord


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

    def begin_trial(self, parameters: TrialParameters, key: str) -> Claim | None:
        """Store the next trial and claim its first run.

        Args:
            parameters: Its assignment.
            key: Its configuration.

        Returns:
            ``None`` where the budget is met, or another trial has the configuration.

        Raises:
            StudyMismatchError: The study has been defined anew.
        """
        table = schema.trials
        own = table.c.study_id == self.study.study_id

        def described(run: RunKey, token: int) -> Claim:
            return self._claim(run, token, Purpose.TRAIN, parameters, key)

        def begin(connection: Connection) -> Claim | None:
            budget = self._locked_budget(connection)
            number = connection.scalar(select(func.count()).select_from(table).where(own)) or 0
            row = {
                "study_id": self.study.study_id,
                "number": number,
                "assignment": json.dumps(parameters.to_dict()),
                "configuration_key": key,
                "created_at": now(),
            }
            if number >= budget or not schema.insert_unless_there(connection, table, row):
                return None
            claim = described(RunKey(number, 0), 1)
            return claim if self._insert_run(connection, claim) else None

        return self._leased(begin, described)

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
        table = schema.runs

        def described(key: RunKey, token: int) -> Claim:
            return self._claim(key, token, purpose, trial.parameters, trial.configuration_key)

        def take(connection: Connection) -> Claim | None:
            key = RunKey(trial.number, run)
            if before is None:
                lock_trial(connection, self.study.study_id, trial.number)
                claim = described(key, 1)
                if self._has_failed_since(connection, trial):
                    return None
                return claim if self._insert_run(connection, claim) else None
            claim = described(key, before.token + 1)
            ended = table.c.finished_at.is_not(None)
            as_read = run_row(table, self.study.study_id, key)
            as_read &= (table.c.token == before.token) & (ended if before.has_ended else ~ended)
            taken = connection.execute(table.update().where(as_read).values(token=claim.token))
            return claim if taken.rowcount == 1 else None

        return self._leased(take, described)

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

    def _leased(
        self,
        change: Callable[[Connection], Claim | None],
        described: Callable[[RunKey, int], Claim],
    ) -> Claim | None:
        """The claim that ``change`` makes, once the lease is stored with it."""
        nonce = uuid.uuid4().hex
        leases, claims = schema.leases, schema.claims
        mine = select(leases.c.number, leases.c.run, leases.c.token).where(leases.c.nonce == nonce)

        def attempt(connection: Connection) -> Claim | None:
            # It may have been done already, by a commit whose answer was lost.
            done = connection.execute(mine).one_or_none()
            if done is not None:
                return described(RunKey(done.number, done.run), done.token)
            claim = change(connection)
            if claim is None:
                return None
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
                return None
            # For when the lease is gone.
            connection.execute(insert(claims).values(**held, host=self._me.host))
            return claim

        return self.store.write(attempt)


def redefined(study: StudyRecord) -> StudyMismatchError:
    """The error for a worker whose study is another by now."""
    return StudyMismatchError(
        f'study "{study.name}" must be the one that this worker has joined, but it was defined '
        "anew before its first trial; start the worker again"
    )
