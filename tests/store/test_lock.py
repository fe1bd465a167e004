"""The admission lock: whoever dies or falls silent no longer holds it."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from fastrcaps_search.errors import StoreError, StoreUnavailableError
from fastrcaps_search.store.lock import AdmissionLock
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import BEGIN, file_of, line, say

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, Sql

# Says when it is in, and what became of its transaction.
HOLD = (
    BEGIN
    + """
from sqlalchemy import text
from fastrcaps_search.store.lock import AdmissionLock
store = Store.writing(location)
lock = AdmissionLock(location, store.engine, "tiny", idle_seconds=float(sys.argv[2]))
try:
    with lock.transaction() as connection:
        connection.execute(text("UPDATE fastrcaps_studies SET budget = 77"))
        print("in", flush=True)
        input()
except FastrcapsError as error:
    print(type(error).__name__, flush=True)
else:
    print("stored", flush=True)
"""
)


def lock_of(store: Store, *, wait_seconds: float = 10.0) -> AdmissionLock:
    return AdmissionLock(store.location, store.engine, "tiny", wait_seconds=wait_seconds)


def test_a_killed_holder_frees_it_at_once(
    location: Location, store: Store, study: StudyRecord, start_child: ChildStarter, sql: Sql
) -> None:
    holder = start_child(HOLD, location.url, "100")
    assert line(holder) == "in"
    with pytest.raises(StoreUnavailableError), lock_of(store, wait_seconds=0.3).held():
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock_of(store).held():
        assert sql("select budget from fastrcaps_studies") == [(4,)]


def test_the_next_one_gets_it_when_it_is_given_back(
    location: Location, store: Store, start_child: ChildStarter, sql: Sql
) -> None:
    holder = start_child(HOLD, location.url, "100")
    assert line(holder) == "in"
    say(holder)
    with lock_of(store).transaction():
        pass
    assert line(holder) == "stored"
    assert sql("select budget from fastrcaps_studies") == [(77,)]


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_a_server_takes_it_from_one_that_was_stopped_and_what_it_commits_later_is_void(
    location: Location, store: Store, start_child: ChildStarter, sql: Sql
) -> None:
    holder = start_child(HOLD, location.url, "1")
    assert line(holder) == "in"
    os.kill(holder.pid, signal.SIGSTOP)
    with lock_of(store).transaction():
        pass
    os.kill(holder.pid, signal.SIGCONT)
    say(holder)
    assert line(holder) == "StoreUnavailableError"
    assert sql("select budget from fastrcaps_studies") == [(4,)]


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_one_that_holds_it_can_ask_whether_it_does_still(store: Store, sql: Sql) -> None:
    answers: list[str] = []

    def ask(require_lock: Callable[[], None]) -> None:
        try:
            require_lock()
        except SQLAlchemyError:
            answers.append("lost")
        else:
            answers.append("held")

    def ask_before_and_after_the_loss() -> None:
        with lock_of(store).held() as require_lock:
            ask(require_lock)
            sql(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            ask(require_lock)

    with pytest.raises(StoreUnavailableError, match="must answer"):
        ask_before_and_after_the_loss()
    assert answers == ["held", "lost"]


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_studies_of_a_server_do_not_wait_for_each_other(store: Store) -> None:
    other = AdmissionLock(store.location, store.engine, "other", wait_seconds=0.3)
    with lock_of(store).held(), other.held():
        pass


def test_one_that_holds_it_too_long_is_spoken_of_in_one_line(
    location: Location, store: Store
) -> None:
    with (
        closing(Store.writing(location)) as other,
        lock_of(other).held(),
        pytest.raises(StoreUnavailableError) as error,
        lock_of(store, wait_seconds=0.3).held(),
    ):
        pass
    text = str(error.value)
    assert location.shown in text
    assert "must be free " in text
    assert "suspended" in text
    assert "\n" not in text
    with lock_of(store).held():
        pass


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
class TestLockFile:
    def test_one_that_is_removed_while_it_is_waited_for_lets_no_two_in(
        self, location: Location, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = lock_file(location)
        lock_now = fcntl.flock
        calls = 0

        def removed_before(file: Any, operation: int) -> None:  # noqa: ANN401  # as fcntl's
            nonlocal calls
            calls += 1
            if calls == 1:
                path.rename(path.with_name("removed.lock"))
                path.touch()
                lock_now(other.enter_context(path.open("a")), fcntl.LOCK_EX)
            lock_now(file, operation)

        monkeypatch.setattr("fastrcaps_search.store.lock.fcntl.flock", removed_before)
        with (
            ExitStack() as other,
            pytest.raises(StoreUnavailableError, match=r"must be free within 0\.3 s"),
            lock_of(store, wait_seconds=0.3).held(),
        ):
            pytest.fail("two are in")
        assert calls > 1
        with lock_of(store).held():
            pass

    def test_one_on_a_disk_without_locks_is_refused_in_one_line(
        self, location: Location, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(file: Any, operation: int) -> None:  # noqa: ANN401  # as fcntl's
            raise OSError(37, "No locks available")

        monkeypatch.setattr("fastrcaps_search.store.lock.fcntl.flock", refused)
        with (
            pytest.raises(StoreError, match="knows file locks, got: No locks available; name"),
            lock_of(store).held(),
        ):
            pytest.fail("in without a lock")


def lock_file(location: Location) -> Path:
    return file_of(location).with_name("fastrcaps.db.lock")
