"""The command as a user types it, in an empty folder, with a study of quick real trainings."""

from __future__ import annotations

import functools
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import fastrcaps_search
from fastrcaps_search.cli.main import main
from tests.store.workers import until as wait_until

# Six trainings of LeNet5 on real digits, listed, so that a number is always the same training.
LISTED = """
name = "listed"
network = "lenet5"
data_set = "mnist-mini"
epochs = 8
boundaries = [1, 2]
train_images = 300

[[configuration]]
lr_policy = "fixed"
batch_policy = "constant"

[[configuration]]
lr_policy = "exponential_decay"
batch_policy = "constant"

[[configuration]]
lr_policy = "warm_adabatch"
adabatch_exponent = 2

[[configuration]]
lr_policy = "fixed"
batch_policy = "adabatch"
adabatch_exponent = 2

[[configuration]]
lr_policy = "one_cycle"
batch_policy = "constant"

[[configuration]]
lr_policy = "warm_restarts"
batch_policy = "constant"
"""


ReadUntil = Callable[[subprocess.Popen[str], str], str]
"""Reads a process's lines up to one that holds a text."""


@dataclass(frozen=True)
class Command:
    """Runs the command line in a folder."""

    folder: Path

    def environment(self) -> dict[str, str]:
        """The caller's, without the variables that stand for flags."""
        found = dict(os.environ)
        for name in ("FASTRCAPS_DATA", "FASTRCAPS_STORAGE"):
            found.pop(name, None)
        return found

    def line(self, *arguments: str) -> list[str]:
        """The whole command line."""
        return [sys.executable, "-P", "-m", "fastrcaps_search", *arguments]

    def __call__(self, *arguments: str, rc: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.line(*arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == rc, f"{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str) -> Any:  # noqa: ANN401  # whatever JSON holds
        """What the command prints with ``--json``: in this process, for it starts no other."""
        printed, error = io.StringIO(), io.StringIO()
        with (
            chdir(self.folder),
            mock.patch.dict(os.environ, self.environment(), clear=True),
            redirect_stdout(printed),
            redirect_stderr(error),
        ):
            code = main([*arguments, "--json"])
        assert code == 0, f"{printed.getvalue()}\n{error.getvalue()}"
        return json.loads(printed.getvalue())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in a process group of its own."""
        return subprocess.Popen(
            self.line(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture(scope="session")
def make_command(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Command]:
    """Makes the command in new folders that hold nothing but the listed study."""

    def make() -> Command:
        folder = tmp_path_factory.mktemp("folder")
        (folder / "listed.toml").write_text(LISTED)
        return Command(folder)

    return make


@pytest.fixture
def command(make_command: Callable[[], Command]) -> Command:
    """The command in a new folder."""
    return make_command()


# Trainings of a second, enough to learn. The space has 3 policies x 2 batch sizes and 2 exponents,
# which are 3 sizes to be measured before the first trial.
QUICK = """
name = "quick"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
boundaries = [1]
train_images = 400
[space]
lr_policy = ["fixed", "exponential_decay", "one_cycle"]
batch_policy = ["constant", "adabatch"]
adabatch_exponent = [3, 4]
batch_size = [8, 16]
"""


@pytest.fixture(scope="session")
def quick_text() -> str:
    """A study file of quick trainings."""
    return QUICK


@pytest.fixture(scope="session")
def begun_once(make_command: Callable[[], Command]) -> Path:
    """A folder in which one trial of the quick study has been trained."""
    command = make_command()
    (command.folder / "quick.toml").write_text(QUICK)
    command("run", "--study", "quick.toml", "--trials", "1", "--workers", "1")
    return command.folder


@pytest.fixture
def begun(command: Command, begun_once: Path) -> Command:
    """The command in a copy of that folder."""
    shutil.copytree(begun_once, command.folder, dirs_exist_ok=True)
    return command


@pytest.fixture
def quick(command: Command, quick_text: str) -> Command:
    """The command in a folder with the quick study."""
    (command.folder / "quick.toml").write_text(quick_text)
    return command


# Trainings of a second or two in many epochs, so that one can be stopped between two of them.
STEADY = """
name = "steady"
network = "lenet5"
data_set = "mnist-mini"
epochs = 20
train_images = 400
[space]
lr_policy = ["fixed", "exponential_decay", "one_cycle"]
batch_policy = ["constant"]
"""


@pytest.fixture(scope="session")
def steady_text() -> str:
    """A study file of trainings with many epochs."""
    return STEADY


@pytest.fixture(scope="session")
def make_home() -> Callable[[Path, str], None]:
    """Makes a home as the examples have it: an environment, and a file with a database's URL.

    What is started there shares nothing else with this test.
    """

    def make(home: Path, url: str) -> None:
        (programs := home / "fastrcaps/bin").mkdir(parents=True)
        (programs / "activate").write_text(f"PATH={programs}:$PATH\n")
        line = shlex.join([sys.executable, "-P", "-m", "fastrcaps_search"])
        settings = {
            "PYTHONPATH": str(Path(fastrcaps_search.__path__[0]).parent),
            "FASTRCAPS_RUNTIME_DIR": str(home / "runtime"),
        }
        exported = shlex.join(f"{name}={value}" for name, value in settings.items())
        program = programs / "fastrcaps-search"
        program.write_text(
            f'#!/bin/sh\nexport {exported}\nexec {line} "$@" --workers 1 --threads 1\n'
        )
        program.chmod(0o700)
        (home / "fastrcaps-storage").write_text(f"{url}\n")
        (home / "fastrcaps-storage").chmod(0o600)

    return make


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object]], None]:
    """Waits until something is true: a few seconds, unless the machine is busy."""
    return functools.partial(wait_until, seconds=200.0, every=0.1)


@pytest.fixture(scope="session")
def read_until() -> ReadUntil:
    """Reads a process's lines up to one that holds a text."""

    def read(process: subprocess.Popen[str], text: str) -> str:
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} never came; these did: {''.join(seen)}")

    return read
