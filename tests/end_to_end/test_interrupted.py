"""Real trainings, really killed: nothing lost, nothing twice, and the same bits in the end."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.end_to_end.violence import figures
from tests.store.workers import until

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil

pytestmark = pytest.mark.slow

EPOCHS = 8
RUN = ("run", "--study", "listed.toml", "--trials", "4", "--workers", "2")


def stored(folder: Path) -> list[TrialRecord]:
    store = Store.reading(locate(str(folder / "fastrcaps.db")))
    try:
        return store.trials(store.study("listed"), epochs=True)
    finally:
        store.close()


@pytest.fixture(scope="module")
def undisturbed(make_command: Callable[[], Command]) -> list[Any]:
    """Figures of the same study, run without a disturbance."""
    command = make_command()
    command(*RUN)
    return figures(stored(command.folder))


def begin(
    command: Command, read_until: ReadUntil, *, said: str = "trial 2 epoch 2:"
) -> subprocess.Popen[str]:
    """A run in the middle of its third trial, once it has said so, all its processes halted."""
    process = command.start(*RUN, "--verbose")
    read_until(process, said)
    os.killpg(process.pid, signal.SIGSTOP)
    # A SIGCONT that overtook it would leave nothing of it.
    until(lambda: all(state in "TZX" for state in states_of_group(process.pid)))
    return process


def states_of_group(group: int) -> list[str]:
    """States of the processes of a group, as in /proc/PID/stat: T for one that is halted."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # One may have ended meanwhile.
        with contextlib.suppress(OSError):
            state, _, its_group, *_ = stat.read_text().rpartition(")")[2].split()
            found += [state] if int(its_group) == group else []
    return found


def workers_of(command: Command) -> dict[int, int]:
    """Process of each trial in progress."""
    workers = command.json("status", "--study", "listed")["workers"]
    return {worker["trial"]: worker["pid"] for worker in workers}


def files_of(command: Command) -> Path:
    """Folder of the study's checkpoints and logs."""
    (found,) = (command.folder / "fastrcaps-files").glob("listed-*")
    return found


def wait_for_end(pid: int) -> None:
    """Wait for a process that is not a child."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            assert select.select([descriptor], [], [], 60)[0], f"process {pid} lives on"
        finally:
            os.close(descriptor)


def finish(command: Command) -> subprocess.CompletedProcess[str]:
    return command(*RUN, "--verbose")


def check_nothing_lost(command: Command, undisturbed: list[Any]) -> list[TrialRecord]:
    trials = stored(command.folder)
    assert [trial.number for trial in trials] == [0, 1, 2, 3]
    assert figures(trials) == undisturbed
    assert all(run.bit_equal for trial in trials for run in trial.runs)
    connection = sqlite3.connect(command.folder / "fastrcaps.db")
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert connection.execute("select count(*) from fastrcaps_leases").fetchone() == (0,)
    states = connection.execute("select number, state from trials order by number").fetchall()
    assert states == [(number, "COMPLETE") for number in range(4)]
    connection.close()
    return trials


@pytest.fixture(scope="module")
def killed_once(make_command: Callable[[], Command], read_until: ReadUntil) -> Path:
    """The folder of a run whose processes were all killed."""
    command = make_command()
    process = begin(command, read_until)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return command.folder


@pytest.fixture
def killed(command: Command, killed_once: Path) -> Command:
    """The command in a copy of that folder."""
    shutil.copytree(killed_once, command.folder, dirs_exist_ok=True)
    return command


def test_a_killed_process_group_loses_only_its_epochs_in_progress(
    killed: Command, undisturbed: list[Any]
) -> None:
    interrupted = {t.number: t for t in stored(killed.folder) if t.values is None}
    assert 2 in interrupted
    kept = len(interrupted[2].epochs)
    assert kept >= 2

    again = finish(killed)

    trial = check_nothing_lost(killed, undisturbed)[2]
    # One epoch may have its checkpoint, but not its row yet.
    (said,) = re.findall(r"trial 2 continues at epoch (\d+)", again.stdout)
    assert int(said) in (kept + 1, kept + 2)
    assert [epoch.token for epoch in trial.epochs] == [1] * kept + [2] * (EPOCHS - kept)
    log = (files_of(killed) / "trial-0002/run-0.log").read_text()
    assert f"continues at epoch {said} from its checkpoint" in log


def test_a_study_that_is_stopped_again_and_again_loses_nothing(
    command: Command, read_until: ReadUntil, undisturbed: list[Any]
) -> None:
    process = begin(command, read_until)
    if 3 not in workers_of(command):
        # The other worker is still at an earlier trial, or halted between two.
        os.killpg(process.pid, signal.SIGCONT)
        read_until(process, "trial 3 begins")
        os.killpg(process.pid, signal.SIGSTOP)
    workers = workers_of(command)
    assert sorted(workers) == [2, 3]
    process.kill()
    os.killpg(process.pid, signal.SIGCONT)
    process.communicate()
    # The workers stop when their supervisor is killed.
    for pid in workers.values():
        wait_for_end(pid)
    assert [t.number for t in stored(command.folder) if t.values is None] == sorted(workers)

    for number in (signal.SIGTERM, signal.SIGINT):
        process = begin(command, read_until, said="trial 2 epoch ")
        # Ctrl-C reaches the whole foreground group, a service manager's SIGTERM the leader.
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        os.killpg(process.pid, signal.SIGCONT)
        _, error = process.communicate()
        assert process.returncode == 130
        assert error.splitlines()[-1] == (
            "fastrcaps-search: interrupted; the state is saved, the same line continues the study"
        )
        assert 2 in {t.number for t in stored(command.folder) if t.values is None}

    process = begin(command, read_until, said="trial 2 epoch ")
    # A dead worker is replaced, and its trial goes on.
    os.kill(workers_of(command)[2], signal.SIGKILL)
    os.killpg(process.pid, signal.SIGCONT)
    process.communicate()
    assert process.returncode == 0
    trial = check_nothing_lost(command, undisturbed)[2]
    # A worker that has not heard of the stop yet may take what another has just given back.
    assert trial.epochs[-1].token >= 5


def test_an_epoch_that_contains_a_suspension_is_trained_again(
    command: Command, read_until: ReadUntil, undisturbed: list[Any]
) -> None:
    process = begin(command, read_until)
    os.killpg(process.pid, signal.SIGCONT)
    process.communicate()
    assert process.returncode == 0
    check_nothing_lost(command, undisturbed)
    # One of the two workers may have been halted between two epochs, where nothing is lost.
    found = 0
    for path in files_of(command).glob("trial-*/run-*.log"):
        log = path.read_text()
        for said in re.findall(r"suspended during epoch (\d+): the epoch is trained again", log):
            found += 1
            assert log.count(f" epoch {said}/{EPOCHS}: ") == 1
    assert 1 <= found <= 2


def test_a_lost_checkpoint_means_the_run_begins_again(
    killed: Command, undisturbed: list[Any]
) -> None:
    for path in (files_of(killed) / "trial-0002/run-0").iterdir():
        path.unlink()
    with contextlib.closing(sqlite3.connect(killed.folder / "fastrcaps.db")) as connection:
        # Else those of the folder that was copied would be gone on with.
        connection.execute("update fastrcaps_runs set files = null")
        connection.commit()
    finish(killed)
    trial = check_nothing_lost(killed, undisturbed)[2]
    assert {epoch.token for epoch in trial.epochs} == {2}
