"""``run --launcher slurm`` on a real Slurm of one node, and on submitit's local executor."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from fastrcaps_search.search.engines import JobState
from fastrcaps_search.search.placed_worker import job_name
from fastrcaps_search.search.slurm_here import LocalJobs
from fastrcaps_search.search.slurm_options import SlurmOptions
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from tests.end_to_end.conftest import Command
from tests.held import EPOCHS, TRIALS, Held
from tests.slurm import SlurmCluster
from tests.store.workers import until as wait_until

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

SECONDS = 120.0
LOOKS_OFTEN = """
import sys
from fastrcaps_search.cli.main import main
from fastrcaps_search.search import placing

placing.LONGEST_POLL_SECONDS = 1.0
sys.exit(main())
"""
"""The command, where a run asks Slurm every second."""

until = functools.partial(wait_until, seconds=SECONDS, every=0.1)


@dataclass(frozen=True)
class Place(Command):
    """Runs commands in a folder, where Slurm can be reached if there is one."""

    held: Held
    slurm: SlurmCluster | None
    storage: str

    def environment(self) -> dict[str, str]:
        found = self.slurm.environment() if self.slurm else dict(os.environ)
        return found | {"FASTRCAPS_STORAGE": self.storage}

    def line(self, *arguments: str) -> list[str]:
        line = [sys.executable, "-P", "-c", LOOKS_OFTEN, *arguments]
        return self.slurm.line(*line) if self.slurm else line

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Watched]:
        """A command whose output is read from a file, killed at the end."""
        log = self.folder / f"run-{time.monotonic_ns()}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                self.line(*arguments),
                cwd=self.folder,
                env=self.environment(),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            yield Watched(process, log)
        finally:
            process.kill()
            process.wait()

    def store(self) -> Store:
        return Store.reading(locate(self.storage))

    @property
    def working(self) -> int:
        """Runs that workers hold."""
        with closing(self.store()) as store:
            return len(store.leases(store.study("long")))

    @property
    def epochs(self) -> int:
        """Epochs that are stored."""
        with closing(self.store()) as store:
            return sum(len(trial.epochs) for trial in store.snapshot("long", epochs=True).trials)


@dataclass
class Watched:
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    def says(self, pattern: str) -> re.Match[str]:
        """What it says sooner or later."""

        def said() -> bool:
            assert self.process.poll() is None or re.search(pattern, self.said), self.said
            return bool(re.search(pattern, self.said))

        until(said, said=lambda: f"{pattern} in {self.said}")
        found = re.search(pattern, self.said)
        assert found is not None
        return found


RUN = (
    "run",
    "--study",
    "long.toml",
    "--launcher",
    "slurm",
    "--threads",
    "1",
    "--lease-seconds=10",
)


def option(*pairs: str) -> tuple[str, ...]:
    return tuple(f"--launcher-option={pair}" for pair in pairs)


SHARE = option("partition=low", "cpus=1", "memory=500M")


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """The study, in the test's folder."""
    return Held(tmp_path, monkeypatch)


@pytest.fixture
def on_server(
    held: Held,
    tmp_path: Path,
    slurm: SlurmCluster,
    postgres_server: PostgresServer,
    postgres_url: str,
) -> Iterator[Place]:
    """A folder with the study, whose server is reached through a socket's file."""
    parts = urlsplit(postgres_url)
    user = parts.netloc.rpartition("@")[0]
    where = f"host={postgres_server.folder}&port={parts.port}"
    yield Place(tmp_path, held, slurm, f"postgresql://{user}@{parts.path}?{where}")
    slurm.run("scancel", "--user=root")
    until(lambda: not slurm.jobs("RUNNING", "PENDING", "COMPLETING"))


