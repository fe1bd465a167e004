"""A claimed trial: everything that its worker may write, as long as its token holds."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.records import Failure, LeaseRecord, TrialState, Values
from fastrcaps_search.store.store import Store, read_leases

IDENTITY_FIELDS = tuple(ProcessIdentity.__dataclass_fields__)


def identity(lease: LeaseRecord) -> ProcessIdentity:
    """The process that holds ``lease``."""
    return ProcessIdentity(**{name: getattr(lease, name) for name in IDENTITY_FIELDS})


def live_leases(leases: Sequence[LeaseRecord]) -> list[LeaseRecord]:
    """The leases whose process is not known to be dead."""
    return [lease for lease in leases if not identity(lease).is_known_dead]


@dataclass(frozen=True, slots=True)
class Claim:
    """A trial that this process holds.

    Attributes:
        study_id: The study.
        number: The trial.
        token: Fencing token: one higher with each claim, so that an earlier holder that comes
            back cannot write.
        worker: Name of the worker.
        device: Device that it trains on.
        parameters: The trial's assignment.
        configuration_key: The trial's configuration.
    """

    study_id: int
    number: int
    token: int
    worker: str
    device: str
    parameters: TrialParameters
    configuration_key: str


class ClaimedTrial:
    """Writes of the worker that holds a claim; each holds only with the current token.

    Raises:
        LeaseLostError: From any write, once another worker has taken the trial over.
    """

    def __init__(self, store: Store, claim: Claim) -> None:
        self.store = store
        self.claim = claim
        self._sharing_before = 1

    def begin_run(self, run: int, *, seed: int, setting: RunSetting, fresh: bool) -> None:
        """Store a run unless it is there; mark it where it goes on under another setting.

        Args:
            run: Index of the run.
            seed: Its seed.
            setting: Where it trains from now on.
            fresh: Whether it trains from its first epoch, so that no earlier setting counts.
        """
        with self._fenced() as connection:
            table = schema.runs
            key = self._key(table) & (table.c.run == run)
            if fresh:
                connection.execute(table.delete().where(key))
            row = connection.execute(select(table).where(key)).one_or_none()
            facts = asdict(setting)
            self._sharing_before = self._sharing(connection)
            if row is None:
                connection.execute(
                    table.insert().values(
                        **self._values(), run=run, seed=seed, bit_equal=1, **facts
                    )
                )
            elif any(getattr(row, name) != value for name, value in facts.items()):
                connection.execute(table.update().where(key).values(bit_equal=0))

    def forget_epochs_after(self, run: int, epoch: int) -> None:
        """Remove epochs that are to be trained again because their checkpoint is gone."""
        table = schema.epochs
        with self._fenced() as connection:
            connection.execute(
                table.delete().where(self._key(table), table.c.run == run, table.c.epoch > epoch)
            )

    def store_epoch(self, run: int, metrics: EpochMetrics, *, setting: RunSetting) -> None:
        """Store an epoch, replacing one of the same number.

        It shared its device with as many workers as there were at its start or at its end,
        whichever were more: others come and go while it is trained, and one that has just ended a
        trial is about to claim the next.
        """
        table = schema.epochs
        with self._fenced() as connection:
            now = self._sharing(connection)
            key = self._key(table) & (table.c.run == run) & (table.c.epoch == metrics.epoch)
            connection.execute(table.delete().where(key))
            connection.execute(
                table.insert().values(
                    **self._values(),
                    run=run,
                    token=self.claim.token,
                    worker=self.claim.worker,
                    sharing=max(self._sharing_before, now),
                    **asdict(metrics),
                    **asdict(setting),
                )
            )
        self._sharing_before = now

    def finish_run(self, run: int, result: RunResult) -> None:
        """Store the values of a run."""
        table = schema.runs
        with self._fenced() as connection:
            connection.execute(
                table.update().where(self._key(table), table.c.run == run).values(**asdict(result))
            )

    def complete(self, values: Values) -> None:
        """End the trial with its values.

        Raises:
            ValueError: A value is not finite.
        """
        if not all(math.isfinite(value) for value in values.as_tuple()):
            raise ValueError(f"values must be finite, got {values.as_tuple()}")
        self._finish(TrialState.COMPLETE, asdict(values))

    def fail(self, failure: Failure) -> None:
        """End the trial as failed, with the reason."""
        self._finish(
            TrialState.FAILED,
            {
                "failure_kind": failure.kind,
                "failure_message": failure.message,
                "failure_trace": failure.trace,
                "log_path": failure.log_path,
            },
        )

    def _finish(self, state: TrialState, values: dict[str, Any]) -> None:
        table = schema.trials
        with self.store.transaction() as connection:
            # One statement that holds only with the current token: values never come from a
            # worker that has lost its trial.
            done = connection.execute(
                table.update()
                .where(
                    self._key(table),
                    table.c.token == self.claim.token,
                    table.c.state == TrialState.RUNNING,
                )
                .values(state=str(state), finished_at=time.time(), **values)
            )
            self._require(done.rowcount == 1)
            self._drop_lease(connection)

    def store_test_accuracy(self, run: int, accuracy: float) -> None:
        """Store what a run's best weights reach on the test set; only the first reading counts."""
        table = schema.runs
        with self._fenced() as connection:
            connection.execute(
                table.update()
                .where(
                    self._key(table),
                    table.c.run == run,
                    table.c.test_accuracy.is_(None),
                )
                .values(test_accuracy=accuracy)
            )

    def release(self) -> None:
        """Give the trial back, to be continued by any worker."""
        with self.store.transaction() as connection:
            self._drop_lease(connection)

    def _drop_lease(self, connection: Connection) -> None:
        table = schema.leases
        connection.execute(
            table.delete().where(self._key(table), table.c.token == self.claim.token)
        )

    def _sharing(self, connection: Connection) -> int:
        """Workers that train on this machine's same device now, this one included.

        Of every study in this database. A worker that waits holds no trial and does not count,
        nor does one that died and whose trial nobody has taken over yet.
        """
        host = ProcessIdentity.current().host
        beside = [
            lease
            for lease in read_leases(connection)
            if (lease.host, lease.device) == (host, self.claim.device)
        ]
        return max(len(live_leases(beside)), 1)

    @contextmanager
    def _fenced(self) -> Iterator[Connection]:
        """A transaction that first makes sure, with a row lock, that the token is current."""
        table = schema.trials
        token = self.claim.token
        with self.store.transaction() as connection:
            held = connection.execute(
                table.update().where(self._key(table), table.c.token == token).values(token=token)
            )
            self._require(held.rowcount == 1)
            yield connection

    def _key(self, table: sqlalchemy.Table) -> sqlalchemy.ColumnElement[bool]:
        return (table.c.study_id == self.claim.study_id) & (table.c.number == self.claim.number)

    def _values(self) -> dict[str, int]:
        return {"study_id": self.claim.study_id, "number": self.claim.number}

    def _require(self, held: bool) -> None:
        if not held:
            raise LeaseLostError(
                f"trial {self.claim.number} must be held to be written, "
                "but another worker has taken it over; its results here are void"
            )
