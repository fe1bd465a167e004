"""Saying in the store that networks are no longer wanted, before their files are removed."""

from __future__ import annotations

from sqlalchemy import Connection

from fastrcaps_search.store import schema
from fastrcaps_search.store.records import RunKey, StudyRecord
from fastrcaps_search.store.schema import run_row
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord


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
