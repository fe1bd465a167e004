"""Workers on a real Ray cluster of two nodes: its Jobs API as an engine, and whole runs."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from fastrcaps_search.search.engines import JobState, PlacedJob, WorkerJob
from fastrcaps_search.search.ray_jobs import RAY, RayCluster
from tests.held import EPOCHS, Held
from tests.postgres import PASSWORD, PostgresServer
from tests.rays import ADDRESS, HEAD, OTHER, RayPair, may_have_namespaces, processes
from tests.store.workers import until as wait_until

pytestmark = pytest.mark.slow

NAMES = itertools.count()
until = functools.partial(wait_until, seconds=180.0)
WAITS = "import signal; print('began', flush=True); signal.pause()"


@pytest.fixture(scope="module")
def pair() -> Iterator[RayPair]:
    """Two nodes, in whose network this module runs."""
    if find_spec("ray") is None:
        pytest.skip("needs Ray: pip install 'fastrcaps-search[ray]'")
    if not may_have_namespaces():
        pytest.skip("Ray listens on every interface: needs the right to make a network namespace")
    with RayPair() as found, found.network(), pytest.MonkeyPatch.context() as patch:
        # Before Ray, which looks once, is imported.
        for name, value in found.access.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def too_large(pair: RayPair) -> WorkerJob:
    """A job for which no node is large enough, handed in before all others."""
    job = job_of(pair.folder, "")
    opened(cpus="64").place(job)
    return job


def opened(**options: str | list[str]) -> RayCluster:
    """The cluster with launcher options."""
    lists = {name: [given] if isinstance(given, str) else given for name, given in options.items()}
    return RAY.open({"address": [ADDRESS], **lists})


def job_of(folder: Path, program: str, **environment: str) -> WorkerJob:
    """A program as the command of a study of its own."""
    name = f"test-{next(NAMES)}"
    return WorkerJob(name, ("-c", program, name), environment, folder / f"{name}.log")


def the_only(cluster: RayCluster, job: WorkerJob) -> PlacedJob:
    """What the cluster says of a study that has one job."""
    (found,) = cluster.jobs(job.name)
    return found


def ended(cluster: RayCluster, job: WorkerJob) -> PlacedJob:
    """The only job of a study once it has ended."""
    until(lambda: the_only(cluster, job).state is JobState.ENDED)
    return the_only(cluster, job)


@pytest.mark.usefixtures("pair", "too_large")
def test_a_worker_gets_its_share_of_a_node_and_knows_it(tmp_path: Path) -> None:
    tells = (
        "import json, os; print(json.dumps([os.environ.get(name) for name in "
        "('OMP_NUM_THREADS', 'CUDA_VISIBLE_DEVICES', 'TOLD', 'SET', 'FASTRCAPS_JOB')]))"
    )
    plain, card = opened(), opened(gpus="1", memory="100M", setup=["SET='by a'", "export SET"])
    without = job_of(tmp_path, tells, TOLD="a 'b' $c")
    with_one = job_of(tmp_path, tells, TOLD="", OMP_NUM_THREADS="64")
    ids = plain.place(without), card.place(with_one)

    ends = ended(plain, without), ended(card, with_one)
    assert tuple(end.id for end in ends) == ids
    assert not any(end.has_failed for end in ends)
    # The other node has none.
    assert ends[1].host == OTHER
    assert ends[0].log == without.log
    assert json.loads(without.log.read_text()) == [
        *("1", "", "a 'b' $c", None),
        f"ray {ids[0]}",
    ]
    threads, cards, told, by_setup, _ = json.loads(with_one.log.read_text())
    assert (threads, told, by_setup) == ("1", "", "by a")
    assert cards in ("0", "1")


@pytest.mark.usefixtures("pair")
def test_jobs_are_found_by_their_study_and_wait_where_there_is_no_room(tmp_path: Path) -> None:
    job, other = job_of(tmp_path, WAITS), job_of(tmp_path, WAITS)
    ids = [opened().place(job) for _ in range(3)]
    again = opened()

    def states() -> list[JobState]:
        return sorted(one.state for one in again.jobs(job.name))

    until(lambda: states() == [JobState.RUNNING] * 2 + [JobState.WAITING])
    found = {one.id: one for one in again.jobs(job.name)}
    assert found.keys() == set(ids)
    running = [one for one in found.values() if one.state is JobState.RUNNING]
    assert {one.host for one in running} == {HEAD, OTHER}
    (waiting,) = (one for one in found.values() if one.state is JobState.WAITING)
    assert "waiting for resources" in waiting.reason
    assert again.jobs(other.name) == []
    until(lambda: job.log.read_text() == "began\n" * 2)

    again.cancel([*ids, "not-one-of-them"])
    until(lambda: states() == [JobState.ENDED] * 3)
    again.cancel(ids)
    # Once there is room for the third, it ends, too, if not before it has begun.
    until(lambda: all(one.state is JobState.ENDED for one in opened().jobs(job.name)))
    assert {again.client.get_job_status(id) for id in ids} == {"STOPPED"}
    assert not any(one.has_failed for one in again.jobs(job.name))


@pytest.mark.usefixtures("pair")
def test_a_worker_that_is_cancelled_has_time_to_save(tmp_path: Path) -> None:
    # Longer than the 3 s that Ray gives if it is not told otherwise; children are told as well.
    saves = (
        "import os, signal, time\n"
        "def save(*_):\n"
        "    time.sleep(4)\n"
        "    print('saved', flush=True)\n"
        "    os._exit(130)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "os.fork()\n"
        "print('began', flush=True)\n"
        "while True:\n"
        "    signal.pause()\n"
    )
    cluster, job = opened(), job_of(tmp_path, saves)
    id = cluster.place(job)
    until(lambda: job.log.exists() and job.log.read_text() == "began\n" * 2)
    cluster.cancel([id])

    assert not ended(cluster, job).has_failed
    assert job.log.read_text() == "began\n" * 2 + "saved\n" * 2


@pytest.mark.usefixtures("pair")
def test_without_its_token_a_cluster_answers_in_one_line() -> None:
    tries = (
        "from fastrcaps_search.errors import UsageError\n"
        "from fastrcaps_search.search.ray_jobs import RAY\n"
        "try:\n"
        "    RAY.open({'address': ['" + ADDRESS + "']})\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    without = {name: value for name, value in os.environ.items() if "RAY_AUTH" not in name}
    done = subprocess.run(
        [sys.executable, "-c", tries], env=without, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("\n") == 1
    assert "must answer and take jobs, got: " in done.stdout
    assert done.stderr == ""


@pytest.mark.usefixtures("pair")
def test_a_worker_that_was_asked_to_stop_by_another_has_not_failed(tmp_path: Path) -> None:
    cluster, job = opened(), job_of(tmp_path, "import sys; sys.exit(130)")
    cluster.place(job)

    end = ended(cluster, job)
    assert (end.has_failed, end.reason) == (False, "asked to stop, saved")


@pytest.mark.parametrize(
    ("program", "setup", "reason", "log"),
    [
        ("import sys; sys.exit(3)", [], "exit code 3", ""),
        ("import os; os.kill(os.getpid(), 9)", [], "SIGKILL: maybe for want of memory", ""),
        ("print('never')", ["false", "echo nor"], "exit code 1", ""),
        ("print('never')", ["module load x"], "exit code 127", "module: command not found"),
    ],
)
def test_how_a_worker_failed_is_one_line(
    tmp_path: Path, program: str, setup: list[str], reason: str, log: str
) -> None:
    cluster, job = opened(setup=setup), job_of(tmp_path, program)
    cluster.place(job)

    end = ended(cluster, job)
    assert end.has_failed
    assert end.reason.startswith(reason)
    assert "\n" not in end.reason
    said = job.log.read_text()
    assert log in said
    assert said.count("\n") == bool(log)


@pytest.mark.usefixtures("pair")
def test_a_folder_that_a_node_does_not_reach_is_said(tmp_path: Path) -> None:
    cluster, job = opened(), job_of(tmp_path / "missing", "")
    cluster.place(job)

    end = ended(cluster, job)
    assert end.has_failed
    assert end.reason == (f"exit code 1: bash: line 1: {job.log}: No such file or directory")


@pytest.fixture(scope="module")
def server(
    pair: RayPair,  # in whose network it is
    make_postgres_server: Callable[[], PostgresServer],
) -> Iterator[PostgresServer]:
    """A PostgreSQL server that the nodes reach."""
    with make_postgres_server() as found:
        yield found


@dataclass(frozen=True)
class Runs:
    """Runs of one study on the cluster.

    Attributes:
        folder: Of its files.
        url: Of its database.
        cluster: Where they place workers.
        held: The study.
        begun: Processes of the runs.
    """

    folder: Path
    url: str
    cluster: RayCluster
    held: Held
    begun: list[subprocess.Popen[str]] = field(default_factory=list)

    def begin(self, *flags: str) -> subprocess.Popen[str]:
        """Start ``run`` with a log of its own."""
        log = self.folder / f"run-{next(NAMES)}.log"
        usual = ["--study", "long.toml", "--trials", "5", "--files", str(self.folder / "files")]
        # Jobs have the environment of Ray.
        address, path = f"address={ADDRESS}", f"setup=export PYTHONPATH={os.environ['PYTHONPATH']}"
        asked = ["--launcher=ray", *(f"--launcher-option={one}" for one in (address, path))]
        line = [sys.executable, "-P", "-m", "fastrcaps_search", "run", *usual, *asked, *flags]
        with log.open("w") as output:
            process = subprocess.Popen(
                [*line, "--lease-seconds", "5"],
                cwd=self.folder,
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.begun.append(process)
        return process

    def environment(self) -> dict[str, str]:
        """Where the database is: with its password, in no command line."""
        return {**os.environ, "FASTRCAPS_STORAGE": self.url}

    def said(self) -> str:
        """What the last run has printed."""
        return max(self.folder.glob("run-*.log"), key=lambda log: log.stat().st_mtime).read_text()

    def status(self) -> Any:  # noqa: ANN401  # whatever JSON holds
        """What ``status --json`` says."""
        line = [sys.executable, "-P", "-m", "fastrcaps_search", "status", "--study", "long"]
        return json.loads(subprocess.check_output([*line, "--json"], env=self.environment()))

    def jobs(self) -> list[PlacedJob]:
        """Jobs of the study, which have their logs in its folder."""
        told = [job.metadata for job in self.cluster.client.list_jobs() if job.metadata]
        mine = {one["fastrcaps_search"] for one in told if str(self.folder) in one["log"]}
        return [job for name in mine for job in self.cluster.jobs(name)]

    def hosts(self) -> dict[str, str]:
        """Hosts of the jobs that run, and their ids."""
        return {job.host: job.id for job in self.jobs() if job.state is JobState.RUNNING}

    def in_progress(self, id: str) -> int | None:
        """The trial that the worker of a job trains, between its first epoch and its last."""
        (log,) = (job.log for job in self.jobs() if job.id == id)
        said = log.read_text() if log and log.exists() else ""
        begun = re.findall(r"trial (\d+) begins", said)
        return int(begun[-1]) if begun and 0 < self.epochs(int(begun[-1])) < EPOCHS else None

    def epochs(self, number: int) -> int:
        """Epochs that are stored of a trial."""
        return len(self.rows("SELECT epoch FROM fastrcaps_epochs WHERE number = %s", number))

    def rows(self, query: LiteralString, *values: int) -> list[tuple[Any, ...]]:
        """What the database says."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(query, values).fetchall()