def holding(text: str, folder: Path) -> list[Path]:
    """The files that hold a text; workers remove some meanwhile."""
    found = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_study_goes_on_through_all_that_slurm_does_to_its_jobs(
    on_server: Place, slurm: SlurmCluster
) -> None:
    from tests.postgres import PASSWORD

    def live() -> dict[str, str]:
        return slurm.jobs("RUNNING", "PENDING")

    with on_server.running(*RUN, *SHARE, "--workers", "2") as run:
        run.says("placed: job")
        until(lambda: on_server.working == 2)
        assert list(live().values()) == ["RUNNING", "RUNNING"]
        seen = json.loads(on_server("status", "--study", "long", "--json").stdout)["jobs"]
        assert [(job["engine"], job["state"], job["host"]) for job in seen] == [
            ("slurm", "running", "node1")
        ] * 2
        # A job that somebody cancels is placed again.
        cancelled = min(live())
        slurm.run("scancel", cancelled)
        again = run.says(rf"job {cancelled} ended \(CANCELLED\), placed again as job (\d+)")[1]
        run.says(rf"job {again} runs on node1")
        # The address of the database is in none of what others may read.
        told = slurm.run("squeue", "--format=%all").stdout + slurm.run("ps", "axww").stdout
        assert f"{PASSWORD}@/" not in told
        assert "fastrcaps-long-" in told
        (secret,) = holding(PASSWORD, on_server.folder)
        assert (secret.name, secret.stat().st_mode & 0o777) == ("storage", 0o600)
        assert not holding(PASSWORD, slurm.folder)
        for path in secret.parent.iterdir():
            assert path.stat().st_mode & 0o077 == 0, path
        run.process.kill()
        run.process.wait()
    before = set(live())
    assert len(before) == 2
    # Another run finds those jobs. What it hands in has a minute, and a signal before its end.
    minute = option("time=1", "signal-seconds=50")
    with on_server.running(*RUN, *SHARE, *minute, "--workers", "2") as run:
        for job in before:
            run.says(f"job {job} runs on node1")
        assert set(live()) == before
        # A core more than is free: the lower partition gives one back.
        slurm.run("sbatch", "-p", "high", "-n", "3", "-o", "/dev/null", "--wrap", "sleep 1")
        limited = run.says(r"job \d+ ended \(PREEMPTED\), placed again as job (\d+)")[1]
        run.says(rf"job {limited} ended \(asked to stop, saved\), placed again as job \d+")
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(SECONDS) == 130
    on_server.held.release()
    with on_server.running(*RUN, *SHARE, "--workers", "2") as run:
        assert run.process.wait(SECONDS) == 0, run.said
        assert f"{TRIALS}/{TRIALS} done" in run.said
    assert not live()
    assert not secret.exists()
    with closing(on_server.store()) as store:
        found = store.snapshot("long", epochs=True)
        claims = store.claims(store.study("long"))
    assert [trial.state for trial in found.trials] == ["complete"] * TRIALS
    assert [len(trial.epochs) for trial in found.trials] == [EPOCHS] * TRIALS
    # What was given back was taken over: every one of them was saved.
    assert len([claim for claim in claims if claim.is_training]) > TRIALS
    assert json.loads(on_server("status", "--study", "long", "--json").stdout)["jobs"] == []


LOCAL = option("cluster=local")


@pytest.fixture
def place(held: Held, tmp_path: Path) -> Iterator[Place]:
    """A folder with the study, and no Slurm."""
    place = Place(tmp_path, held, None, str(tmp_path / "local.db"))
    yield place
    jobs, name = local_jobs(place)
    jobs.cancel([job.id for job in jobs.jobs(name)])


