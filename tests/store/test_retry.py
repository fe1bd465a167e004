"""Outages that are borne, of real databases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from sqlalchemy import Connection, text

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    DiskError,
    FastrcapsError,
    InterruptedRunError,
    StoreUnavailableError,
)
from fastrcaps_search.store import engine as engine_module
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, line, say, until

if TYPE_CHECKING:
    from tests.postgres import PostgresServer
    from tests.store.conftest import ChildStarter, QueueMaker, Sql

Result = TypeVar("Result")

HOLD_THE_FILE = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))
else:
    input()
connection.execute("COMMIT")
"""


class Heard:
    """What was told of an outage, and work that meets one."""

    def __init__(self) -> None:
        self.lines: list[str | None] = []
        self._pool = ThreadPoolExecutor()

    def __call__(self, reason: str | None) -> None:
        self.lines.append(reason)

    def meanwhile(self, work: Callable[[], Result]) -> Future[Result]:
        """Begin the work in a thread of its own; return when the outage has been spoken of."""
        future = self._pool.submit(work)
        until(lambda: bool(self.lines) or future.done())
        return future

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def heard() -> Iterator[Heard]:
    with closing(Heard()) as found:
        yield found


def count(store: Store) -> None:
    """A piece of work of which it shows how often it was done."""
    store.write(lambda connection: connection.execute(text("UPDATE counted SET n = n + 1")))


def counted(store: Store) -> int:
    return int(
        store.read(
            lambda connection: connection.execute(text("SELECT n FROM counted")).scalar_one()
        )
    )


COUNTED = "create table counted (n int); insert into counted values (0);"


@pytest.fixture(scope="module")
def own_server(
    make_postgres_server: Callable[[], PostgresServer],
) -> Iterator[PostgresServer]:
    """The server of this module alone."""
    with make_postgres_server() as server:
        yield server


