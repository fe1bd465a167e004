"""Several commands on one study at once, and one study after another's faults: really run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def quick(quick: Command, quick_text: str) -> Command:
    """The command in a folder with the quick study and a long one."""
    long_text = quick_text.replace("epochs = 2", "epochs = 400").replace('"quick"', '"long"')
    (quick.folder / "long.toml").write_text(long_text)
    return quick


# Everything else here, and the violence, runs on SQLite by default.
@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.endurance), "postgresql"])
def storage(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Flags that name a new database."""
    if request.param == "sqlite":
        return ("--storage", "shared.db")
    return ("--storage", request.getfixturevalue("postgres_url"))


@pytest.fixture
def ending() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to be ended with the test, whatever becomes of it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_runs_and_workers_at_once_end_with_the_trials_asked_for(
    quick: Command,
    storage: tuple[str, ...],
    read_until: ReadUntil,
    ending: list[subprocess.Popen[str]],
) -> None:
    line = ("run", "--study", "quick.toml", "--workers", "1", *storage)
    ending.append(quick.start(*line, "--trials", "8"))
    read_until(ending[0], "quick: 0/8 trials done, 8 to go")
    ending.append(quick.start(*line, "--trials", "8"))
    for _ in range(2):
        ending.append(
            quick.start("worker", "--study", "quick", "--workers", "1", "--quiet", *storage)
        )
    done = [(*process.communicate(), process.returncode) for process in ending]
    assert [code for _, _, code in done] == [0] * 4, done
    assert done[2][0] == done[3][0] == "quick: 8/8 done\n"
    trials = quick.json("trials", "--study", "quick", *storage)
    assert [trial["trial"] for trial in trials] == list(range(8))
    assert {trial["state"] for trial in trials} == {"complete"}
    assert len({json.dumps(trial["params"], sort_keys=True) for trial in trials}) == 8

    quick(*line, "--trials", "10")
    more = quick.json("trials", "--study", "quick", *storage)
    assert [trial["trial"] for trial in more] == list(range(10))
    # Test accuracies may be new: the front has changed.
    assert [trial["values"] for trial in more[:8]] == [trial["values"] for trial in trials]
    again = quick("worker", "--study", "quick", *storage)
    assert again.stdout == "quick: 10/10 done, nothing to train\n"


def test_a_worker_needs_a_study_that_a_run_has_begun(begun: Command) -> None:
    refused = begun("worker", "--study", "mnist", rc=2)
    assert refused.stderr.endswith("it holds: quick\n")


def test_what_is_stored_can_be_read_while_workers_write(
    quick: Command,
    storage: tuple[str, ...],
    read_until: ReadUntil,
    ending: list[subprocess.Popen[str]],
) -> None:
    process = quick.start(
        *("run", "--study", "long.toml", "--trials", "2", "--workers", "1", "--verbose", *storage)
    )
    ending.append(process)
    read_until(process, "trial 0 epoch 2")
    for _ in range(2):
        status = quick.json("status", "--study", "long", *storage)
        assert (status["running"], [w["trial"] for w in status["workers"]]) == (1, [0])
        assert len(quick.json("trials", "--study", "long", *storage)) == 1
        assert quick.json("front", "--study", "long", *storage) == []
    quick("report", "--study", "long", *storage)
    assert process.poll() is None


