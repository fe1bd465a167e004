"""Clients with other time zones and other clocks: only the database's clock counts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import optuna
import pytest
from sqlalchemy import Engine

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.engine import BUSY_SECONDS, IDLE_SECONDS, reading_engine
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import BEGIN, claimed, complete, line, say

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, OptunaOpener, QueueMaker, Sql

LEASE_SECONDS = 300.0

# Prints how old the first lease is and which trial it is given; ends and exports that trial when
# asked to.
LOOK_AND_CLAIM = (
    BEGIN
    + """
from fastrcaps_search.search.optuna_export import OptunaExport
store = Store.writing(location)
queue = queue_of(store, "child", lease_seconds=300.0)
study = store.study("tiny")
ages = [lease.silent_seconds for lease in store.leases(study) if lease.number == 0]
claim = queue.claim_next()
print(json.dumps([time.time(), ages[0] if ages else None, claim.key.number]), flush=True)
input()
RunLease(store, claim).finish(RunResult(0.5, 1.0, 10, 1))
OptunaExport(store, "tiny").add()
print("stored", flush=True)
"""
)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_another_time_zone_changes_no_age(
    zone: str,
    location: Location,
    make_queue: QueueMaker,
    store: Store,
    study: StudyRecord,
    start_child: ChildStarter,
    open_optuna: OptunaOpener,
    sql: Sql,
) -> None:
    first = claimed(make_queue(lease_seconds=LEASE_SECONDS))
    assert first.key.number == 0
    sql("update fastrcaps_leases set renewed_at = renewed_at - 100")
    began = time.monotonic()
    child = start_child(
        LOOK_AND_CLAIM, location.url, environment=os.environ | {"TZ": zone, "PGTZ": zone}
    )
    _, age, number = json.loads(line(child))
    assert 100 <= age <= 100 + (time.monotonic() - began) + 1
    assert number == 1
    # What it wrote is as old for us as it is.
    assert claimed(make_queue("w2", lease_seconds=LEASE_SECONDS)).key.number == 2
    theirs = next(lease for lease in store.leases(study) if lease.number == 1)
    assert 0 <= theirs.silent_seconds <= (time.monotonic() - began) + 1
    assert theirs.suspected_seconds is None
    complete(store, first)
    say(child)
    assert line(child) == "stored"
    mirrored = optuna.load_study(study_name="tiny", storage=open_optuna()).trials[1]
    assert mirrored.duration is not None
    assert 0 <= mirrored.duration.total_seconds() < 60


# An SQLite file has no clock but that of the machine.
@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
@pytest.mark.parametrize("ahead", [5 * 3600, -5 * 3600])
def test_another_clock_changes_no_time(
    ahead: int,
    location: Location,
    make_queue: QueueMaker,
    store: Store,
    study: StudyRecord,
    start_child: ChildStarter,
    open_optuna: OptunaOpener,
    another_clock: Callable[[int], dict[str, str]],
    sql: Sql,
) -> None:
    began = time.time()
    first = claimed(make_queue(lease_seconds=LEASE_SECONDS))
    assert first.key.number == 0
    child = start_child(LOOK_AND_CLAIM, location.url, environment=another_clock(ahead))
    theirs, age, number = json.loads(line(child))
    assert theirs - time.time() == pytest.approx(ahead, abs=60)
    # Neither takes the other for lost.
    assert 0 <= age < 60
    assert number == 1
    assert claimed(make_queue("w2", lease_seconds=LEASE_SECONDS)).key.number == 2
    assert {lease.suspected_seconds for lease in store.leases(study)} == {None}
    claims = sql("select claimed_at, renewed_at from fastrcaps_leases where number = 1")
    complete(store, first)
    say(child)
    assert line(child) == "stored"
    assert child.wait() == 0
    trial = store.trials(study)[1]
    assert trial.finished_at is not None
    assert trial.finished_at >= trial.created_at
    for moment in (*claims[0], trial.created_at, trial.finished_at):
        assert began - 1 <= moment <= time.time() + 1
    mirrored = optuna.load_study(study_name="tiny", storage=open_optuna()).trials[1]
    assert mirrored.datetime_start is not None
    assert mirrored.datetime_complete is not None
    assert mirrored.datetime_start.timestamp() == pytest.approx(trial.created_at, abs=1)
    assert mirrored.datetime_complete.timestamp() == pytest.approx(trial.finished_at, abs=1)
    assert mirrored.datetime_complete >= mirrored.datetime_start


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_a_study_is_created_on_the_servers_clock(
    location: Location,
    definition: StudyDefinition,
    start_child: ChildStarter,
    another_clock: Callable[[int], dict[str, str]],
) -> None:
    child = start_child(ENTER, location.url, environment=another_clock(5 * 3600))
    assert child.wait() == 0
    with closing(Store.reading(location)) as store:
        assert store.study("mnist").created_at == pytest.approx(time.time(), abs=60)


ENTER = """
import sys
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import locate

