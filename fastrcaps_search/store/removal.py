"""Which networks of a study are no longer wanted; said in the store before a file is removed."""

from __future__ import annotations

from sqlalchemy import Connection

from fastrcaps_search.store import schema
from fastrcaps_search.store.estimates import estimated
from fastrcaps_search.store.reading import read_leases, read_trials
from fastrcaps_search.store.records import StudyRecord, TrialRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.summary import front_numbers
from fastrcaps_search.store.sureness import near_front_numbers


def give_up_networks(store: Store, study: StudyRecord) -> list[tuple[int, int]]:
    """Mark the networks of trials that have ended, are not held, and have left the front.

    A trial behind the front comes back to it only when repeats change values: those near it keep
    their networks, and while repeats are planned those of the next front behind it, too. A trial
    that was set aside by hand keeps its own: it may be taken back.

    Returns:
        Number and token of each such trial, those marked before included. Files of later claims
        belong to whoever has claimed the trial since.
    """
    repeats = store.study(study.name).repeats

    def give_up(connection: Connection) -> list[tuple[int, int]]:
        trials = estimated(read_trials(connection, study), study=study)
        kept = _wanted(trials, repeats)
        kept |= {lease.number for lease in read_leases(connection, study.study_id)}
        given_up = [t for t in trials if t.is_finished and t.number not in kept]
        return [
            (trial.number, trial.token)
            for trial in given_up
            if all(run.removed for run in trial.results) or _mark(connection, study, trial)
        ]

    return store.do(give_up)


def _wanted(trials: list[TrialRecord], repeats: int) -> set[int]:
    wanted = set(near_front_numbers(trials))
    wanted |= {trial.number for trial in trials if trial.set_aside is not None}
    if repeats:
        wanted |= set(front_numbers([trial for trial in trials if trial.number not in wanted]))
    return wanted


def _mark(connection: Connection, study: StudyRecord, trial: TrialRecord) -> bool:
    """Mark its runs unless it has been claimed since it was read; whether that was done."""
    trials, runs = schema.trials, schema.runs
    as_read = (trials.c.study_id == study.study_id) & (trials.c.number == trial.number)
    as_read &= trials.c.token == trial.token
    # Locks the row, so that nobody claims the trial meanwhile.
    still = connection.execute(trials.update().where(as_read).values(token=trial.token))
    if still.rowcount != 1:
        return False
    own = (runs.c.study_id == study.study_id) & (runs.c.number == trial.number)
    connection.execute(runs.update().where(own).values(removed=1))
    return True
