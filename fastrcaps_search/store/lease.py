"""The lease of a run: everything that its worker may write, as long as its fencing token holds."""

from __future__ import annotations

import json
import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import Connection, select

from fastrcaps_search.errors import LeaseLostError
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.processes import start_thread
from fastrcaps_search.store import schema
from fastrcaps_search.store.calibrations import (
    ReferenceTime,
    nearest,
    network_key,
    read_reference,
)
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.ending import (
    fix_box,
    give_up_siblings,
    lock_trial,
    suspect_silent,
)
from fastrcaps_search.store.holders import LeaseRecord, live_leases
from fastrcaps_search.store.location import RENEWALS
from fastrcaps_search.store.presence import Presence
from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.reading import read_leases, read_silent
from fastrcaps_search.store.records import Failure
from fastrcaps_search.store.schema import run_row
from fastrcaps_search.store.store import Store

Result = TypeVar("Result")

RETRY_SECONDS = 1.0
"""After a renewal that failed."""


class RunLease:
    """Writes of the worker that holds a run; each holds only with the current token.

    Args:
        store: The store, open for writing.
        claim: The claim of the run.
        presence: The worker's row, of which a sign is written with each renewal.

    Attributes:
        sharing: Workers on the device when the epoch in progress began.

    Raises:
        LeaseLostError: From any write, once another worker has taken the run over, or it was
            given up as its trial failed.
    """

    def __init__(self, store: Store, claim: Claim, *, presence: Presence | None = None) -> None:
        self.store = store
        self._presence = presence
        self.claim = claim
        self._claimant = claim.claimant
        self._study_id = claim.claimant.study.study_id
        self._lost = threading.Event()
        self.sharing = 1
        self._reference: ReferenceTime | None = None
        self._silent: Sequence[LeaseRecord] = ()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the lease from a thread, whatever the training and the database are doing."""
        stop = threading.Event()
        start_thread(self._renew_until, stop)
        try:
            yield
        finally:
            # A renewal in progress is not waited for.
            stop.set()

    def _renew_until(self, stop: threading.Event) -> None:
        pause = every = self._claimant.lease_seconds / RENEWALS
        while not stop.wait(pause):
            pause = every
            try:
                if not self.renew():
                    self._lost.set()
                    return
                suspect_silent(self.store, self._claimant.study, self._silent)
            except Exception:
                # The database is out, most likely. The training goes on; its next write says what
                # is wrong, if it still is. A thread that ended here would lose the trial.
                pause = min(RETRY_SECONDS, every)

    def renew(self) -> bool:
        """Renew the lease; whether it is still held."""
        renewed = (
            schema.leases.update()
            .where(self._held(schema.leases))
            .values(renewed_at=schema.now(), suspected_at=None)
        )

        def renew(connection: Connection) -> bool:
            held = connection.execute(renewed).rowcount == 1
            self._sign(connection)
            # A connection of its own would cost the server more than the renewal.
            self._silent = read_silent(connection, self._study_id)
            return held

        return self.store.write_once(renew)

    def _sign(self, connection: Connection) -> None:
        if self._presence is not None:
            self._presence.write(connection)

    def require_held(self) -> None:
        """Do nothing while no other worker is known to have taken the run over."""
        self._require(not self._lost.is_set())

    def begin(
        self, setting: RunSetting, *, fresh: bool, log_path: str = "", sharing: int = 1
    ) -> None:
        """Store where the run trains; mark it where it goes on under another setting.

        Args:
            setting: Where it trains from now on.
            fresh: Whether it trains from its first epoch, so that no earlier setting counts.
            log_path: Its log. Where its files are is stored beside it.
            sharing: Workers on the device while the epoch in progress was trained before.

        Raises:
            RunError: The study counts in seconds of a device, and this one is not calibrated.
        """
        table = schema.runs
        facts = asdict(setting)

        def begin(connection: Connection) -> tuple[int, ReferenceTime | None]:
            reference = read_reference(connection, self._study_id)
            if reference is not None:
                nearest(reference.known, setting, sharing=1)
            row = connection.execute(select(table).where(self._row(table))).one()
            # It is about to have a network again, if that was removed.
            places = {"log_path": log_path, "files": self.store.location.place}
            changed: dict[str, Any] = {
                "removed": 0,
                **{name: schema.storable(place) for name, place in places.items()},
            }
            if fresh or row.device is None:
                changed |= {**facts, "bit_equal": 1}
            elif any(getattr(row, name) != value for name, value in facts.items()):
                changed["bit_equal"] = 0
            connection.execute(table.update().where(self._row(table)).values(**changed))
            now = self._sharing(connection)
            # Where runs are short no renewal may come.
            self._sign(connection)
            return max(sharing, now), reference

        self.sharing, self._reference = self._fenced(begin)

    def forget_epochs_after(self, epoch: int) -> None:
        """Remove epochs that are to be trained again because their checkpoint is gone."""
        table = schema.epochs
        later = table.delete().where(self._row(table), table.c.epoch > epoch)
        self._fenced(lambda connection: connection.execute(later))

    def store_epoch(self, metrics: EpochMetrics, *, setting: RunSetting) -> None:
        """Store an epoch, replacing one of the same number.

        It shared its device with as many workers as there were at its start or at its end,
        whichever were more: others come and go while it is trained, and one that has just ended a
        run is about to claim the next.
        """
        table = schema.epochs
        same = self._row(table) & (table.c.epoch == metrics.epoch)
        parameters, reference = self.claim.parameters, self._reference
        network = network_key(parameters.decoder, parameters.weight_sharing)

        def store(connection: Connection) -> int:
            now = self._sharing(connection)
            sharing = max(self.sharing, now)
            computed = reference and reference.computed_seconds(
                metrics, setting=setting, sharing=sharing, network=network
            )
            connection.execute(table.delete().where(same))
            connection.execute(
                table.insert().values(
                    study_id=self._study_id,
                    **asdict(self.claim.key),
                    token=self.claim.token,
                    worker=self._claimant.worker,
                    sharing=sharing,
                    stored_at=schema.now(),
                    computed_seconds=computed,
                    **asdict(metrics),
                    **asdict(setting),
                )
            )
            return now

        # Whatever went wrong before, the run gets on.
        self.sharing = self._fenced(store, deaths=0, device_faults=0)

    def note_device_fault(self) -> int:
        """Store that the device or its memory gave out; how often that was since an epoch."""
        count = select(schema.runs.c.device_faults).where(self._row(schema.runs))
        # Read before, so that a second attempt at the transaction counts nothing twice.
        faults = int(self.store.read(lambda connection: connection.scalar(count)) or 0) + 1
        self._fenced(lambda connection: None, device_faults=faults)
        return faults

    def finish(self, result: RunResult, *, kept: bool = True) -> None:
        """End the run with its values.

        Args:
            result: The values.
            kept: Whether it has a network: the disk may have refused it.

        Raises:
            ValueError: A value is not finite.
        """
        measured = result.training_seconds
        if result.measured_seconds is not None:
            measured = result.measured_seconds
        values = (result.accuracy, result.training_seconds, measured, *result.others.values())
        if not all(math.isfinite(value) for value in values):
            raise ValueError(f"values must be finite, got {values}")

        def finish(connection: Connection) -> None:
            # The study's row before the run's: two locks in two orders would block.
            with fix_box(connection, self._claimant.study, self.claim.key.number):
                others = json.dumps(result.others, sort_keys=True) if result.others else None
                gone = {} if kept else {"removed": 1}
                stored = {**asdict(result), "others": others, "measured_seconds": measured}
                self._end(connection, stored | gone)

        self.store.write(finish)

    def fail(self, failure: Failure, *, ends_trial: bool) -> None:
        """End the run without values, with the reason.

        Args:
            failure: Why.
            ends_trial: Whether its trial fails with it, whose other runs are given up then.
        """

        def fail(connection: Connection) -> None:
            # Two that fail at once, each with its own run locked, would wait for each other.
            lock_trial(connection, self._study_id, self.claim.key.number)
            self._end(connection, schema.failure_columns(failure))
            if ends_trial:
                give_up_siblings(connection, self._study_id, self.claim.key)

        self.store.write(fail)

    def _end(self, connection: Connection, values: dict[str, Any]) -> None:
        """End the run in one statement that holds only with the current token, and the lease.

        Values never come from a worker that has lost its run.
        """
        table = schema.runs
        held = self._held(table)
        end = table.update().where(held, table.c.finished_at.is_(None))
        token = self.claim.token
        ended = end.values(finished_at=schema.now(), ended_token=token, **values)
        done = connection.execute(ended)
        # It may have been done already, by a commit whose answer was lost; then another worker may
        # have claimed the run since, to test it.
        same = select(table.c.run).where(
            self._row(table),
            table.c.ended_token == token,
            *(table.c[key] == values[key] for key in values),
        )
        self._require(done.rowcount == 1 or connection.scalar(same) is not None)
        self._drop_lease(connection)

    def store_test_accuracy(self, accuracy: float) -> None:
        """Store what the best weights reach on the test set; only the first reading counts."""
        table = schema.runs
        unread = self._row(table) & table.c.test_accuracy.is_(None)
        read = table.update().where(unread).values(test_accuracy=accuracy)

        def store(connection: Connection) -> None:
            connection.execute(read)
            self._sign(connection)

        self._fenced(store)

    def hand_back(self) -> None:
        """Give back a run with which nothing is left to do here."""
        self.store.write(self._drop_lease)

    def release(self) -> None:
        """Give the run back, to be continued by any worker; tried once."""
        self.store.write_once(self._drop_lease)

    def _drop_lease(self, connection: Connection) -> None:
        connection.execute(schema.leases.delete().where(self._held(schema.leases)))

    def _sharing(self, connection: Connection) -> int:
        """Workers that train on this machine's same device now, this one included.

        Of every study in this database. A worker that waits holds no run and does not count, nor
        does one that died and whose run nobody has taken over yet.
        """
        me = ProcessIdentity.current()
        here = (me.host, me.boot_id, self._claimant.device)
        columns = (schema.leases.c.host, schema.leases.c.boot_id, schema.leases.c.device)
        found = read_leases(connection, None, *map(operator.eq, columns, here))
        return max(len(live_leases(found)), 1)

    def _fenced(self, work: Callable[[Connection], Result], **changed: Any) -> Result:  # noqa: ANN401
        """Do work in a transaction that first makes sure that the token is current.

        Args:
            work: What to do.
            **changed: New values of the run's row, whose lock keeps others from taking over.
        """
        table = schema.runs

        def fenced(connection: Connection) -> Result:
            held = table.update().where(self._held(table))
            found = connection.execute(held.values(token=self.claim.token, **changed))
            self._require(found.rowcount == 1)
            return work(connection)

        return self.store.write(fenced)

    def _row(self, table: sqlalchemy.Table) -> sqlalchemy.ColumnElement[bool]:
        return run_row(table, self._study_id, self.claim.key)

    def _held(self, table: sqlalchemy.Table) -> sqlalchemy.ColumnElement[bool]:
        return self._row(table) & (table.c.token == self.claim.token)

    def _require(self, held: bool) -> None:
        if not held:
            raise LeaseLostError(
                f"{self.claim.key} must be held to be written, but another worker has taken it "
                "over, or it was given up with its trial; its results here are void"
            )