# That slots are waited for, and for whom, is tested in tests/search too.
@pytest.mark.endurance
def test_a_worker_without_a_free_core_says_so_and_waits(
    quick: Command, read_until: ReadUntil, ending: list[subprocess.Popen[str]]
) -> None:
    one_core = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*one_core, *quick.line(*arguments)],
            cwd=quick.folder,
            env=quick.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        ending.append(process)
        return process

    first = start("run", "--study", "long.toml", "--trials", "1", "--workers", "1", "--verbose")
    read_until(first, "trial 0 epoch 1:")
    (holder,) = quick.json("status", "--study", "long")["workers"]
    second = start("run", "--study", "quick.toml", "--trials", "2", "--workers", "1")
    assert second.stderr is not None
    assert second.stderr.readline() == (
        f"waits for free cores to measure on, in use by process {holder['pid']} "
        "(worker-0 of study long)\n"
    )
    os.killpg(first.pid, signal.SIGTERM)
    read_until(second, "quick: 0/2 trials done")
    out, error = second.communicate()
    assert second.returncode == 0, error
    assert "trial 1 complete" in out

    third = start("run", "--study", "quick.toml", "--trials", "6", "--workers", "2")
    said = read_until(third, "waits for a free core")
    assert re.fullmatch(
        r"worker-[01]: waits for a free core, in use by process \d+ \(worker-[01] of study "
        r"quick\)\n",
        said,
    )
    out, error = third.communicate()
    assert third.returncode == 0, error
    connection = sqlite3.connect(quick.folder / "fastrcaps.db")
    shared = connection.execute("select distinct sharing, threads from fastrcaps_epochs")
    assert shared.fetchall() == [(1, 1)]
    connection.close()


def test_a_database_file_that_is_removed_stops_the_run_with_one_line(
    quick: Command, read_until: ReadUntil, ending: list[subprocess.Popen[str]]
) -> None:
    process = quick.start(
        *("run", "--study", "long.toml", "--trials", "3", "--workers", "2", "--verbose")
    )
    ending.append(process)
    read_until(process, "trial 0 epoch 2")
    database = quick.folder / "fastrcaps.db"
    database.rename(quick.folder / "elsewhere.db")
    out, error = process.communicate()
    assert process.returncode == 1
    assert error.splitlines() == [
        f"fastrcaps-search: {database} must stay in its place while it is used, but the file was "
        "removed or replaced; put it back with its -wal file, or begin anew with another --storage"
    ]
    assert "died" not in out
    assert not database.exists()


