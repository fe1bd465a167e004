"""The lease of whoever adds trials to Optuna's tables: one process of a database at a time."""

from __future__ import annotations

import uuid
from dataclasses import asdict

from sqlalchemy import Connection

from fastrcaps_search.store.clock import now
from fastrcaps_search.store.holders import live_leases
from fastrcaps_search.store.host import ProcessIdentity
from fastrcaps_search.store.place import LEASE_SECONDS
from fastrcaps_search.store.reading import read_leases
from fastrcaps_search.store.schema import insert_unless_there, leases
from fastrcaps_search.store.store import Store

NO_STUDY = 0
"""Stands for the database: studies count from 1."""


class ExportLease:
    """Held by one process at a time; of one that is lost it is taken.

    Args:
        store: The store, open for writing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._nonce = uuid.uuid4().hex
        self._row = leases.c.study_id == NO_STUDY

    def claim(self) -> bool:
        """Hold the lease; ``False`` where another process does."""
        me = ProcessIdentity.current()
        values = {
            **{"study_id": NO_STUDY, "number": 0, "run": 0, "token": 0, "purpose": "export"},
            **{"worker": "", "device": "", "lease_seconds": LEASE_SECONDS, "nonce": self._nonce},
            **{"claimed_at": now(), "renewed_at": now(), **asdict(me)},
        }

        def claim(connection: Connection) -> bool:
            found = read_leases(connection, NO_STUDY)
            # After the clock was set back nobody knows how long one has been silent.
            if not [lease for lease in live_leases(found) if lease.silent_seconds >= 0]:
                old = [lease.renewed_at for lease in found]
                connection.execute(leases.delete().where(self._row, leases.c.renewed_at.in_(old)))
            return insert_unless_there(connection, leases, values) or self._renew(connection)

        return self._store.write(claim)

    def renew(self) -> bool:
        """Hold it for longer; whether it is still held."""
        return self._store.write(self._renew)

    def _renew(self, connection: Connection) -> bool:
        own = leases.update().where(self._row, leases.c.nonce == self._nonce)
        return connection.execute(own.values(renewed_at=now())).rowcount == 1

    def release(self) -> None:
        """Give it back."""
        own = leases.delete().where(self._row, leases.c.nonce == self._nonce)
        self._store.write(lambda connection: connection.execute(own))
