"""Signs of life of this worker: one row, which its own transactions keep current."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

from sqlalchemy import Connection

from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.store import schema
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.holders import Sign
from fastrcaps_search.store.location import RENEWALS
from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.reading import read_workers


class Presence:
    """The row of a worker that lives.

    It stands for nothing: what fails to be written is written with the next sign, and whoever
    works goes by leases alone.

    Args:
        claimant: The worker.
        job: Job of a batch system that it runs in, in words.

    Attributes:
        sign: What it is doing; to be set by its main thread alone.
        device_name: Name of the processor or card; empty while it is unknown.
    """

    def __init__(self, claimant: Claimant, *, job: str | None) -> None:
        self.sign = Sign()
        self.device_name = ""
        self._store = claimant.store
        self._study_id = claimant.study.study_id
        self._every = claimant.lease_seconds / RENEWALS
        self._own = {
            "study_id": self._study_id,
            "nonce": uuid.uuid4().hex,
            "worker": claimant.worker,
            "device": claimant.device,
            "job": None if job is None else schema.storable(job),
            "lease_seconds": claimant.lease_seconds,
            "started_at": schema.now(),
            **asdict(ProcessIdentity.current()),
        }
        self._written: tuple[Sign, float] | None = None
        self._has_ended = False

    @property
    def is_due(self) -> bool:
        """Whether there is something new to say, or nothing was said for a while."""
        if self._written is None:
            return True
        sign, at = self._written
        return sign != self.sign or time.monotonic() - at >= self._every

    def begin(self) -> None:
        """Write the first sign; remove those of workers that are gone."""

        def begin(connection: Connection) -> None:
            table = schema.workers
            found = read_workers(connection, self._study_id)
            gone = [one.nonce for one in found if one.is_known_dead or one.is_forgotten]
            if gone:
                own = table.c.study_id == self._study_id
                connection.execute(table.delete().where(own, table.c.nonce.in_(gone)))
            self.write(connection)

        self._try(begin)

    def beat(self) -> None:
        """Write a sign if one is due; for a worker that holds no run."""
        if self.is_due:
            self._try(self.write)

    def write(self, connection: Connection) -> None:
        """Write a sign in a transaction, as its last statement: two locks in two orders block."""
        if self._has_ended:
            # A renewal in progress, for which nobody waits, would bring the row back.
            return
        sign = self.sign
        awaited = None if sign.awaited is None else schema.storable(sign.awaited)
        changed = {
            **asdict(sign),
            "awaited": awaited,
            "device_name": schema.storable(self.device_name),
            "seen_at": schema.now(),
        }
        schema.insert_or_update(connection, schema.workers, self._own, changed)
        self._written = sign, time.monotonic()

    def end(self) -> None:
        """Remove the row: the worker ends in good order."""
        self._has_ended = True
        table = schema.workers
        own = (table.c.study_id == self._study_id) & (table.c.nonce == self._own["nonce"])
        self._try(lambda connection: connection.execute(table.delete().where(own)))

    def _try(self, work: Callable[[Connection], object]) -> None:
        """Do it once: a worker does not wait for this."""
        with suppress(FastrcapsError):
            self._store.write_once(work)
