"""Which networks of a study are no longer wanted; said in the store before a file is removed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.summary import front_numbers
from fastrcaps_search.analysis.uncertainty import near_front_numbers
from fastrcaps_search.store import schema
from fastrcaps_search.store.reading import read_leases, read_trials
from fastrcaps_search.store.records import StudyRecord, TrialRecord
from fastrcaps_search.store.store import Store


def give_up_networks(store: Store, study: StudyRecord) -> list[tuple[int, int]]:
    """Mark the networks of trials that have ended, are not held, and are well behind the front.

    A trial behind the front comes to it when repeats change values, and when a trial that beats it
    is set aside by hand: those near the front keep their networks, and those of the next front
    behind them, too. More may come at once, whose networks are gone (:func:`without_network`). A
    trial that was set aside keeps its own: it may be taken back.

    Returns:
        Number and token of each such trial, those marked before included. Files of later claims
        belong to whoever has claimed the trial since.
    """

    def give_up(connection: Connection) -> list[tuple[int, int]]:
        trials = estimated(read_trials(connection, study), study=study)
        kept = _wanted(trials)
        kept |= {lease.number for lease in read_leases(connection, study.study_id)}
        given_up = [t for t in trials if t.is_finished and t.number not in kept]
        return [
            (trial.number, trial.token)
            for trial in given_up
            if all(run.removed for run in trial.results) or _mark(connection, study, trial)
        ]

    return store.do(give_up)


def without_network(trials: Sequence[TrialRecord]) -> list[int]:
    """Numbers of the trials on the front that have no network any more."""
    by_number = {trial.number: trial for trial in trials}
    front = [by_number[number] for number in front_numbers(trials)]
    return sorted(
        trial.number
        for trial in front
        if trial.results and all(run.removed for run in trial.results)
    )


def _wanted(trials: Sequence[TrialRecord]) -> set[int]:
    wanted = set(near_front_numbers(trials))
    wanted |= {trial.number for trial in trials if trial.set_aside is not None}
    return wanted.union(front_numbers([t for t in trials if t.number not in wanted]))


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