class TestServer:
    @pytest.fixture
    def server(self, own_server: PostgresServer) -> Iterator[PostgresServer]:
        """A server to be stopped; it runs again for the next test."""
        yield own_server
        with suppress(RuntimeError):
            own_server.start()

    @pytest.fixture
    def make_store(
        self, server: PostgresServer, definition: StudyDefinition
    ) -> Iterator[Callable[[RetryPolicy], Store]]:
        """Makes stores with the study, and a table of their own to count in."""
        url = server.new_database()
        enter_study(locate(url), definition, seed=None, budget=4)
        server.run_sql(url, COUNTED)
        opened: list[Store] = []

        def make(patience: RetryPolicy) -> Store:
            opened.append(Store.writing(locate(url), patience=patience))
            return opened[-1]

        yield make
        for store in opened:
            store.close()

    def test_the_work_is_done_once_it_is_back(
        self, server: PostgresServer, make_store: Callable[[RetryPolicy], Store], heard: Heard
    ) -> None:
        store = make_store(RetryPolicy(60, tell=heard))
        count(store)
        server.stop("immediate")
        done = heard.meanwhile(lambda: count(store))
        server.start()
        done.result(60)
        assert counted(store) == 2
        reason, back = heard.lines
        assert reason is not None
        assert reason.startswith(f"{store.location.shown} must answer, got: ")
        assert back is None

    def test_a_store_can_be_opened_in_an_outage(
        self, server: PostgresServer, make_store: Callable[[RetryPolicy], Store], heard: Heard
    ) -> None:
        server.stop()
        opened = heard.meanwhile(lambda: make_store(RetryPolicy(60, tell=heard)))
        server.start()
        store = opened.result(60)
        assert store.study_names() == ["tiny"]
        assert [line is None for line in heard.lines] == [False, True]

    def test_without_patience_the_first_refusal_is_final(
        self, server: PostgresServer, make_store: Callable[[RetryPolicy], Store], heard: Heard
    ) -> None:
        from tests.postgres import PASSWORD

        store = make_store(RetryPolicy(0, tell=heard))
        server.stop()
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError) as error:
            count(store)
        assert time.monotonic() - began < 5
        assert heard.lines == []
        assert str(error.value).endswith("; start the server or fix the way to it")
        assert "--store-patience" not in str(error.value)
        # Nor in the trace of what caused it.
        assert PASSWORD not in str(error.value)

    def test_at_its_end_the_line_names_the_database_and_the_option(
        self, server: PostgresServer, make_store: Callable[[RetryPolicy], Store], heard: Heard
    ) -> None:
        from tests.postgres import PASSWORD

        store = make_store(RetryPolicy(2, tell=heard))
        server.stop()
        with pytest.raises(StoreUnavailableError) as error:
            count(store)
        line = str(error.value)
        assert line.startswith(f"{store.location.shown} must answer, got: ")
        assert "waited 2 s for that (--store-patience)" in line
        assert "\n" not in line
        assert PASSWORD not in line
        assert len(heard.lines) == 1
        assert PASSWORD not in str(heard.lines)

    def test_a_request_to_stop_ends_the_waiting(
        self, server: PostgresServer, make_store: Callable[[RetryPolicy], Store], heard: Heard
    ) -> None:
        patience = RetryPolicy(60, tell=heard)
        store = make_store(patience)
        server.stop()
        done = heard.meanwhile(lambda: count(store))
        patience.stop.set()
        with pytest.raises(InterruptedRunError, match="stopped on request while the database"):
            done.result(30)


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
class TestFile:
    @pytest.fixture(autouse=True)
    def _counted(self, sql: Sql, study: StudyRecord) -> None:
        sql(COUNTED)

    def test_a_lock_that_is_held_for_longer_than_an_attempt_is_waited_for(
        self,
        location: Location,
        heard: Heard,
        start_child: ChildStarter,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.3)
        with closing(Store.writing(location, patience=RetryPolicy(60, tell=heard))) as store:
            holder = start_child(HOLD_THE_FILE, str(location.path))
            assert line(holder) == "held"
            done = heard.meanwhile(lambda: count(store))
            say(holder)
            done.result(60)
            assert counted(store) == 1
        reason, back = heard.lines
        assert reason is not None
        assert reason.startswith(f"{location.path} must be free for writing within ")
        assert "database is locked" in reason
        assert back is None

    # The same with an attempt of a moment is tested above.
    @pytest.mark.endurance
    @pytest.mark.slow
    def test_with_the_settings_of_real_workers_more_than_an_attempt_costs_nothing_but_the_wait(
        self, location: Location, heard: Heard, start_child: ChildStarter, make_queue: QueueMaker
    ) -> None:
        with closing(Store.writing(location, patience=RetryPolicy(600, tell=heard))) as store:
            queue = make_queue(at=store)
            held_seconds = engine_module.BUSY_SECONDS + 2
            holder = start_child(HOLD_THE_FILE, str(location.path), str(held_seconds))
            assert line(holder) == "held"
            began = time.monotonic()
            claim = claimed(queue)
            assert time.monotonic() - began >= held_seconds - 1
            assert claim.key.number == 0
            assert len(store.trials(store.study("tiny"))) == 1

    @pytest.fixture
    def small_disk(self, mount_disk: Callable[[int], Path]) -> Path:
        """A file system of 2 MiB for the database alone."""
        return mount_disk(2)

    def test_a_full_disk_is_waited_for_until_there_is_room(
        self, small_disk: Path, definition: StudyDefinition, heard: Heard
    ) -> None:
        location = locate(str(small_disk / "a.db"))
        enter_study(location, definition, seed=None, budget=4)
        filler = small_disk / "filler"
        with closing(Store.writing(location, patience=RetryPolicy(60, tell=heard))) as store:
            store.write(lambda connection: connection.execute(text("CREATE TABLE counted (n, t)")))
            fill(filler)

            def insert(connection: Connection) -> None:
                values = {"text": "x" * 100_000}
                connection.execute(text("INSERT INTO counted VALUES (1, :text)"), values)

            done = heard.meanwhile(lambda: store.write(insert))
            filler.unlink()
            done.result(60)
            assert counted(store) == 1
        reason, back = heard.lines
        assert reason is not None
        assert "the disk must have room for the database, got: database or disk is full" in reason
        assert back is None


def fill(filler: Path) -> None:
    """Take all the room that the disk has left."""
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass


class TestAlone:
    """With refusals that are made up."""

    def refusing(self, times: int, error: FastrcapsError) -> Callable[[], int]:
        attempts = 0

        def attempt() -> int:
            nonlocal attempts
            attempts += 1
            if attempts <= times:
                raise error
            return attempts

        return attempt

    def test_a_short_outage_is_not_spoken_of(self, heard: Heard) -> None:
        assert RetryPolicy(60, tell=heard)(self.refusing(2, StoreUnavailableError("away"))) == 3
        assert heard.lines == []

    def test_the_kind_of_the_error_stays(self) -> None:
        with pytest.raises(DiskError, match=r"^full; waited 0.2 s for that \(--store-patience\)"):
            RetryPolicy(0.2)(self.refusing(1000, DiskError("full")))

    def test_what_does_not_pass_is_not_waited_for(self, heard: Heard) -> None:
        with pytest.raises(FastrcapsError, match=r"^no$"):
            RetryPolicy(60, tell=heard)(self.refusing(1, FastrcapsError("no")))

    def test_asked_to_stop_before_an_outage_it_still_works(self) -> None:
        stopped = RetryPolicy(60)
        stopped.stop.set()
        assert stopped(self.refusing(0, StoreUnavailableError("away"))) == 1
        with pytest.raises(InterruptedRunError, match="away"):
            stopped(self.refusing(1, StoreUnavailableError("away")))
