"""Planned repeats: which trials are to have more runs, and the writes of the worker that does one.

``run --repeat-front R`` plans them. A repeat is one more run of a complete trial, with the next
seed; what that makes of values is said in ``analysis.estimates``. Optuna, which refuses writes to
a finished trial, keeps its first values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection

from fastrcaps_search.analysis.summary import front_numbers
from fastrcaps_search.analysis.uncertainty import near_front_numbers
from fastrcaps_search.metrics import RunResult, RunSetting
from fastrcaps_search.store import schema
from fastrcaps_search.store.failures import failure_values, storable
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.records import Failure, TrialRecord, TrialState
from fastrcaps_search.store.spreads import VALUE_COLUMNS, mean_values, read_results


def due_repeats(
    trials: Sequence[TrialRecord],
    repeats: int,
    sureness: Mapping[int, float] | None = None,
) -> list[TrialRecord]:
    """Trials that are to have one more run, those with the fewest first, of them the front.

    They are the trials on or near the front that have not had so many runs. Which those are
    changes with every run: a first one tells how far the runs of a trial scatter, and so which
    others may well belong on the front.

    Args:
        trials: All trials of the study.
        repeats: Runs that each is to have in all, runs that failed included; 0 for none planned.
        sureness: Probabilities of being on the front, where they are known.
    """
    if all(len(trial.ended_runs) >= repeats for trial in trials):
        return []
    near = set(near_front_numbers(trials, sureness))
    due = [t for t in trials if t.number in near and len(t.ended_runs) < repeats]
    # After the first repeat the spread is a guess, and half the study may seem near: the front's
    # own second runs tell better.
    front = set(front_numbers(trials))
    return sorted(due, key=lambda t: (len(t.ended_runs), t.number not in front, t.number))


class DueRepeats:
    """Remembers which repeats are due: an idle worker asks twice a second, under the lock."""

    def __init__(self) -> None:
        self._known: tuple[object, list[TrialRecord]] = (None, [])

    def __call__(self, trials: Sequence[TrialRecord], repeats: int) -> list[TrialRecord]:
        """As :func:`due_repeats`."""
        state = (
            repeats,
            [(t.number, t.token, t.state, t.ended_runs, t.infeasible) for t in trials],
        )
        if self._known[0] != state:
            self._known = (state, due_repeats(trials, repeats))
        return self._known[1]


def repeats_left(
    trials: Sequence[TrialRecord],
    repeats: int,
    sureness: Mapping[int, float] | None = None,
) -> int:
    """Runs that are still to be trained, as things stand; arguments as of :func:`due_repeats`."""
    due = due_repeats(trials, repeats, sureness)
    return sum(repeats - len(trial.ended_runs) for trial in due)


def next_run(trial: TrialRecord) -> int:
    """Index of the run that a repeat trains: the first that has not ended."""
    ended = {run.run for run in trial.ended_runs}
    return next(index for index in range(len(ended) + 1) if index not in ended)


class ClaimedRepeat(ClaimedTrial):
    """Writes of a worker that repeats a complete trial; each holds only with the current token."""

    def finish_repeat(self, run: int, result: RunResult) -> None:
        """Store the values of a run, and the trial's as means over all its runs."""

        def finish(connection: Connection) -> None:
            table = schema.runs
            self._store_result(connection, run, result)
            results = read_results(connection, self._key(table))
            self._update_trial(connection, **mean_values(results))

        self._fenced(finish, deaths=0, device_faults=0)

    def fail_repeat(
        self, run: int, *, seed: int, setting: RunSetting, failure: Failure, ends_trial: bool
    ) -> None:
        """Store why a run ended without values: it is not tried again.

        Args:
            run: Index of the run.
            seed: Its seed.
            setting: Where it trained.
            failure: Why.
            ends_trial: Whether the trial fails with it, as it does when any of its runs diverges.
        """
        table = schema.runs
        facts = {"seed": seed, "bit_equal": 1, **asdict(setting)}
        reason = storable(failure.message)

        def fail(connection: Connection) -> None:
            row = {**self._values(), "run": run, **facts}
            schema.insert_unless_there(connection, table, row)
            ended = table.update().where(self._key(table), table.c.run == run)
            connection.execute(ended.values(failure=reason))
            if ends_trial:
                self._update_trial(
                    connection,
                    state=str(TrialState.FAILED),
                    **dict.fromkeys(VALUE_COLUMNS),
                    **failure_values(failure),
                )

        self._fenced(fail, deaths=0, device_faults=0)

    def _update_trial(self, connection: Connection, **values: Any) -> None:  # noqa: ANN401
        table = schema.trials
        still = table.c.state == str(TrialState.COMPLETE)
        connection.execute(table.update().where(self._key(table), still).values(**values))