def local_jobs(place: Place) -> tuple[LocalJobs, str]:
    """Those of this machine, and the name of the study's."""
    with closing(place.store()) as store:
        return LocalJobs(SlurmOptions.of({"cluster": ["local"]})), job_name(store.study("long"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_local_executor_does_the_same(place: Place) -> None:
    limits = option("time=00:00:16", "signal-seconds=8")
    with place.running(*RUN, *LOCAL, "--workers", "1") as run:
        first = run.says(r"placed: job (\S+)")[1]
        until(lambda: place.epochs > 0)
        run.process.kill()
        run.process.wait()
    jobs, name = local_jobs(place)
    assert name.startswith("fastrcaps-long-")
    assert [(job.id, job.state) for job in jobs.jobs(name)] == [(first, JobState.RUNNING)]
    with place.running(*RUN, *LOCAL, *limits, "--workers", "1") as run:
        run.says(f"job {first} runs on")
        jobs.cancel([first])
        second = run.says(
            rf"job {first} ended \(asked to stop, saved\), placed again as job (\S+)"
        )
        # By its limit of time.
        run.says(rf"job {second[1]} ended \(asked to stop, saved\), placed again as job")
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(SECONDS) == 130
    place.held.release()
    with place.running(*RUN, *LOCAL, "--workers", "2") as run:
        assert run.process.wait(SECONDS) == 0, run.said
        assert f"{TRIALS}/{TRIALS} done" in run.said
    with closing(place.store()) as store:
        trials = store.snapshot("long", epochs=True).trials
    assert [len(trial.epochs) for trial in trials] == [EPOCHS] * TRIALS
    assert all(job.state is JobState.ENDED for job in jobs.jobs(name))


@pytest.fixture
def on_file(held: Held, tmp_path: Path, slurm: SlurmCluster) -> Iterator[Place]:
    """A folder with the study in an SQLite file."""
    yield Place(tmp_path, held, slurm, str(tmp_path / "long.db"))
    slurm.run("scancel", "--user=root")
    until(lambda: not slurm.jobs("RUNNING", "PENDING", "COMPLETING"))


def test_jobs_are_left_to_slurm_seen_and_given_back(on_file: Place, slurm: SlurmCluster) -> None:
    slurm.run("sbatch", "-p", "high", "-n", "4", "-o", "/dev/null", "--wrap", "sleep 1000")
    until(lambda: slurm.jobs("RUNNING"))
    done = on_file(*RUN, *SHARE, "--workers", "3", "--detach")
    assert done.stdout.splitlines()[-1] == f"long: 0/{TRIALS} done; 3 jobs left to slurm"
    assert "is a file: all jobs must run on this machine" in done.stderr
    mine = slurm.jobs("PENDING")
    assert len(mine) == 3
    # Fewer are kept, without another one being handed in.
    assert "given back: job" in on_file(*RUN, *SHARE, "--workers", "2", "--detach").stdout
    until(lambda: len(slurm.jobs("PENDING")) == 2)
    assert set(slurm.jobs("PENDING")) < set(mine)
    lines = on_file("status", "--study", "long").stdout.splitlines()
    told = [line for line in lines if line.startswith("slurm job")]
    assert len(told) == 2
    assert all(" waits" in line for line in told)
    with on_file.running(*RUN, *SHARE, "--workers", "2") as run:
        run.says(r"job \d+ waits")
        run.process.send_signal(signal.SIGINT)
        run.says("2 jobs left to slurm: the same line watches them again, and gives them back")
        assert run.process.wait(SECONDS) == 130
    assert len(slurm.jobs("PENDING")) == 2
    done = on_file(*RUN, *SHARE, "--workers", "0")
    assert done.stdout.splitlines()[-1] == f"long: 0/{TRIALS} done; no job is left"
    assert not slurm.jobs("PENDING")


def test_a_run_gives_up_where_jobs_fail_again_and_again(
    on_file: Place, slurm: SlurmCluster
) -> None:
    setup = option("setup=echo no module named cuda", "setup=exit 3")
    done = on_file(*RUN, *SHARE, *setup, "--workers", "1", rc=1)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("fastrcaps-search:")]
    assert re.search(
        r"3 jobs have failed in a row without the study getting on \(FAILED, exit code 3\), so "
        r"the run stops; /\S+/jobs/worker-\w+\.log ends: no module named cuda$",
        line,
    )
    assert not slurm.jobs("PENDING", "RUNNING")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (option("partition=nope"), "sbatch asks, got: .*Invalid partition name specified"),
        (option("memory=900G"), "sbatch asks, got: .*Requested node configuration"),
    ],
)
def test_what_slurm_refuses_is_said_in_one_line(
    on_file: Place, given: tuple[str, ...], said: str
) -> None:
    done = on_file(*RUN, *given, rc=2)
    lines = done.stderr.splitlines()
    assert re.search(said, lines[-1])
    assert "Traceback" not in done.stderr


def test_slurm_that_does_not_answer_is_waited_for(on_file: Place, slurm: SlurmCluster) -> None:
    configuration = on_file.folder / "slurm.conf"
    text = (slurm.folder / "slurm.conf").read_text()
    configuration.write_text(f"{text}\nSlurmctldPort=6999\nMessageTimeout=2\n")
    line = on_file.line(*RUN, *SHARE, "--workers", "1")
    log = on_file.folder / "waits.log"
    environment = on_file.environment() | {"SLURM_CONF": str(configuration)}
    with log.open("w") as out:
        process = subprocess.Popen(
            line, cwd=on_file.folder, env=environment, stdout=out, stderr=out
        )
    try:
        until(lambda: "waits for slurm: squeue says: " in log.read_text(), said=log.read_text)
        configuration.write_text(text)
        until(lambda: "slurm answers again" in log.read_text(), said=log.read_text)
        until(lambda: slurm.jobs("RUNNING"))
    finally:
        process.kill()
        process.wait()
