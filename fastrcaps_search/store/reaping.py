"""Taking trials from workers that are lost; the admission lock must be held."""

from __future__ import annotations

from sqlalchemy import Connection, select

from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.lease import failure_values, identity
from fastrcaps_search.store.reading import read_leases
from fastrcaps_search.store.records import Failure, LeaseRecord, TrialState

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
    """Count a worker that died while it trained; end a trial that kills them one by one."""
    table = schema.trials
    key = (
        (table.c.study_id == study_id)
        & (table.c.number == lease.number)
        & (table.c.state == TrialState.RUNNING)
    )
    connection.execute(table.update().where(key).values(deaths=table.c.deaths + 1))
    deaths = connection.scalar(select(table.c.deaths).where(key))
    if deaths is None or deaths < MOST_DEATHS:
        return
    failure = Failure(
        "workers died",
        f"{deaths} workers in a row died in an epoch of this trial, maybe for want of memory",
        f"the last one was {lease.worker}, process {lease.pid} on {lease.host_name}",
        "",
    )
    connection.execute(
        table.update()
        .where(key)
        # The next token, in case that one of them is not dead after all.
        .values(
            state=str(TrialState.FAILED),
            token=table.c.token + 1,
            finished_at=now(),
            **failure_values(failure),
        )
    )
