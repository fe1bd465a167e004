"""Through a real pgbouncer, whose connections to the server are those of all its clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import text

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StoreError, WrongStoreError
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from tests.store.workers import METRICS, SETTING, claimed, complete, queue_of

if TYPE_CHECKING:
    from tests.pgbouncer import PgBouncer

# What this package sets for its transactions, and what the driver leaves with a session.
STATE = """
SELECT current_setting('default_transaction_read_only'), current_setting('lock_timeout'),
       current_setting('idle_in_transaction_session_timeout'), current_setting('TimeZone'),
       (SELECT count(*) FROM pg_prepared_statements),
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')
"""
CLEAN = ("off", "0", "0", "UTC", 0, 0)


@pytest.fixture(scope="module")
def pooler(make_pgbouncer: Callable[..., PgBouncer]) -> Iterator[PgBouncer]:
    """In transaction mode."""
    with make_pgbouncer() as started:
        yield started


def test_nothing_stays_on_sessions_that_others_get_next(
    pooler: PgBouncer, postgres_url: str, definition: StudyDefinition
) -> None:
    location = locate(pooler.url(postgres_url))
    with psycopg.connect(pooler.url(postgres_url), autocommit=True, prepare_threshold=None) as to:
        to.execute("SET TimeZone = 'UTC'")
        to.execute("CREATE SCHEMA app CREATE TABLE written (n int)")
        numbers = itertools.count(1)

        def others_work() -> None:
            to.execute(f"INSERT INTO app.written VALUES ({next(numbers)})")
            assert to.execute(STATE).fetchone() == CLEAN

        study = enter_study(location, definition, seed=None, budget=4)
        others_work()
        with (
            closing(Store.writing(location)) as store,
            closing(OptunaExport(store, study.name)) as export,
            closing(Store.reading(location)) as reading,
        ):
            # The driver prepares what it has sent five times, unless it is told not to.
            for _ in range(4):
                claim = claimed(queue_of(store, study))
                others_work()
                lease = RunLease(store, claim)
                lease.begin(SETTING, fresh=True)
                lease.store_epoch(METRICS, setting=SETTING)
                assert lease.renew()
                others_work()
                reading.snapshot("tiny", epochs=True)
                others_work()
                complete(store, claim)
                assert export.add()
                others_work()
            with pytest.raises(StoreError, match="in a read-only transaction"):
                reading.read(lambda on: on.execute(text("DELETE FROM app.written")))
            others_work()
        assert to.execute("SELECT count(*) FROM app.written").fetchone() == (next(numbers) - 1,)


@pytest.mark.parametrize("variable", [True, False])
def test_settings_that_it_refuses_are_refused_at_once(
    variable: bool,
    pooler: PgBouncer,
    postgres_url: str,
    definition: StudyDefinition,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = pooler.url(postgres_url)
    if variable:
        monkeypatch.setenv("PGOPTIONS", "-c search_path=public")
    else:
        url += "?options=-c%20search_path%3Dpublic"
    for attempt in attempts(url, definition):
        with pytest.raises(WrongStoreError) as error:
            attempt()
        line = str(error.value)
        assert line.endswith(
            "unsupported startup parameter: options; change that, or leave out options (of the "
            "URL or PGOPTIONS) that it refuses"
        )
        assert "\n" not in line


def test_a_pooler_that_takes_no_transactions_is_refused_at_once(
    make_pgbouncer: Callable[..., PgBouncer], postgres_url: str, definition: StudyDefinition
) -> None:
    with make_pgbouncer(mode="statement") as pooler:
        for attempt in attempts(pooler.url(postgres_url), definition):
            with pytest.raises(WrongStoreError, match="must be pooled by transaction or session"):
                attempt()


def attempts(url: str, definition: StudyDefinition) -> list[Callable[[], object]]:
    """All that opens a database."""
    location = locate(url)
    return [
        lambda: Store.reading(location),
        lambda: Store.writing(location),
        lambda: enter_study(location, definition, seed=None, budget=1),
    ]
