"""What asks a command to stop besides Ctrl-C: a terminal that closes, a batch system, a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.store.records import Values

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil

RUN = ("run", "--study", "listed.toml", "--trials", "1", "--workers", "1", "--verbose")
WATCH = ("report", "--study", "tiny", "--watch", "--format", "csv")
SAID = [
    "stopping: workers finish their step and save",
    "fastrcaps-search: interrupted; the state is saved, the same line continues the study",
]


@pytest.mark.slow
def test_a_batch_system_warns_all_processes_and_asks_again(
    command: Command, read_until: ReadUntil
) -> None:
    process = command.start(*RUN)
    read_until(process, "epoch 1:")
    os.killpg(process.pid, signal.SIGSTOP)
    for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM):
        os.killpg(process.pid, number)
    os.killpg(process.pid, signal.SIGCONT)
    _, error = process.communicate()
    assert process.returncode == 130
    assert error.split("\n") == ["", *SAID, ""]
    status = command.json("status", "--study", "listed")
    # Nobody holds it, and it is not begun again.
    assert status["workers"] == []

    # Under nohup the end of the terminal is no end of the run.
    line = ["nohup", *command.line(*RUN)]
    process = subprocess.Popen(
        line,
        cwd=command.folder,
        env=command.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert "trial 0 continues at epoch " in read_until(process, "trial 0 continues")
    read_until(process, "epoch ")
    os.killpg(process.pid, signal.SIGHUP)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert "report: " in out


def test_other_commands_say_that_they_were_interrupted(
    tmp_path: Path, store_study: Callable[..., None], read_until: ReadUntil
) -> None:
    store_study(
        tmp_path / "fastrcaps.db",
        [Values(accuracy=0.9, training_seconds=1.0, parameters=10.0)],
        budget=2,
    )
    for number in (signal.SIGHUP, signal.SIGUSR2):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fastrcaps_search", *WATCH],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        read_until(process, "tiny.csv")
        process.send_signal(number)
        _, error = process.communicate()
        assert (process.returncode, error) == (130, "fastrcaps-search: interrupted\n")
