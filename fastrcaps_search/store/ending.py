"""What follows when a run ends, and how one ends without its worker.

Its trial may fail and give up the others, or be the first complete one, which fixes the box of the
hypervolume. Lost workers lose their runs, and networks that nobody wants are marked as removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import fsum

from sqlalchemy import ColumnElement, Connection, select

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.store import schema
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.reading import read_trials
from fastrcaps_search.store.records import GIVEN_UP, Failure, Purpose, RunKey, StudyRecord
from fastrcaps_search.store.schema import failure_columns, now, run_row
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

MOST_DEATHS = 10
"""Workers in a row that may die in one epoch of a run before it counts as its own fault."""


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
    _fail(connection, beside, failure)
    own = (leases.c.study_id == study_id) & (leases.c.number == key.number)
    connection.execute(
        leases.delete().where(own, leases.c.run != key.run, leases.c.purpose == Purpose.TRAIN)
    )


def _fail(connection: Connection, which: ColumnElement[bool], failure: Failure) -> None:
    """End runs without their workers; with the next token, for these may be alive."""
    table = schema.runs
    ended = table.update().where(which).values(token=table.c.token + 1, finished_at=now())
    connection.execute(ended.values(**failure_columns(failure)))


@contextmanager
def fix_box(connection: Connection, study: StudyRecord, number: int) -> Iterator[None]:
    """End a run of a trial within; store the study's box where that completes its first trial.

    Args:
        connection: In the transaction that ends the run.
        study: The study.
        number: The trial.
    """
    studies = schema.studies
    one = studies.c.study_id == study.study_id
    is_due = connection.scalar(select(studies.c.box).where(one)) is None
    if is_due:
        # Whoever comes second waits here for the first.
        connection.execute(select(studies.c.uid).where(one).with_for_update())
    yield
    if not is_due:
        return
    (trial,) = read_trials(connection, study, number=number)
    if trial.values is not None:
        seconds = fsum(run.value("training_seconds") for run in trial.results)
        epochs = sum(run.best_epoch or 0 for run in trial.results)
        others = {name: value for name, value in trial.values.items() if name not in COMMON}
        box = Box.of(study.definition, epoch_seconds=seconds / (epochs or 1), others=others)
        fixed = studies.update().where(one, studies.c.box.is_(None))
        connection.execute(fixed.values(box=json.dumps(box.edges)))


def reap(store: Store, study: StudyRecord, held: Sequence[LeaseRecord]) -> bool:
    """Remove the leases of lost workers, and suspect the silent ones; whether anything changed.

    Args:
        store: The store.
        study: The study.
        held: Its leases as they were read; one that was renewed since is left alone.
    """
    table = schema.leases
    found = [(one, one.is_known_dead) for one in sorted(held, key=lambda lease: lease.key)]
    found = [(one, dead) for one, dead in found if dead or one.is_lost or one.is_to_be_suspected]
    if not found:
        return False

    def write(connection: Connection) -> None:
        # In the order of the runs, and the trial first, as whoever fails one does: two locks in
        # two orders would block.
        for lease, dead in found:
            if not dead and not lease.is_lost:
                _suspect(connection, study, lease)
                continue
            lock_trial(connection, study.study_id, lease.number)
            gone = connection.execute(table.delete().where(_as_read(study, lease)))
            if gone.rowcount == 1 and dead and lease.is_training:
                _note_death(connection, study, lease)

    store.write(write)
    return True


def suspect_silent(store: Store, study: StudyRecord, read: Sequence[LeaseRecord]) -> None:
    """Suspect the silent ones of some leases: done by whoever renews a lease of his own.

    Workers that train look for nothing to claim for as long as a run takes. The last third of a
    lost worker's lease would not begin before one of them has ended its run.

    Args:
        store: The store; an outage is not waited for.
        study: The study.
        read: Leases of it.
    """
    for lease in read:
        if lease.is_to_be_suspected and not lease.is_known_dead:
            # Each in a transaction of its own: two locks in two orders would block.
            store.write_once(partial(_suspect, study=study, lease=lease))


def _suspect(connection: Connection, study: StudyRecord, lease: LeaseRecord) -> None:
    """Suspect a lease unless it has been renewed since it was read."""
    suspected = schema.leases.update().where(_as_read(study, lease))
    connection.execute(suspected.values(suspected_at=now()))


def _as_read(study: StudyRecord, lease: LeaseRecord) -> ColumnElement[bool]:
    """The row of a lease, unless it has been renewed since it was read."""
    table = schema.leases
    same = run_row(table, study.study_id, lease.key)
    return same & (table.c.token == lease.token) & (table.c.renewed_at == lease.renewed_at)


def _note_death(connection: Connection, study: StudyRecord, lease: LeaseRecord) -> None:
    """Count a worker that died while it trained; end a training that kills them one by one."""
    table = schema.runs
    row = run_row(table, study.study_id, lease.key) & table.c.finished_at.is_(None)
    counted = table.update().where(row).values(deaths=table.c.deaths + 1)
    deaths = connection.scalar(counted.returning(table.c.deaths)) or 0
    if deaths < MOST_DEATHS:
        return
    failure = Failure(
        "workers died",
        f"{deaths} workers in a row died in an epoch of this run, maybe for want of memory",
        f"the last one was {lease.worker}, process {lease.pid} on {lease.host_name}",
        "",
    )
    _fail(connection, row, failure)
    if lease.run < study.definition.runs_per_trial:
        give_up_siblings(connection, study.study_id, lease.key)


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
