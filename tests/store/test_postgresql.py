"""Of servers alone: whom they refuse, what they do not hold, and passwords of all kinds."""

from __future__ import annotations

import gc
import itertools
import socket
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest
from sqlalchemy import text

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    ReadOnlyStoreError,
    StoreError,
    StoreUnavailableError,
    WrongStoreError,
)
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import claimed, complete, queue_of

if TYPE_CHECKING:
    from tests.postgres import PostgresServer
    from tests.store.conftest import QueueMaker, Sql


@pytest.fixture
def location(postgres_url: str) -> Location:
    """An empty database of a server alone."""
    return locate(postgres_url)


class TestReader:
    """A role that may connect and read."""

    @pytest.fixture
    def reader(self, postgres_server: PostgresServer, postgres_url: str) -> Location:
        return locate(postgres_server.read_only(postgres_url))

    def test_it_reads_and_writes_nothing(
        self, make_queue: QueueMaker, study: StudyRecord, reader: Location
    ) -> None:
        claimed(make_queue())
        with closing(Store.reading(reader)) as store:
            assert store.study("tiny") == study
            assert [trial.number for trial in store.trials(study, epochs=True)] == [0]
            assert [lease.number for lease in store.leases(study)] == [0]

    def test_all_that_writes_is_refused(
        self, study: StudyRecord, definition: StudyDefinition, reader: Location, sql: Sql
    ) -> None:
        from tests.postgres import READER_PASSWORD

        with (
            closing(Store.writing(reader)) as store,
            closing(OptunaExport(store, study.name)) as export,
        ):
            attempts: list[Callable[[], object]] = [
                queue_of(store, study).claim_next,
                export.add,
                lambda: enter_study(reader, definition, seed=None, budget=9),
            ]
            for attempt in attempts:
                with pytest.raises(ReadOnlyStoreError) as error:
                    attempt()
                line = str(error.value)
                assert line.startswith(f"{reader.shown} must allow this user to read and write")
                assert "permission denied" in line
                assert "\n" not in line
                assert READER_PASSWORD not in line
        assert sql("select budget from fastrcaps_studies") == [(4,)]
        assert sql("select count(*) from fastrcaps_trials") == [(0,)]

    # Optuna's constructor leaves its connection open when it fails.
    @pytest.mark.filterwarnings("ignore::ResourceWarning")
    def test_it_cannot_make_the_tables(
        self, definition: StudyDefinition, reader: Location, sql: Sql
    ) -> None:
        with pytest.raises(ReadOnlyStoreError, match="permission denied for schema public"):
            enter_study(reader, definition, seed=None, budget=9)
        assert sql("select tablename from pg_tables where schemaname = 'public'") == []
        gc.collect()

    def test_a_connection_to_read_writes_nothing_even_where_it_might(
        self, study: StudyRecord, location: Location
    ) -> None:
        change = text("DELETE FROM fastrcaps_studies")
        with closing(Store.reading(location)) as store:
            with pytest.raises(ReadOnlyStoreError, match="in a read-only transaction"):
                store.write(lambda connection: connection.execute(change))
            assert store.study_names() == ["tiny"]


class TestRefusals:
    """One line each, with what to do, without the password, and an exit code."""

    def refused(self, url: str, exit_code: int, definition: StudyDefinition) -> str:
        """What the line says between what must hold and what to do."""
        from tests.postgres import PASSWORD

        location = locate(url)
        attempts: list[Callable[[], object]] = [
            lambda: Store.reading(location),
            lambda: Store.writing(location),
            lambda: enter_study(location, definition, seed=None, budget=1),
        ]
        causes = set()
        for attempt in attempts:
            with pytest.raises(StoreError) as error:
                attempt()
            line = str(error.value)
            assert error.value.exit_code == exit_code
            assert line.startswith(f"{location.shown} must ")
            assert "\n" not in line
            for secret in (PASSWORD, "gue%24s", "gue$s"):
                assert secret not in line
            must, _, rest = line.partition(", got: ")
            assert must
            cause, _, what_to_do = rest.rpartition("; ")
            assert what_to_do
            causes.add(cause)
        (only,) = causes
        return only

    def test_a_wrong_password(self, postgres_url: str, definition: StudyDefinition) -> None:
        from tests.postgres import PASSWORD

        wrong = postgres_url.replace(PASSWORD, "gue%24s")
        assert "password authentication failed" in self.refused(wrong, 2, definition)

    def test_no_password(self, postgres_url: str, definition: StudyDefinition) -> None:
        from tests.postgres import PASSWORD

        without = postgres_url.replace(f":{PASSWORD}", "")
        assert "no password supplied" in self.refused(without, 2, definition)

    def test_an_unknown_user(self, postgres_url: str, definition: StudyDefinition) -> None:
        unknown = postgres_url.replace("owner:", "nobody:")
        assert "authentication failed" in self.refused(unknown, 2, definition)

    def test_an_unknown_database(self, postgres_url: str, definition: StudyDefinition) -> None:
        cause = self.refused(f"{postgres_url}_x", 2, definition)
        assert "does not exist" in cause

    def test_nothing_listens(self, postgres_url: str, definition: StudyDefinition) -> None:
        with socket.socket() as unused:
            # Bound, so that it stays free, but nobody listens.
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            url = postgres_url.replace(f":{urlsplit(postgres_url).port}/", f":{port}/")
            assert "Connection refused" in self.refused(url, 1, definition)
            with pytest.raises(StoreUnavailableError):
                Store.reading(locate(url))

    def test_a_host_without_an_address(
        self, postgres_url: str, definition: StudyDefinition
    ) -> None:
        url = postgres_url.replace("@127.0.0.1:", "@no-such-host.invalid:")
        assert "no-such-host.invalid" in self.refused(url, 1, definition)

    def test_a_database_without_tables(self, location: Location) -> None:
        for attempt in (Store.reading, Store.writing):
            with pytest.raises(WrongStoreError, match="got an empty database; begin one"):
                attempt(location)

    def test_a_database_of_another_program(self, location: Location, sql: Sql) -> None:
        sql("create table recipes (name text)")
        for attempt in (Store.reading, Store.writing):
            with pytest.raises(WrongStoreError, match="got one with the tables recipes; begin"):
                attempt(location)

    def test_an_option_that_the_driver_does_not_know(
        self, postgres_url: str, definition: StudyDefinition
    ) -> None:
        cause = self.refused(f"{postgres_url}?no_such_option=1", 2, definition)
        assert cause == 'invalid connection option "no_such_option"'


