"""How many connections to a server a process has, and what is said where there are too few."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import Connection, text

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StoreUnavailableError
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store import engine
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete, queue_of, until

if TYPE_CHECKING:
    from tests.postgres import PostgresServer
    from tests.store.conftest import Sql

OURS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'fastrcaps-search'"
)


@pytest.fixture
def location(postgres_url: str) -> Location:
    """An empty database of a server alone."""
    return locate(postgres_url)


def test_a_process_keeps_one_while_it_is_busy_and_two_in_the_moment_of_a_renewal(
    store: Store, study: StudyRecord, sql: Sql
) -> None:
    claim = claimed(queue_of(store, study))

    def renew(connection: Connection) -> int:
        assert connection.scalar(text("SELECT 1")) == 1
        assert RunLease(store, claim).renew()
        return int(sql(OURS)[0][0])

    assert store.write(renew) <= 2
    until(lambda: sql(OURS) == [(1,)])


def test_it_has_none_once_it_is_idle(
    location: Location, study: StudyRecord, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(Store.writing(location)) as store,
        closing(OptunaExport(store, study.name)) as export,
    ):
        complete(store, claimed(queue_of(store, study)))
        monkeypatch.setattr(engine, "KEPT_SECONDS", 0.0)
        # The last transaction before it comes long after another one.
        assert export.add()
        until(lambda: sql(OURS) == [(0,)])
        assert len(store.trials(study)) == 1
        until(lambda: sql(OURS) == [(0,)])


def test_too_few_are_told_apart_from_an_outage(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    limited = postgres_server.limited(postgres_url, 1)
    with (
        psycopg.connect(limited),
        pytest.raises(StoreUnavailableError, match="too many connections for role") as error,
    ):
        Store.reading(locate(limited))
    line = str(error.value)
    assert " must have a connection free for each worker and two more, got: " in line
    assert line.endswith("; allow this user more, or start fewer workers")


# Optuna's constructor leaves its connection open when it fails.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_too_few_for_optuna_are_waited_for(
    postgres_server: PostgresServer, postgres_url: str, definition: StudyDefinition
) -> None:
    url = postgres_server.limited(postgres_url, 3)
    location, told = locate(url), list[str | None]()
    study = enter_study(location, definition, seed=None, budget=4)
    with (
        closing(Store.writing(location, patience=RetryPolicy(60, tell=told.append))) as store,
        closing(OptunaExport(store, study.name)) as export,
        ThreadPoolExecutor() as pool,
    ):
        with psycopg.connect(url), psycopg.connect(url):
            with pytest.raises(StoreUnavailableError, match="too many connections for role"):
                export.add()
            added = pool.submit(export.wait_and_add, 60.0)
            until(lambda: bool(told) or added.done())
        assert added.result(60)
    assert told
    gc.collect()
