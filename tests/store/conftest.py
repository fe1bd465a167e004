"""A tiny study in a database of its own, and workers that claim without training."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import optuna
import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store import workers

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

QueueMaker = Callable[..., TrialQueue]
ChildStarter = Callable[..., subprocess.Popen[str]]
OptunaOpener = Callable[[], optuna.storages.RDBStorage]
Sql = Callable[[str], list[tuple[Any, ...]]]

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def definition() -> StudyDefinition:
    """A search of 5 x 2 constant and adapting policies of LeNet5: 4 + 4 x 2 + 2 = 14 choices."""
    return StudyDefinition.from_dict(
        {
            "name": "tiny",
            "network": "lenet5",
            "data_set": "mnist-mini",
            "epochs": 2,
            "boundaries": [1],
            "train_images": 64,
            "space": {"adabatch_exponent": [2, 3]},
        }
    )


@pytest.fixture(params=DATABASES)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """Where the database will be; every test that asks for it runs on both.

    Those of one database alone are marked with
    ``pytest.mark.parametrize("location", ["sqlite"], indirect=True)``.
    """
    if request.param == "sqlite":
        return locate(str(tmp_path / "fastrcaps.db"))
    url: str = request.getfixturevalue("postgres_url")
    return locate(url, files=str(tmp_path / "files"))


@pytest.fixture
def sql(location: Location, request: pytest.FixtureRequest) -> Sql:
    """Runs SQL in the database, past the store; the rows of the last statement on a server."""

    def on_file(text: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(workers.file_of(location))) as connection:
            if text.lstrip()[:6].lower() == "select":
                return connection.execute(text).fetchall()
            connection.executescript(text)
            return []

    if location.path is not None:
        return on_file
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url: str = request.getfixturevalue("postgres_url")
    return lambda text: server.run_sql(url, text)


@pytest.fixture
def clock(sql: Sql) -> workers.Clock:
    """Moves the times of the leases."""
    return workers.Clock(sql)


@pytest.fixture(scope="session")
def entered_file(definition: StudyDefinition, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database to be copied, with the study and a budget of 4."""
    location = locate(str(tmp_path_factory.mktemp("entered") / "fastrcaps.db"))
    enter_study(location, definition, seed=None, budget=4)
    return workers.file_of(location)


@pytest.fixture(scope="session")
def entered_database(definition: StudyDefinition, postgres_server: PostgresServer) -> str:
    """The same on the server: its name."""
    url = postgres_server.new_database()
    enter_study(locate(url), definition, seed=None, budget=4)
    return urlsplit(url).path[1:]


@pytest.fixture
def study(location: Location, request: pytest.FixtureRequest) -> StudyRecord:
    """The study, stored, with a budget of 4: a copy, for entering takes half a second."""
    if location.path is not None:
        shutil.copy(request.getfixturevalue("entered_file"), location.path)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url: str = request.getfixturevalue("postgres_url")
        server.drop_database(url)
        name, original = urlsplit(url).path[1:], request.getfixturevalue("entered_database")
        server.run_sql(server.url, f"CREATE DATABASE {name} TEMPLATE {original}")
    with closing(Store.reading(location)) as store:
        return store.study("tiny")


@pytest.fixture
def store(location: Location, study: StudyRecord) -> Iterator[Store]:
    """The store, open for writing."""
    opened = Store.writing(location)
    yield opened
    opened.close()


@pytest.fixture
def make_queue(store: Store, study: StudyRecord) -> QueueMaker:
    """Makes queues of the study, each of a worker of its own."""

    def make(
        worker: str = "w0",
        *,
        device: str = "cpu",
        of: StudyRecord | None = None,
        at: Store | None = None,
        **more: Any,  # noqa: ANN401  # the claimant's own
    ) -> TrialQueue:
        claimant = Claimant(
            store=at or store, study=of or study, worker=worker, device=device, **more
        )
        return TrialQueue(claimant, propose)

    return make


@pytest.fixture
def start_child() -> Iterator[ChildStarter]:
    """Starts processes as ``workers.child``; those that still run at the end are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: Any, **more: Any) -> subprocess.Popen[str]:  # noqa: ANN401
        process = workers.child(*arguments, **more)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def open_optuna(location: Location) -> Iterator[OptunaOpener]:
    """Opens Optuna's storage in the database as another program does; closed at the end."""
    opened: list[optuna.storages.RDBStorage] = []

    def open_one() -> optuna.storages.RDBStorage:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        opened.append(optuna.storages.RDBStorage(location.url))
        return opened[-1]

    yield open_one
    for storage in opened:
        storage.scoped_session.remove()
        storage.engine.dispose()
