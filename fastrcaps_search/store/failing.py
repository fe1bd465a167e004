"""A trial that fails by one of its runs: the others are given up."""

from __future__ import annotations

from sqlalchemy import Connection, select

from fastrcaps_search.store import schema
from fastrcaps_search.store.clock import now
from fastrcaps_search.store.records import GIVEN_UP, Failure, Purpose, RunKey


def lock_trial(connection: Connection, study_id: int, number: int) -> None:
    """Keep others from failing a trial, or beginning a run of it, until the transaction ends."""
    table = schema.trials
    own = (table.c.study_id == study_id) & (table.c.number == number)
    connection.execute(select(table.c.number).where(own).with_for_update())


def give_up_siblings(connection: Connection, study_id: int, key: RunKey) -> None:
    """End the other runs of a trial that has failed by ``key``; their workers lose them."""
    runs, leases = schema.runs, schema.leases
    beside = (runs.c.study_id == study_id) & (runs.c.number == key.number)
    beside &= (runs.c.run != key.run) & runs.c.finished_at.is_(None)
    failure = Failure(GIVEN_UP, f"given up, as run {key.run} failed", "", "")
    connection.execute(
        runs.update()
        .where(beside)
        .values(token=runs.c.token + 1, finished_at=now(), **schema.failure_columns(failure))
    )
    own = (leases.c.study_id == study_id) & (leases.c.number == key.number)
    connection.execute(
        leases.delete().where(own, leases.c.run != key.run, leases.c.purpose == Purpose.TRAIN)
    )
