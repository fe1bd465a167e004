"""SQLite on disks that refuse it: at first, which is final, and later, which is an outage."""

from __future__ import annotations

import errno
import os
import pwd
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import OperationalError

from fastrcaps_search.errors import StoreError, StoreUnavailableError
from fastrcaps_search.store.db_errors import translated
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.store.workers import line, say

if TYPE_CHECKING:
    from tests.store.conftest import ChildStarter, Sql

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

# Enters the study as a run does, with the patience of ten minutes unless told otherwise.
ENTER = """
import sys
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.store import engine
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from sqlalchemy import text

location, patience = locate(sys.argv[1]), RetryPolicy(float(sys.argv[2]), tell=print)
# A lock that cannot be had is waited for for so long, in each attempt.
engine.BUSY_SECONDS = 0.5
definition = StudyDefinition.from_dict(
    {"name": "tiny", "network": "lenet5", "data_set": "mnist-mini", "epochs": 2,
     "boundaries": [1], "space": {"adabatch_exponent": [2, 3]}}
)
try:
    patience(lambda: enter_study(location, definition, seed=None, budget=4))
except FastrcapsError as error:
    print(f"{type(error).__name__} {error}")
    sys.exit()
"""
READ = """
import sys
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store

try:
    with Store.reading(locate(sys.argv[1])) as store:
        print(store.study(sys.argv[2]).budget)
except FastrcapsError as error:
    print(f"{type(error).__name__} {error}")
"""
# Then writes whenever it is told to.
WRITE = (
    ENTER
    + """
store = Store.writing(location, patience=patience)
print("entered", flush=True)
for _ in sys.stdin:
    change = text("UPDATE fastrcaps_studies SET budget = 9")
    print(store.write(lambda connection: connection.execute(change).rowcount), flush=True)
"""
)


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that stands before the system's calls."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    built = tmp_path_factory.mktemp("shim") / "unfit.so"
    source = Path(__file__).with_name("unfit.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


Refusing = Callable[..., dict[str, str]]


@pytest.fixture
def refusing(shim: Path, location: Location) -> Refusing:
    """Environments in which the database's folder refuses such calls."""

    def environment(calls: str, number: int, **more: str) -> dict[str, str]:
        told = {"UNFIT_CALLS": calls, "UNFIT_ERRNO": str(number), "LD_PRELOAD": str(shim)}
        return {**os.environ, "UNFIT_PATH": str(location.files.parent), **told, **more}

    return environment


def entered(location: Location, environment: dict[str, str], *, patience: float = 600.0) -> str:
    """What entering the study says."""
    done = subprocess.run(
        [sys.executable, "-c", ENTER, location.url, str(patience)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("calls", "number", "cause"),
    [
        ("lock", errno.EIO, "disk I/O error (Input/output error)"),
        ("map", errno.EINVAL, "disk I/O error"),
        ("sync", errno.EIO, "disk I/O error"),
    ],
)
def test_a_disk_that_cannot_hold_sqlite_is_refused_at_once(
    location: Location, refusing: Refusing, calls: str, number: int, cause: str
) -> None:
    began = time.monotonic()
    said = entered(location, refusing(calls, number))
    assert said == (
        f"StoreError {location.path} must be on a disk that can hold and lock an SQLite "
        f"database, got: {cause}; NFS, 9p and the like cannot: name a file on a local disk or a "
        "PostgreSQL database with --storage, or look after the disk\n"
    )
    # Not the ten minutes of an outage, on a slow machine either.
    assert time.monotonic() - began < 120


def test_a_disk_without_locks_is_not_taken_for_a_held_one(
    location: Location, refusing: Refusing
) -> None:
    said = entered(location, refusing("lock", errno.ENOLCK))
    assert "got: database is locked (No locks available); NFS, 9p and the like cannot" in said


def test_a_quota_is_named(location: Location, refusing: Refusing) -> None:
    said = entered(location, refusing("write", errno.EDQUOT), patience=0.0)
    assert said == (
        f"DiskError {location.path}: the disk must have room for the database, got: disk I/O "
        "error (Disk quota exceeded); free some space and run the same line again, nothing is "
        "lost\n"
    )


def test_a_full_disk_is_read(location: Location, study: StudyRecord, refusing: Refusing) -> None:
    for ending in ("-shm", "-wal"):
        Path(f"{location.path}{ending}").unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", READ, location.url, study.name],
        env=refusing("write", errno.ENOSPC),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{study.budget}\n"


def test_a_file_that_may_not_be_read_is_named(location: Location, study: StudyRecord) -> None:
    assert location.path is not None
    location.path.chmod(0)
    drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    done = subprocess.run(
        [*(drop if os.geteuid() == 0 else []), sys.executable, "-c", READ, location.url, "tiny"],
        capture_output=True,
        text=True,
        check=True,
    )
    location.path.chmod(0o644)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    said = f"ReadOnlyStoreError {location.path}, which belongs to {owner}, must be readable, got: "
    assert done.stdout.startswith(said)


def test_a_limit_on_the_size_of_files_is_named(location: Location) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENTER, location.url, "600"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        f"StoreError {location.path} must be allowed to grow, got: disk I/O error (File too "
        "large); raise the limit on the size of files (`ulimit -f`) and run the same line again, "
        "nothing is lost\n"
    )


def test_once_used_it_is_an_outage(
    location: Location, refusing: Refusing, start_child: ChildStarter, tmp_path: Path
) -> None:
    sign = tmp_path / "out"
    environment = refusing("sync", errno.EIO, UNFIT_WHILE=str(sign))
    child = start_child(WRITE, location.url, "600", environment=environment)
    assert line(child) == "entered"
    sign.touch()
    say(child)
    # Told after it has lasted for a while.
    assert "must be on a disk that can hold and lock" in line(child)
    sign.unlink()
    assert [line(child), line(child)] == ["None", "1"]


def test_once_read_it_is_an_outage_too(location: Location, study: StudyRecord) -> None:
    error = OperationalError("SELECT", {}, sqlite3.OperationalError("disk I/O error"))
    # Of a database that is not there, too.
    assert type(translated(error, locate(f"{location.path}.other"))) is StoreError
    with Store.reading(location):
        assert type(translated(error, location)) is StoreUnavailableError


@pytest.mark.parametrize("ending", ["-shm", "-wal"])
def test_a_file_of_another_user_is_named_with_its_owner(
    location: Location, study: StudyRecord, sql: Sql, ending: str
) -> None:
    assert location.path is not None
    owner, drop = pwd.getpwuid(os.geteuid()).pw_name, list[str]()
    file = Path(f"{location.path}{ending}")
    script = (
        "import os, sqlite3, sys; open_one = sqlite3.connect(sys.argv[1]);"
        "open_one.execute('pragma journal_mode=wal');"
        "open_one.execute('update fastrcaps_studies set budget = 5'); open_one.commit();"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(location.path)], check=True)
    if os.geteuid() == 0:
        owner = "nobody"
        drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-chown"]
        os.chown(file, pwd.getpwnam(owner).pw_uid, -1)
    file.chmod(0o444)
    done = subprocess.run(
        [*drop, sys.executable, "-c", ENTER, location.url, "600"],
        capture_output=True,
        text=True,
        check=True,
    )
    said = f"ReadOnlyStoreError {file}, which belongs to {owner}, must be writable, got: "
    assert done.stdout.startswith(said)
    with suppress(FileNotFoundError):
        file.chmod(0o644)


def test_a_file_with_two_names_is_not_written(location: Location, study: StudyRecord) -> None:
    assert location.path is not None
    location.path.with_name("other.db").hardlink_to(location.path)
    said = entered(location, dict(os.environ))
    assert said.startswith(
        f"StoreError {location.path} must have one name, got 2 (hard links): each name has a log"
    )
