"""Claiming runs, and the export: one transaction that holds only if all is as it was read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from sqlalchemy import Connection, func, insert, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import StudyMismatchError
from fastrcaps_search.store import schema
from fastrcaps_search.store.ending import lock_trial
from fastrcaps_search.store.holders import live_leases
from fastrcaps_search.store.location import LEASE_SECONDS
from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.reading import read_leases
from fastrcaps_search.store.records import Purpose, RunKey, StudyRecord
from fastrcaps_search.store.schema import run_row
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

Held = tuple[RunKey, int]
"""A run and the token under which it is held."""
NO_STUDY = 0
"""Stands for the database in leases: studies count from 1."""


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

        def begin(connection: Connection) -> Held | None:
            budget = self._locked_budget(connection)
            number = connection.scalar(select(func.count()).select_from(table).where(own)) or 0
            row = {
                "study_id": self.study.study_id,
                "number": number,
                "assignment": json.dumps(parameters.to_dict()),
                "configuration_key": key,
                "created_at": schema.now(),
            }
            if number >= budget or not schema.insert_unless_there(connection, table, row):
                return None
            return self._insert_run(connection, RunKey(number, 0))

        return self._leased(begin, Purpose.TRAIN, parameters)

    def take(self, trial: TrialRecord, run: int, purpose: Purpose) -> Claim | None:
        """Claim a run of a trial: one that nobody has begun, or that its worker has lost or left.

        Args:
            trial: The trial as it was read.
            run: Index of the run.
            purpose: What for.

        Returns:
            ``None`` where the run is no longer as it was read.
        """
        key = RunKey(trial.number, run)
        before = next((one for one in trial.runs if one.run == run), None)
        table = schema.runs

        def take(connection: Connection) -> Held | None:
            if before is None:
                lock_trial(connection, self.study.study_id, trial.number)
                if self._has_failed_since(connection, trial):
                    return None
                return self._insert_run(connection, key)
            ended = table.c.finished_at.is_not(None)
            as_read = run_row(table, self.study.study_id, key)
            as_read &= (table.c.token == before.token) & (ended if before.has_ended else ~ended)
            token = before.token + 1
            taken = connection.execute(table.update().where(as_read).values(token=token))
            return (key, token) if taken.rowcount == 1 else None

        return self._leased(take, purpose, trial.parameters)

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

    def _insert_run(self, connection: Connection, key: RunKey) -> Held | None:
        seed = self.study.seed_of(key.run)
        row = {**self._row(key), "seed": seed, "token": 1, "created_at": schema.now()}
        return (key, 1) if schema.insert_unless_there(connection, schema.runs, row) else None

    def _row(self, key: RunKey) -> dict[str, int]:
        return {"study_id": self.study.study_id, **asdict(key)}

    def _insert_lease(
        self, connection: Connection, key: RunKey, token: int, purpose: Purpose, nonce: str
    ) -> bool:
        held = {
            **self._row(key),
            "token": token,
            "purpose": str(purpose),
            "worker": self.worker,
            "device": self.device,
            "claimed_at": schema.now(),
        }
        lease = {"renewed_at": schema.now(), "lease_seconds": self.lease_seconds, "nonce": nonce}
        row = {**held, **lease, **asdict(self._me)}
        if not schema.insert_unless_there(connection, schema.leases, row):
            return False
        # For when the lease is gone.
        connection.execute(insert(schema.claims).values(**held, host=self._me.host))
        return True

    def _leased(
        self,
        change: Callable[[Connection], Held | None],
        purpose: Purpose,
        parameters: TrialParameters,
    ) -> Claim | None:
        """The claim of the run that ``change`` takes, once the lease is stored with it."""
        nonce, leases = uuid.uuid4().hex, schema.leases
        mine = select(leases.c.number, leases.c.run, leases.c.token).where(leases.c.nonce == nonce)

        def attempt(connection: Connection) -> Held | None:
            # It may have been done already, by a commit whose answer was lost.
            done = connection.execute(mine).one_or_none()
            if done is not None:
                return RunKey(done.number, done.run), done.token
            taken = change(connection)
            if taken is not None and not self._insert_lease(connection, *taken, purpose, nonce):
                # Its holder has renewed it since it was read.
                connection.rollback()
                return None
            return taken

        taken = self.store.write(attempt)
        if taken is None:
            return None
        return Claim(self, *taken, purpose, parameters)


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that this process holds.

    Attributes:
        claimant: Who holds it.
        key: The run.
        token: Fencing token: one higher with each claim, so that an earlier holder that comes
            back cannot write.
        purpose: To train it, or to test it.
        parameters: The trial's assignment.
    """

    claimant: Claimant
    key: RunKey
    token: int
    purpose: Purpose
    parameters: TrialParameters


def redefined(study: StudyRecord) -> StudyMismatchError:
    """The error for a worker whose study is another by now."""
    return StudyMismatchError(
        f'study "{study.name}" must be the one that this worker has joined, but it was defined '
        "anew before its first trial; start the worker again"
    )


class ExportLease:
    """The lease of whoever adds trials to Optuna's tables, one process of a database at a time.

    Of a process that is lost it is taken.

    Args:
        store: The store, open for writing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._nonce = uuid.uuid4().hex
        table = schema.leases
        self._own = (table.c.study_id == NO_STUDY) & (table.c.nonce == self._nonce)

    def claim(self) -> bool:
        """Hold the lease; ``False`` where another process does."""
        table = schema.leases
        values = {
            **{"study_id": NO_STUDY, "number": 0, "run": 0, "token": 0, "purpose": "export"},
            **{"worker": "", "device": "", "lease_seconds": LEASE_SECONDS, "nonce": self._nonce},
            **{"claimed_at": schema.now(), "renewed_at": schema.now()},
            **asdict(ProcessIdentity.current()),
        }

        def claim(connection: Connection) -> bool:
            found = read_leases(connection, NO_STUDY)
            # After the clock was set back nobody knows how long one has been silent.
            if not [lease for lease in live_leases(found) if lease.silent_seconds >= 0]:
                lost = table.c.renewed_at.in_([lease.renewed_at for lease in found])
                connection.execute(table.delete().where(table.c.study_id == NO_STUDY, lost))
            return schema.insert_unless_there(connection, table, values) or self._renew(connection)

        return self._store.write(claim)

    def renew(self) -> bool:
        """Hold it for longer; whether it is still held."""
        return self._store.write(self._renew)

    def _renew(self, connection: Connection) -> bool:
        renewed = schema.leases.update().where(self._own).values(renewed_at=schema.now())
        return connection.execute(renewed).rowcount == 1

    def release(self) -> None:
        """Give it back."""
        given_back = schema.leases.delete().where(self._own)
        self._store.write(lambda connection: connection.execute(given_back))
