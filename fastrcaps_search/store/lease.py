"""A claimed trial: everything that its worker may write, as long as its token holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import Connection, select

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.box import fix_box
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.failures import failure_values
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.place import LEASE_SECONDS
from fastrcaps_search.store.reading import read_leases
from fastrcaps_search.store.records import Failure, TrialState, Values
from fastrcaps_search.store.renewal import Renewal
from fastrcaps_search.store.spreads import read_results, spread_values
from fastrcaps_search.store.store import Store

Result = TypeVar("Result")

RENEWALS = 6
"""Renewals in the length of a lease."""
IDENTITY_FIELDS = tuple(ProcessIdentity.__dataclass_fields__)


def identity(lease: LeaseRecord) -> ProcessIdentity:
    """The process that holds ``lease``."""
    return ProcessIdentity(**{name: getattr(lease, name) for name in IDENTITY_FIELDS})


def live_leases(leases: Sequence[LeaseRecord]) -> list[LeaseRecord]:
    """The leases that have not run out and whose process is not known to be dead."""
    return [
        lease for lease in leases if not lease.has_run_out and not identity(lease).is_known_dead
    ]


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
        lease_seconds: Silence after which the claim may be taken over.
    """

    study_id: int
    number: int
    token: int
    worker: str
    device: str
    parameters: TrialParameters
    configuration_key: str
    lease_seconds: float = LEASE_SECONDS


