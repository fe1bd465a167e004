"""Databases of a server that cannot hold every text, and clients that ask for another encoding."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import WrongStoreError
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import Failure, StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, fail, queue_of, trial_of

if TYPE_CHECKING:
    from tests.postgres import PostgresServer
    from tests.store.conftest import Sql

ENCODINGS = ("LATIN1", "SQL_ASCII")
WORDS = "„東京“ fehlt →"


@pytest.fixture
def location(postgres_url: str) -> Location:
    """An empty database of a server alone."""
    return locate(postgres_url)


def refused(attempt: Callable[[], object], location: Location, encoding: str) -> None:
    with pytest.raises(WrongStoreError) as error:
        attempt()
    assert str(error.value) == (
        f"{location.shown} must be encoded in UTF8, to hold every text, got {encoding}; make one "
        "by `createdb --encoding=UTF8 --template=template0 --locale=C NAME` and name it with "
        "--storage"
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_new_study_is_refused_and_no_table_made(
    encoding: str, postgres_server: PostgresServer, definition: StudyDefinition
) -> None:
    url = postgres_server.new_database(encoding)
    location = locate(url)
    refused(lambda: enter_study(location, definition, seed=None, budget=1), location, encoding)
    assert (
        postgres_server.run_sql(url, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []
    )
    postgres_server.drop_database(url)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_stored_study_can_be_read_and_no_worker_joins_it(
    encoding: str,
    postgres_server: PostgresServer,
    postgres_url: str,
    location: Location,
    study: StudyRecord,
    definition: StudyDefinition,
) -> None:
    # Its text is ASCII: the same bytes in each.
    postgres_server.run_sql(
        postgres_server.url,
        f"UPDATE pg_database SET encoding = pg_char_to_encoding('{encoding}') "
        f"WHERE datname = '{urlsplit(postgres_url).path[1:]}'",
    )
    with closing(Store.reading(location)) as store:
        assert store.study("tiny") == study
    with closing(Store.writing(location)) as store:
        refused(queue_of(store, study).claim_next, location, encoding)
    refused(lambda: enter_study(location, definition, seed=None, budget=9), location, encoding)


def test_a_clients_own_encoding_does_not_count(
    location: Location, study: StudyRecord, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    for encoding in (*ENCODINGS, "EUC_JP"):
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
        with closing(Store.writing(location)) as store:
            claim = claimed(queue_of(store, study))
            fail(store, claim, Failure("E", WORDS, "", ""))
            failure = trial_of(store, study, claim.key.number).failure
            assert failure is not None
            assert failure.message == WORDS
    monkeypatch.delenv("PGCLIENTENCODING")
    assert sql("SELECT failure_message FROM fastrcaps_runs") == [(WORDS,)] * 3