definition = StudyDefinition.from_dict({"name": "mnist"})
enter_study(locate(sys.argv[1]), definition, seed=None, budget=1)
"""


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
class TestConnections:
    """Settings of every connection to a server, whatever the client's environment says."""

    @pytest.fixture(autouse=True)
    def _elsewhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PGTZ", "Asia/Tokyo")
        monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=7s")

    def settings(self, engine: Engine) -> list[str]:
        names = ("TimeZone", "lock_timeout", "idle_in_transaction_session_timeout")
        with engine.connect() as connection:
            first = [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]
            connection.rollback()
            again = [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]
        assert first == again
        return first

    def lose_all(self, sql: Sql) -> None:
        """End all connections, as a restart of the server does."""
        assert sql(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )

    def test_ours_and_the_exports_keep_them_after_a_rollback_and_when_made_anew(
        self, store: Store, study: StudyRecord, sql: Sql
    ) -> None:
        assert (BUSY_SECONDS, IDLE_SECONDS) == (20, 15)
        with closing(OptunaExport(store, "tiny")) as export:
            assert export.add()
            assert export._storage is not None
            for engine in (store.engine, export._storage.engine):
                assert self.settings(engine) == ["UTC", "20s", "15s"]
            with store.engine.connect(), store.engine.connect() as second:
                assert second.exec_driver_sql("SHOW TimeZone").scalar_one() == "UTC"
            self.lose_all(sql)
            for engine in (store.engine, export._storage.engine):
                assert self.settings(engine) == ["UTC", "20s", "15s"]

    def test_those_that_only_read_cannot_write(
        self, location: Location, store: Store, sql: Sql
    ) -> None:
        engine = reading_engine(location)
        try:
            assert self.settings(engine)[0] == "UTC"
            self.lose_all(sql)
            assert self.settings(engine)[0] == "UTC"
            with engine.connect() as connection:
                shown = connection.exec_driver_sql("SHOW transaction_read_only")
                assert shown.scalar_one() == "on"
        finally:
            engine.dispose()

    def test_nothing_is_left_in_a_session_that_a_pooler_may_give_to_others(
        self, location: Location, store: Store
    ) -> None:
        reading = reading_engine(location)
        try:
            for engine in (store.engine, reading):
                with engine.connect() as connection:
                    connection.exec_driver_sql("SELECT 1")
                    connection.commit()
                    driver = connection.connection.dbapi_connection
                    assert driver is not None
                    driver.autocommit = True
                    names = ("lock_timeout", "default_transaction_read_only")
                    found = [driver.execute(f"SHOW {name}").fetchone()[0] for name in names]
                    prepared = driver.execute("SELECT count(*) FROM pg_prepared_statements")
                    assert (found, prepared.fetchone()[0]) == (["7s", "off"], 0)
                    driver.autocommit = False
        finally:
            reading.dispose()

    def test_the_times_of_a_trial_are_those_of_the_server(
        self, store: Store, study: StudyRecord, make_queue: QueueMaker
    ) -> None:
        queue = make_queue()
        began = time.time()
        complete(store, claimed(queue))
        (trial,) = store.trials(study)
        assert trial.finished_at is not None
        assert began - 1 <= trial.created_at <= trial.finished_at <= time.time() + 1
        assert claimed(queue).key.number == 1
