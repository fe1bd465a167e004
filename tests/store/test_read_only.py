"""Servers that cannot be written for a while: an outage once they could be, else a refusal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import ReadOnlyStoreError, StoreUnavailableError
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete, queue_of, until

if TYPE_CHECKING:
    from tests.postgres import PostgresServer


@pytest.fixture
def location(postgres_url: str) -> Location:
    """An empty database of a server alone."""
    return locate(postgres_url)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


def test_it_is_waited_for_once_this_process_has_written(
    location: Location,
    study: StudyRecord,
    postgres_server: PostgresServer,
    postgres_url: str,
    pool: ThreadPoolExecutor,
) -> None:
    told: list[str | None] = []
    with (
        closing(Store.writing(location, patience=RetryPolicy(60, tell=told.append))) as store,
        closing(OptunaExport(store, study.name)) as export,
    ):
        complete(store, claimed(queue_of(store, study)))
        postgres_server.set_read_only(postgres_url, read_only=True)
        done = pool.submit(claimed, queue_of(store, study))
        until(lambda: bool(told) or done.done())
        added = pool.submit(export.wait_and_add, 60.0)
        # A connection that was made meanwhile stays as it is, unless it is given up.
        name = location.shown.rpartition("/")[2]
        postgres_server.run_sql(
            postgres_server.url, f"ALTER DATABASE {name} RESET default_transaction_read_only"
        )
        assert done.result(60).key.number == 1
        assert added.result(60)
    assert told[0] == (
        f"{location.shown} must be writable, as it was, got: cannot execute SELECT FOR UPDATE in "
        "a read-only transaction; end a switchover to another server, or let this one be written "
        "again"
    )
    assert told[1] is None


def test_without_patience_it_is_an_outage_too(
    location: Location, study: StudyRecord, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with closing(Store.writing(location)) as store:
        claimed(queue_of(store, study))
        postgres_server.set_read_only(postgres_url, read_only=True)
        with pytest.raises(StoreUnavailableError, match="must be writable, as it was"):
            claimed(queue_of(store, study))
        assert [trial.number for trial in store.trials(study)] == [0]


def test_before_it_has_written_it_is_refused_at_once(
    location: Location,
    study: StudyRecord,
    definition: StudyDefinition,
    postgres_server: PostgresServer,
    postgres_url: str,
) -> None:
    postgres_server.set_read_only(postgres_url, read_only=True)
    began = time.monotonic()
    with closing(Store.writing(location, patience=RetryPolicy(60))) as store:
        # Reading is not writing.
        store.snapshot("tiny")
        with pytest.raises(ReadOnlyStoreError, match="must be writable, got: cannot execute"):
            claimed(queue_of(store, study))
    with pytest.raises(ReadOnlyStoreError, match="must be writable, got: cannot execute INSERT"):
        enter_study(location, definition, seed=None, budget=9)
    with (
        closing(Store.reading(location)) as reading,
        pytest.raises(ReadOnlyStoreError, match="cannot execute DELETE"),
    ):
        reading.write(lambda on: on.execute(text("DELETE FROM fastrcaps_studies")))
    assert time.monotonic() - began < 30