class ClaimedTrial:
    """Writes of the worker that holds a claim; each holds only with the current token.

    Raises:
        LeaseLostError: From any write, once another worker has taken the trial over.
    """

    def __init__(self, store: Store, claim: Claim) -> None:
        self.store = store
        self.claim = claim
        self._renewal = Renewal(self.renew, every_seconds=claim.lease_seconds / RENEWALS)
        self._sharing_before = 1

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Keep the lease from running out, from a thread of its own."""
        self._renewal.start()
        try:
            yield
        finally:
            self._renewal.stop()

    def renew(self) -> bool:
        """Renew the lease; whether it is still held."""
        table = schema.leases
        renewed = (
            table.update()
            .where(self._key(table), table.c.token == self.claim.token)
            .values(renewed_at=now(), suspected_at=None)
        )
        return self.store.try_once(lambda connection: connection.execute(renewed)).rowcount == 1

    def require_held(self) -> None:
        """Do nothing while no other worker is known to have taken the trial over."""
        self._require(not self._renewal.lost.is_set())

    def begin_run(self, run: int, *, seed: int, setting: RunSetting, fresh: bool) -> None:
        """Store a run unless it is there; mark it where it goes on under another setting.

        Args:
            run: Index of the run.
            seed: Its seed.
            setting: Where it trains from now on.
            fresh: Whether it trains from its first epoch, so that no earlier setting counts.
        """
        table = schema.runs
        key = self._key(table) & (table.c.run == run)
        facts = asdict(setting)

        def begin(connection: Connection) -> int:
            if fresh:
                connection.execute(table.delete().where(key))
            row = connection.execute(select(table).where(key)).one_or_none()
            if row is None:
                connection.execute(
                    table.insert().values(
                        **self._values(), run=run, seed=seed, bit_equal=1, **facts
                    )
                )
            elif any(getattr(row, name) != value for name, value in facts.items()):
                connection.execute(table.update().where(key).values(bit_equal=0))
            return self._sharing(connection)

        self._sharing_before = self._fenced(begin)

    def forget_epochs_after(self, run: int, epoch: int) -> None:
        """Remove epochs that are to be trained again because their checkpoint is gone."""
        table = schema.epochs
        later = table.delete().where(self._key(table), table.c.run == run, table.c.epoch > epoch)
        self._fenced(lambda connection: connection.execute(later))

    def store_epoch(self, run: int, metrics: EpochMetrics, *, setting: RunSetting) -> None:
        """Store an epoch, replacing one of the same number.

        It shared its device with as many workers as there were at its start or at its end,
        whichever were more: others come and go while it is trained, and one that has just ended a
        trial is about to claim the next.
        """
        table = schema.epochs
        key = self._key(table) & (table.c.run == run) & (table.c.epoch == metrics.epoch)

        def store(connection: Connection) -> int:
            sharing = self._sharing(connection)
            connection.execute(table.delete().where(key))
            connection.execute(
                table.insert().values(
                    **self._values(),
                    run=run,
                    token=self.claim.token,
                    worker=self.claim.worker,
                    sharing=max(self._sharing_before, sharing),
                    stored_at=now(),
                    **asdict(metrics),
                    **asdict(setting),
                )
            )
            return sharing

        # Whatever went wrong before, the trial gets on.
        self._sharing_before = self._fenced(store, deaths=0, device_faults=0)

    def finish_run(self, run: int, result: RunResult) -> None:
        """Store the values of a run."""
        self._fenced(lambda connection: self._store_result(connection, run, result))

    def _store_result(self, connection: Connection, run: int, result: RunResult) -> None:
        table = schema.runs
        ended = table.update().where(self._key(table), table.c.run == run).values(**asdict(result))
        connection.execute(ended)

    def note_device_fault(self) -> int:
        """Store that the device or its memory gave out; how often that was since an epoch."""
        count = select(schema.trials.c.device_faults).where(self._key(schema.trials))
        # Read before, so that a second attempt at the transaction counts nothing twice.
        faults = int(self.store.do(lambda connection: connection.scalar(count)) or 0) + 1
        self._fenced(lambda connection: None, device_faults=faults)
        return faults

    def complete(self, values: Values) -> None:
        """End the trial with its values; beside them the spreads of its stored runs.

        Raises:
            ValueError: A value is not finite.
        """
        if not all(math.isfinite(value) for value in values.as_tuple()):
            raise ValueError(f"values must be finite, got {values.as_tuple()}")
        self._finish(TrialState.COMPLETE, asdict(values))

    def fail(self, failure: Failure) -> None:
        """End the trial as failed, with the reason."""
        self._finish(TrialState.FAILED, failure_values(failure))

    def _finish(self, state: TrialState, values: dict[str, Any]) -> None:
        table = schema.trials
        held = self._key(table) & (table.c.token == self.claim.token)
        # One statement that holds only with the current token: values never come from a worker
        # that has lost its trial.
        end = table.update().where(held, table.c.state == TrialState.RUNNING)
        before = select(table.c.number).where(held, table.c.state == state)
        for name, value in values.items():
            before = before.where(table.c[name] == value)

        def finish(connection: Connection) -> None:
            spreads = {}
            if state is TrialState.COMPLETE:
                # First the study's row, as who claims does: two locks in two orders would block.
                fix_box(connection, **self._values(), seconds=values["training_seconds"])
                spreads = self._spreads(connection)
            done = connection.execute(
                end.values(state=str(state), finished_at=now(), **values, **spreads)
            )
            # It may have been done already, by a commit whose answer was lost.
            self._require(done.rowcount == 1 or connection.scalar(before) is not None)
            self._drop_lease(connection)

        self.store.do(finish)

    def _spreads(self, connection: Connection) -> dict[str, float | None]:
        return spread_values(read_results(connection, self._key(schema.runs)))

    def store_test_accuracy(self, run: int, accuracy: float) -> None:
        """Store what a run's best weights reach on the test set; only the first reading counts."""
        table = schema.runs
        read = (
            table.update()
            .where(self._key(table), table.c.run == run, table.c.test_accuracy.is_(None))
            .values(test_accuracy=accuracy)
        )
        self._fenced(lambda connection: connection.execute(read))

    def hand_back(self) -> None:
        """Give back a trial with which nothing is left to do here."""
        self.store.do(self._drop_lease)

    def release(self) -> None:
        """Give the trial back, to be continued by any worker; tried once."""
        self.store.try_once(self._drop_lease)

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

    def _fenced(self, work: Callable[[Connection], Result], **changed: Any) -> Result:  # noqa: ANN401
        """Do work in a transaction that first makes sure that the token is current.

        Args:
            work: What to do.
            **changed: New values of the trial's row, whose lock keeps others from taking over.
        """
        table = schema.trials
        token = self.claim.token

        def fenced(connection: Connection) -> Result:
            held = connection.execute(
                table.update()
                .where(self._key(table), table.c.token == token)
                .values(token=token, **changed)
            )
            self._require(held.rowcount == 1)
            return work(connection)

        return self.store.do(fenced)

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
