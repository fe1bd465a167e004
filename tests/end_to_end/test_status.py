"""What status says of real workers: of one that trains, waits, is suspended, is killed, ends."""

from __future__ import annotations

import os
import platform
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import fastrcaps_search
from fastrcaps_search.analysis.signs import Life, StuckKind, WorkerStatus
from fastrcaps_search.analysis.summary import StudySummary
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from tests.store.workers import until

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil

pytestmark = pytest.mark.slow

# Epochs of some tenths of a second, and a lease that is renewed every second.
LONG = """
name = "long"
network = "lenet5"
data_set = "mnist-mini"
epochs = 500
boundaries = [1]
train_images = 1000
[space]
lr_policy = ["fixed"]
batch_size = [16]
"""
WORKS = ("--workers", "1", "--threads", "1", "--lease-seconds", "6")


@dataclass
class Watched:
    """A study with commands that work on it.

    Attributes:
        command: Runs the command line.
        storage: Its database.
        started: Commands, to be ended.
    """

    command: Command
    storage: str
    started: list[subprocess.Popen[str]]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        line = (*arguments, "--storage", self.storage)
        self.started.append(self.command.start(*line))
        return self.started[-1]

    def paste(self, line: str) -> subprocess.Popen[str]:
        """Run a line as it was advised, in a shell that knows the database's URL."""
        program = shlex.join(self.command.line())
        self.started.append(
            subprocess.Popen(
                ["sh", "-c", f"exec {line.replace('fastrcaps-search', program, 1)}"],
                cwd=self.command.folder,
                env={**self.command.environment(), "FASTRCAPS_STORAGE": self.storage},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )
        return self.started[-1]

    def status(self) -> StudySummary:
        return fastrcaps_search.read_status("long", storage=self.storage)

    def wait_for(self, condition: Callable[[StudySummary], bool]) -> StudySummary:
        """How the study stands once a condition holds."""
        seen: list[StudySummary] = []

        def holds() -> bool:
            seen.append(self.status())
            return condition(seen[-1])

        until(holds)
        return seen[-1]

    def speeds(self) -> list[float]:
        """Images per second of the stored epochs."""
        with closing(Store.reading(locate(self.storage))) as store:
            (trial,) = store.trials(store.study("long"), epochs=True)
            return [e.metrics.samples / e.metrics.training_seconds for e in trial.epochs]


@pytest.fixture(params=["sqlite", "postgresql"])
def watched(
    request: pytest.FixtureRequest, command: Command, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    """The study in a new database; whatever still works on it at the end is killed."""
    monkeypatch.setenv("FASTRCAPS_JOB", "slurm 7")
    monkeypatch.setenv("COLUMNS", "300")
    (command.folder / "long.toml").write_text(LONG)
    storage = str(command.folder / "long.db")
    if request.param == "postgresql":
        storage = request.getfixturevalue("postgres_url")
    found = Watched(command, storage, [])
    yield found
    for process in found.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def doing(summary: StudySummary, what: str) -> WorkerStatus | None:
    """The live worker that does that."""
    found = [one for one in summary.workers if one.doing == what and one.life is Life.ALIVE]
    return found[0] if found else None


def test_what_workers_do_and_why_they_are_stuck(
    watched: Watched, read_until: ReadUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = watched.start("run", "--study", "long.toml", "--trials", "1", *WORKS)
    read_until(run, "long: 0/1 trials done")
    # In the third epoch, so that it has two of its own to compare with.
    trains = watched.wait_for(
        lambda seen: (((one := doing(seen, "trains")) and one.epoch) or 0) > 2
    )
    (worker,) = trains.workers
    assert trains.stuck == ()
    host = platform.node()
    assert (worker.worker, worker.host, worker.device) == ("worker-0", host, "cpu")
    assert (worker.trial, worker.run, worker.purpose) == (0, 0, "train")
    assert (worker.epochs, worker.job) == (500, "slurm 7")
    assert (worker.device_name or "").startswith("CPU ")
    assert 0 <= worker.silent_seconds < 6
    # Of this epoch so far; those beside it may have had another share of the processor.
    speeds = watched.speeds()
    assert worker.images_per_second is not None
    assert min(speeds) / 3 < worker.images_per_second < 3 * max(speeds)

    other = watched.start("worker", "--study", "long", *WORKS)
    waits = doing(watched.wait_for(lambda seen: doing(seen, "waits") is not None), "waits")
    assert waits is not None
    assert waits.waits_for == f"trial 0 (worker-0, process {worker.pid} on {host})"
    assert (waits.worker, waits.trial, waits.epoch) == ("worker-1", None, None)
    told = watched.command("status", "--study", "long", "--storage", watched.storage).stdout
    assert f"  slurm 7  waits for {waits.waits_for}  " in told
    monkeypatch.setenv("COLUMNS", "80")
    narrow = watched.command("status", "--study", "long", "--storage", watched.storage).stdout
    lines = narrow.splitlines()
    head = next(index for index, line in enumerate(lines) if line.startswith("worker "))
    assert max(map(len, lines[: head + 3])) <= 80
    assert "job slurm 7" in "".join(lines[:head])
    assert re.search(r"  waits for trial 0\b.*\.\.\.  ", lines[head + 2])

    # Both supervisors too: one would start its worker again, the other's worker take the run.
    os.killpg(other.pid, signal.SIGSTOP)
    os.killpg(run.pid, signal.SIGSTOP)
    halted = watched.wait_for(
        lambda seen: any(one.kind is StuckKind.SUSPENDED and one.trial == 0 for one in seen.stuck)
    )
    ages = [one.silent_seconds for one in halted.workers]
    later = watched.wait_for(
        lambda seen: all(
            one.silent_seconds > age + 1 for one, age in zip(seen.workers, ages, strict=True)
        )
    )
    assert [one.life for one in later.workers] == [Life.SUSPENDED] * 2
    assert [one.images_per_second for one in later.workers] == [None, None]
    held, idle, nobody = later.stuck
    silent = f"{later.workers[0].silent_seconds:.0f}"
    why = (
        f"trial 0: worker-0, process {worker.pid} on {host}, which holds it, is suspended "
        f"(SIGSTOP or Ctrl-Z) and silent for {silent} s; another worker can take it over "
    )
    assert re.fullmatch(re.escape(why) + r"(in \d s|2 s after one notices)", held.why)
    assert (idle.kind, idle.worker, idle.trial) == (StuckKind.SUSPENDED, "worker-1", None)
    assert nobody.kind is StuckKind.NO_WORKER

    os.kill(worker.pid, signal.SIGKILL)
    dead = watched.wait_for(lambda seen: seen.workers[0].life is Life.DEAD)
    assert dead.stuck[0].why == (
        f"trial 0: worker-0, process {worker.pid} on {host}, which holds it, is dead; another "
        "worker can take it over now"
    )
    (first, _, _) = watched.command.json(
        "status", "--study", "long", "--storage", watched.storage
    )["stuck"]
    assert (first["kind"], first["worker"], first["host"]) == ("dead", "worker-0", host)

    # Whoever goes on with the run has counted the death; a new process has removed the row.
    os.killpg(run.pid, signal.SIGCONT)
    watched.wait_for(
        lambda seen: (
            doing(seen, "trains") is not None
            and worker.pid not in [one.pid for one in seen.workers]
        )
    )
    for process in (other, run):
        os.killpg(process.pid, signal.SIGCONT)
        process.terminate()
    assert [process.wait(60) for process in (other, run)] == [130, 130]
    left = watched.status()
    assert left.workers == ()
    assert left.stuck[-1].kind is StuckKind.NO_WORKER
    assert (left.running, left.interrupted) == (0, 1)
    (trial,) = watched.command.json("trials", "--study", "long", "--storage", watched.storage)
    assert trial["state"] == "interrupted"

    told = watched.command("status", "--study", "long.toml", "--storage", watched.storage).stdout
    assert told.splitlines()[0].endswith(", 0 running, 1 interrupted")
    (line,) = re.findall("`(fastrcaps-search .*)` goes on with trial 0\n", told)
    assert " --threads 1 --workers 1 --lease-seconds 6" in line
    goes_on = watched.paste(line)
    read_until(goes_on, "trial 0 continues")
    (trial,) = watched.command.json("trials", "--study", "long", "--storage", watched.storage)
    assert trial["state"] == "running"
    goes_on.terminate()
    assert goes_on.wait(60) == 130