@pytest.fixture
def runs(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Runs]:
    """Runs of a study whose trainings are held."""
    held = Held(tmp_path, monkeypatch)
    found = Runs(tmp_path, server.new_database(), opened(), held)
    yield found
    for process in found.begun:
        process.kill()
        process.wait()
    # Those of a test that failed would have the room of the next.
    found.cluster.cancel([job.id for job in found.jobs()])


def test_a_run_that_gives_its_workers_back_lets_them_save(runs: Runs) -> None:
    watching = runs.begin("--workers", "1")
    until(lambda: len(runs.hosts()) == 1)
    (id,) = runs.hosts().values()
    until(lambda: runs.in_progress(id) is not None)
    watching.terminate()
    assert watching.wait() == 130
    assert "1 job left to ray" in runs.said()
    assert runs.cluster.client.get_job_status(id) == "RUNNING"

    giving_back = runs.begin("--workers", "0")
    giving_back.wait()
    assert f"given back: job {id}" in runs.said()
    assert runs.cluster.client.get_job_status(id) == "STOPPED"
    status = runs.status()
    # Given back by itself: no lease is waited for.
    assert (status["jobs"], status["workers"]) == ([], [])
    assert status["budget"] == 5


def test_a_study_ends_with_its_budget_though_its_run_and_a_node_are_lost(
    pair: RayPair, runs: Runs
) -> None:
    killed = runs.begin("--workers", "2")
    until(lambda: runs.hosts().keys() == {HEAD, OTHER})
    killed.kill()
    killed.wait()
    jobs = runs.hosts()
    again = runs.begin("--workers", "2")
    until(lambda: all(f"job {id} runs on {host}" in runs.said() for host, id in jobs.items()))
    assert "placed" not in runs.said()
    assert {job["id"]: job["host"] for job in runs.status()["jobs"]} == {
        id: host for host, id in jobs.items()
    }
    until(lambda: runs.in_progress(jobs[OTHER]) is not None)
    require_no_secret(pair, runs)

    trained: list[int | None] = []

    def is_training() -> bool:
        trained.append(runs.in_progress(jobs[OTHER]))
        return trained[-1] is not None

    pair.lose_a_node(when=is_training)
    lost = trained[-1]
    assert lost is not None
    until(lambda: ", placed again as job " in runs.said())
    runs.held.release()
    assert again.wait() == 0
    assert f"job {jobs[OTHER]} ended (the actor's node was terminated unexpectedly" in runs.said()
    status = runs.status()
    assert (status["complete"], status["failed"], status["running"]) == (5, 0, 0)
    assert status["budget"] == 5
    # One may still wait for room that is lost: Ray cannot take it back.
    assert {job["state"] for job in status["jobs"]} <= {"given back"}
    assert runs.rows("SELECT count(*) FROM fastrcaps_trials") == [(5,)]
    claims = "SELECT count(*) FROM fastrcaps_claims WHERE number = %s AND purpose = 'train'"
    assert runs.rows(claims, lost) == [(2,)]
    assert runs.epochs(lost) == EPOCHS


def require_no_secret(pair: RayPair, runs: Runs) -> None:
    """The password is where only its owner can read it, though others see all of Ray."""
    seen = {"jobs": repr(runs.cluster.client.list_jobs())}
    for folder in (pair.folder, runs.folder):
        for file in folder.rglob("*"):
            if file.is_file() and file.stat().st_mode & 0o077:
                seen[str(file)] = file.read_text(errors="replace")
    lines = processes()
    for number in (*pair.processes(), *(process.pid for process in runs.begun)):
        seen[f"process {number}"] = lines.get(number, "")
    assert any("fastrcaps_search worker" in line for line in seen.values())
    assert [place for place, text in seen.items() if PASSWORD in text] == []
    (storage,) = runs.folder.rglob("storage")
    assert PASSWORD in storage.read_text()
    assert storage.stat().st_mode & 0o777 == 0o600


def test_what_finds_no_room_in_time_has_not_failed(too_large: WorkerJob) -> None:
    end = ended(opened(), too_large)
    assert not end.has_failed
    assert end.reason.startswith("Job supervisor actor failed to start within 60.0 seconds")
    assert not too_large.log.exists()
