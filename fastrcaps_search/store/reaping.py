"""Taking trials from workers that are lost; the admission lock must be held."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, exists, select

from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.failures import failure_values
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.lease import identity
from fastrcaps_search.store.reading import read_leases
from fastrcaps_search.store.records import Failure, TrialState

MOST_DEATHS = 10
"""Workers in a row that may die in one epoch of a trial before it counts as its own fault."""


def reap(connection: Connection, study_id: int) -> set[int]:
    """Remove the leases of lost workers; the numbers of the trials still held."""
    held = set()
    table = schema.leases
    for lease in read_leases(connection, study_id):
        key = (
            (table.c.study_id == study_id)
            & (table.c.number == lease.number)
            & (table.c.token == lease.token)
        )
        if identity(lease).is_known_dead:
            connection.execute(table.delete().where(key))
            _note_death(connection, study_id, lease)
        elif lease.is_lost:
            connection.execute(table.delete().where(key))
        else:
            held.add(lease.number)
            suspected = lease.suspected_seconds
            # A suspicion from the future is one from before the clock was set back.
            if lease.is_silent and (suspected is None or suspected < 0):
                connection.execute(table.update().where(key).values(suspected_at=now()))
    return held


def _note_death(connection: Connection, study_id: int, lease: LeaseRecord) -> None:
    """Count a worker that died while it trained; end a training that kills them one by one."""
    table, runs = schema.trials, schema.runs
    key = (table.c.study_id == study_id) & (table.c.number == lease.number)
    # A complete trial is being repeated while it has a run that has not ended.
    repeated = (
        (runs.c.study_id == study_id)
        & (runs.c.number == lease.number)
        & runs.c.accuracy.is_(None)
        & runs.c.failure.is_(None)
    )
    state = connection.scalar(select(table.c.state).where(key))
    is_repeat = state == TrialState.COMPLETE and connection.scalar(select(exists(repeated)))
    if state != TrialState.RUNNING and not is_repeat:
        return
    connection.execute(table.update().where(key).values(deaths=table.c.deaths + 1))
    deaths = connection.scalar(select(table.c.deaths).where(key)) or 0
    if deaths < MOST_DEATHS:
        return
    failure = Failure(
        "workers died",
        f"{deaths} workers in a row died in an epoch of this trial, maybe for want of memory",
        f"the last one was {lease.worker}, process {lease.pid} on {lease.host_name}",
        "",
    )
    # The next token, in case that one of them is not dead after all.
    ended: dict[str, Any] = {"token": table.c.token + 1, "deaths": 0}
    if is_repeat:
        # The trial keeps the values that it has.
        connection.execute(runs.update().where(repeated).values(failure=failure.message))
    else:
        ended |= {"state": str(TrialState.FAILED), "finished_at": now(), **failure_values(failure)}
    connection.execute(table.update().where(key).values(**ended))