class TestSecrets:
    """A password is in the URL of the storage, and must be nowhere else."""

    def test_it_appears_nowhere(
        self,
        quick: Command,
        own_postgres_server: PostgresServer,
        read_until: ReadUntil,
        ending: list[subprocess.Popen[str]],
    ) -> None:
        from tests.postgres import PASSWORD

        server = own_postgres_server
        url = server.new_database()
        environment = {**quick.environment(), "FASTRCAPS_STORAGE": url}

        def start(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                quick.line(*arguments),
                cwd=quick.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            ending.append(process)
            return process

        line = ("run", "--study", "long.toml", "--trials", "1", "--workers", "1", "--verbose")
        process = start(*line, "--store-patience", "2", "--debug")
        read_until(process, "trial 0 epoch 2")
        commands = command_lines(group=process.pid)
        assert any("search.worker" in words for words in commands)
        assert PASSWORD not in "".join(commands)
        server.stop("immediate")
        texts = [*process.communicate()]
        assert process.returncode == 1
        assert "--store-patience" in texts[1].splitlines()[-1]
        impatient = (*line, "--store-patience", "1")
        refused = [
            start(*arguments, "--debug")
            for arguments in (impatient, ("status", "--study", "long"), ("doctor",))
        ]
        for process in refused:
            texts.extend(process.communicate())
        server.start()
        answered = [
            start(*arguments)
            for arguments in (
                ("run", "--study", "quick.toml", "--trials", "1", "--workers", "1"),
                ("report", "--study", "long"),
                ("trials", "--study", "long", "--json"),
                ("doctor",),
            )
        ]
        for process in answered:
            texts.extend(process.communicate())
            assert process.returncode == 0, texts[-1]
        assert all(PASSWORD not in text for text in texts)
        files = [path for path in quick.folder.rglob("*") if path.is_file()]
        assert any(path.suffix == ".html" for path in files)
        assert any(path.suffix == ".log" for path in files)
        assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
        dump = subprocess.run(
            [server_program("pg_dump"), "--inserts", url],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "fastrcaps_epochs" in dump.stdout
        assert PASSWORD not in dump.stdout


def command_lines(*, group: int) -> list[str]:
    """Command lines of the processes of a group, as ``ps`` shows them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == group:
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def server_program(name: str) -> str:
    from tests.postgres import programs

    folder = programs()
    assert folder is not None
    return str(folder / name)


def test_files_are_made_with_the_users_own_umask(quick: Command) -> None:
    done = subprocess.run(
        [
            *("sh", "-c", 'umask 027; exec "$@"', "sh"),
            *quick.line("run", "--study", "quick.toml", "--trials", "1", "--workers", "1"),
        ],
        cwd=quick.folder,
        env=quick.environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    made = [
        path
        for path in quick.folder.rglob("*")
        if not path.name.endswith(".toml") and path != quick.folder
    ]
    assert {path.suffix for path in made} >= {".db", ".log", ".html", ".safetensors"}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()}
    assert (modes, folders) == ({0o640}, {0o750})


@pytest.fixture
def small_disk(mount_disk: Callable[[int], Path]) -> Path:
    """A file system of 3 MiB for the database alone."""
    return mount_disk(3)


def test_a_full_disk_under_the_database_is_waited_for(
    begun: Command,
    small_disk: Path,
    read_until: ReadUntil,
    ending: list[subprocess.Popen[str]],
) -> None:
    line = (
        *("run", "--study", "quick.toml", "--workers", "1", "--files", "fastrcaps-files"),
        *("--storage", str(small_disk / "a.db")),
    )
    shutil.copy(begun.folder / "fastrcaps.db", small_disk / "a.db")
    filler = small_disk / "filler"
    process = begun.start(*line, "--trials", "8", "--verbose")
    ending.append(process)
    read_until(process, "trial 1 begins")
    space = os.statvfs(small_disk)
    filler.write_bytes(bytes(space.f_bavail * space.f_frsize))
    said = read_until(process, "waits for the database")
    assert "the disk must have room for the database" in said
    filler.unlink()
    read_until(process, "the database is back")
    _, error = process.communicate()
    assert process.returncode == 0, error
    trials: list[Any] = begun.json(
        "trials", "--study", "quick", "--storage", str(small_disk / "a.db")
    )
    assert [trial["state"] for trial in trials] == ["complete"] * 8


OUT_OF_MEMORY = """
import sys
import fastrcaps_search.training.run as run
epoch = run.Run._epoch
def starved(self, number):
    if self._plan.batch_sizes[0] == 4:
        raise MemoryError("no room for 7 GiB")
    return epoch(self, number)
run.Run._epoch = starved
from fastrcaps_search.search.worker import main
sys.exit(main())
"""


def test_a_trial_that_runs_out_of_memory_is_tried_again_and_then_fails(
    quick: Command, quick_text: str
) -> None:
    (quick.folder / "worker.py").write_text(OUT_OF_MEMORY)
    (quick.folder / "two.toml").write_text(
        quick_text.replace('"quick"', '"two"')
        .replace('"constant", "adabatch"', '"constant"')
        .replace("adabatch_exponent = [3, 4]\n", "")
        .replace('["fixed", "exponential_decay", "one_cycle"]', '["fixed"]')
        .replace("[8, 16]", "[4, 8]")
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys, fastrcaps_search.search.launch as launch\n"
            "old = launch.worker_command\n"
            "launch.worker_command = lambda spec: [sys.executable, 'worker.py', old(spec)[-1]]\n"
            "from fastrcaps_search.cli.main import main\n"
            "sys.exit(main())",
            *("run", "--study", "two.toml", "--trials", "2", "--workers", "1"),
        ],
        cwd=quick.folder,
        env=quick.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reason = "the device and its memory must last for the training, got: no room for 7 GiB"
    said = [line for line in done.stdout.splitlines() if "attempt" in line]
    (number,) = {int(line.split("trial ")[1][0]) for line in said}
    assert said == [
        f"worker-0: trial {number}, attempt 1 of 3: {reason}",
        f"worker-0: trial {number}, attempt 2 of 3: {reason}",
        f"worker-0: trial {number} failed: {reason} (3 attempts)",
    ]
    states = {row["state"]: row for row in quick.json("trials", "--study", "two")}
    assert states["failed"]["params"]["batch_size"] == 4
    assert states["complete"]["params"]["batch_size"] == 8
