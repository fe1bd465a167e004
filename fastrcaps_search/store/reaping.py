"""What is taken from others: runs of lost workers, networks that nobody wants any more."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, select

from fastrcaps_search.store import schema
from fastrcaps_search.store.ending import give_up_siblings, lock_trial
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.records import Failure, RunKey, StudyRecord
from fastrcaps_search.store.schema import failure_columns, run_row
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

MOST_DEATHS = 10
"""Workers in a row that may die in one epoch of a run before it counts as its own fault."""


def reap(store: Store, study_id: int, leases: Sequence[LeaseRecord], *, planned: int) -> bool:
    """Remove the leases of lost workers, and suspect the silent ones; whether anything changed.

    Args:
        store: The store.
        study_id: The study.
        leases: Its leases as they were read; one that was renewed since is left alone.
        planned: Runs that each trial has before it is complete.
    """
    table = schema.leases
    found = [(one, one.is_known_dead) for one in sorted(leases, key=lambda lease: lease.key)]
    found = [(one, dead) for one, dead in found if dead or one.is_lost or _is_new_suspect(one)]
    if not found:
        return False

    def write(connection: Connection) -> None:
        # In the order of the runs, and the trial first, as whoever fails one does: two locks in
        # two orders would block.
        for lease, dead in found:
            as_read = _as_read(study_id, lease)
            if not dead and not lease.is_lost:
                connection.execute(table.update().where(as_read).values(suspected_at=schema.now()))
                continue
            lock_trial(connection, study_id, lease.number)
            gone = connection.execute(table.delete().where(as_read))
            if gone.rowcount == 1 and dead and lease.is_training:
                _note_death(connection, study_id, lease, planned=planned)

    store.write(write)
    return True


def _is_new_suspect(lease: LeaseRecord) -> bool:
    # A suspicion from the future is one from before the clock was set back.
    suspected = lease.suspected_seconds
    return lease.is_silent and (suspected is None or suspected < 0)


def _as_read(study_id: int, lease: LeaseRecord) -> ColumnElement[bool]:
    """The row of a lease that nobody has renewed or taken since."""
    table = schema.leases
    return (
        run_row(table, study_id, lease.key)
        & (table.c.token == lease.token)
        & (table.c.renewed_at == lease.renewed_at)
    )


def _note_death(
    connection: Connection, study_id: int, lease: LeaseRecord, *, planned: int
) -> None:
    """Count a worker that died while it trained; end a training that kills them one by one."""
    table = schema.runs
    row = run_row(table, study_id, lease.key) & table.c.finished_at.is_(None)
    lock_trial(connection, study_id, lease.number)
    connection.execute(table.update().where(row).values(deaths=table.c.deaths + 1))
    deaths = connection.scalar(select(table.c.deaths).where(row)) or 0
    if deaths < MOST_DEATHS:
        return
    failure = Failure(
        "workers died",
        f"{deaths} workers in a row died in an epoch of this run, maybe for want of memory",
        f"the last one was {lease.worker}, process {lease.pid} on {lease.host_name}",
        "",
    )
    # The next token, in case that one of them is not dead after all.
    ended = table.update().where(row).values(token=table.c.token + 1, finished_at=schema.now())
    connection.execute(ended.values(**failure_columns(failure)))
    if lease.run < planned:
        give_up_siblings(connection, study_id, lease.key)


def mark_removed(store: Store, study: StudyRecord, trial: TrialRecord) -> bool:
    """Mark the networks of a trial as removed; whether they are.

    Not where one of its runs has been claimed since it was read.
    """
    table = schema.runs

    def mark(connection: Connection) -> bool:
        for run in trial.runs:
            row = run_row(table, study.study_id, RunKey(trial.number, run.run))
            as_read = table.update().where(row, table.c.token == run.token)
            if connection.execute(as_read.values(removed=1)).rowcount != 1:
                connection.rollback()
                return False
        return True

    return store.write(mark)