ROLES = itertools.count(1)
PASSWORDS = ("p@ss/w:o?r#d&=% +", "{braces} {0}%41{x}", "häß–東京'\"\\")


@pytest.mark.parametrize("password", PASSWORDS)
class TestPasswords:
    @pytest.fixture
    def role(self, password: str, postgres_server: PostgresServer) -> str:
        """A role with the password that may do everything."""
        name, quoted = f"odd_{next(ROLES)}", password.replace("'", "''")
        postgres_server.run_sql(
            postgres_server.url, f"CREATE ROLE {name} SUPERUSER LOGIN PASSWORD '{quoted}'"
        )
        return name

    def test_a_password_may_hold_any_character(
        self,
        password: str,
        role: str,
        location: Location,
        postgres_url: str,
        definition: StudyDefinition,
    ) -> None:
        place = postgres_url.partition("@")[2]
        odd = locate(f"postgresql://{role}:{quote(password, safe='')}@{place}")
        study = enter_study(odd, definition, seed=None, budget=4)
        with (
            closing(Store.writing(odd)) as store,
            closing(OptunaExport(store, study.name)) as export,
        ):
            complete(store, claimed(queue_of(store, study)))
            assert export.add()
            count = store.read(
                lambda connection: connection.execute(
                    text("SELECT current_user, count(*) FROM trials WHERE state = 'COMPLETE'")
                ).one()
            )
        assert tuple(count) == (role, 1)
        assert password in odd.secrets
        assert password not in odd.redacted(f"it was {password}, typed {quote(password, safe='')}")

    def test_a_wrong_one_is_refused_without_it(
        self, password: str, role: str, location: Location, postgres_url: str
    ) -> None:
        place = postgres_url.partition("@")[2]
        typed = quote(f"{password}x", safe="")
        with pytest.raises(WrongStoreError, match="password authentication failed") as error:
            Store.reading(locate(f"postgresql://{role}:{typed}@{place}"))
        assert typed not in str(error.value)
        assert password not in str(error.value)


def test_braces_need_no_percent_signs(
    postgres_server: PostgresServer,
    location: Location,
    postgres_url: str,
    definition: StudyDefinition,
) -> None:
    postgres_server.run_sql(
        postgres_server.url, "CREATE ROLE braces SUPERUSER LOGIN PASSWORD 'a{b}c{0}'"
    )
    place = postgres_url.partition("@")[2]
    odd = locate(f"postgresql://braces:a{{b}}c{{0}}@{place}")
    assert enter_study(odd, definition, seed=None, budget=4).name == "tiny"


@pytest.mark.parametrize(
    "form",
    [
        "postgresql:///{name}?host={folder}&port={port}&user={user}&password={password}",
        "postgresql://{user}:{password}@{quoted}:{port}/{name}",
        "postgresql://{user}:{password}@127.0.0.1:1,127.0.0.1:{port}/{name}",
        "host={folder} port={port} dbname={name} user={user} password={password}",
        "host=localhost port={port} dbname={name} user={user} password={password}",
    ],
)
def test_what_psql_takes_is_understood(
    form: str, postgres_server: PostgresServer, location: Location, study: StudyRecord
) -> None:
    parts, folder = urlsplit(location.url), str(postgres_server.folder)
    typed = form.format(
        name=parts.path[1:],
        folder=folder,
        quoted=quote(folder, safe=""),
        port=parts.port,
        user=parts.username,
        password=parts.password,
    )
    with closing(Store.writing(locate(typed))) as store:
        assert store.study("tiny") == study
