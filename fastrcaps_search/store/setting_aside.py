"""Taking a trial off the front by hand, and back: who, why and when is stored beside it."""

from __future__ import annotations

import getpass
import os
import platform

from sqlalchemy import Connection

from fastrcaps_search.definition.checks import shortened, shown
from fastrcaps_search.errors import UsageError
from fastrcaps_search.store import schema
from fastrcaps_search.store.reading import read_trials
from fastrcaps_search.store.records import StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

LONGEST_WHY = 200
"""Characters of a reason."""


def exclude(store: Store, study: StudyRecord, number: int, *, why: str) -> None:
    """Set a complete trial aside: it leaves the front and all that goes by it.

    Workers see it the next time that they ask for something to do. The reason of a trial that is
    set aside already is replaced.

    Raises:
        UsageError: No such trial, one that is not complete, or not a reason of one line.
    """
    _require_reason(why)
    values = {"set_aside_by": _user(), "set_aside_host": shortened(platform.node())}

    def write(connection: Connection) -> None:
        trial = _found(connection, study, number)
        if trial.state is not TrialState.COMPLETE:
            raise UsageError(
                f"a trial must be complete to be excluded, but trial {number} of {study.name} is "
                f"{trial.state}; only complete ones are on a front"
            )
        _update(connection, study, number, **values, set_aside_why=why, set_aside_at=schema.now())

    store.write(write)


def include(store: Store, study: StudyRecord, number: int) -> None:
    """Take a trial back that was set aside.

    Raises:
        UsageError: No such trial, or one that is not set aside.
    """

    def write(connection: Connection) -> None:
        if _found(connection, study, number).set_aside is None:
            raise UsageError(
                f"a trial must have been excluded to be included, but trial {number} of "
                f"{study.name} was not; `fastrcaps-search trials --study {study.name}` lists them"
            )
        names = ("by", "host", "why", "at")
        _update(connection, study, number, **{f"set_aside_{name}": None for name in names})

    store.write(write)


def _require_reason(why: str) -> None:
    if not isinstance(why, str) or not why.strip() or not why.isprintable():
        raise UsageError(
            f"why must be a reason in one line of printable characters, got {shown(why)}"
        )
    if len(why) > LONGEST_WHY:
        raise UsageError(
            f"why must have at most {LONGEST_WHY} characters, got {len(why)}; shorten it"
        )


def _user() -> str:
    try:
        return shortened(getpass.getuser())
    except (KeyError, OSError):
        # A container may have no name for its user.
        return f"user {os.getuid()}"


def _found(connection: Connection, study: StudyRecord, number: int) -> TrialRecord:
    is_number = isinstance(number, int) and 0 <= number < 2**31
    found = read_trials(connection, study, number=number) if is_number else []
    if not found:
        raise UsageError(
            f"the trial must be one of {study.name}, got {shown(number)}; "
            f"`fastrcaps-search trials --study {study.name}` lists them"
        )
    return found[0]


def _update(connection: Connection, study: StudyRecord, number: int, **values: object) -> None:
    table = schema.trials
    key = (table.c.study_id == study.study_id) & (table.c.number == number)
    connection.execute(table.update().where(key).values(**values))
