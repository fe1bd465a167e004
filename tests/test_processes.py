"""Children of a parent that has found the package somewhere else, and how they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

import fastrcaps_search
from fastrcaps_search.errors import RunError
from fastrcaps_search.processes import STOPS, child_command, ending, started

PACKAGE = Path(fastrcaps_search.__path__[0])
STUDY = """
name = "one"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
boundaries = [1]
train_images = 64
[[configuration]]
lr_policy = "fixed"
batch_policy = "constant"
"""
NOTEBOOK = """
import sys
sys.path += ["libraries", "home"]
import fastrcaps_search
outcome = fastrcaps_search.run_study("one.toml", workers=1)
print([str(trial.state) for trial in outcome.trials])
"""
Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bare_python(tmp_path: Path) -> Python:
    """A Python that finds neither this package nor a library; both lie in folders beside it."""
    venv.create(tmp_path / "bare", symlinks=True)
    (tmp_path / "libraries").mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(place).iterdir():
            if not path.name.startswith("fastrcaps_search"):
                (tmp_path / "libraries" / path.name).symlink_to(path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/fastrcaps_search").symlink_to(PACKAGE)
    # Whatever lies beside the package, or in the working directory, shadows nothing.
    for place in ("home", "."):
        (tmp_path / place / "random.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "one.toml").write_text(STUDY)
    environment = {name: text for name, text in os.environ.items() if "PYTHON" not in name}

    def run(
        *arguments: str, folder: Path = tmp_path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tmp_path / "bare/bin/python"), *arguments],
            cwd=folder,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_notebook_that_adds_the_package_to_its_path_trains(
    bare_python: Python, tmp_path: Path
) -> None:
    done = bare_python("-P", "-c", NOTEBOOK)
    assert (done.stdout, done.stderr) == ("['complete']\n", "")


def test_a_checkout_is_used_in_its_own_folder_before_another_copy(
    bare_python: Python, tmp_path: Path
) -> None:
    (tmp_path / "home/random.py").unlink()
    other = tmp_path / "other/fastrcaps_search"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('another copy')")
    path = f"{other.parent}:{tmp_path / 'libraries'}"
    done = bare_python(
        *("-m", "fastrcaps_search", "doctor"), folder=tmp_path / "home", PYTHONPATH=path
    )
    assert done.returncode == 0, done.stderr
    assert "devices" in done.stdout


# Measured in a second.
QUICK = """
name = "quick"
network = "lenet5"
data_set = "mnist-mini"
epochs = 1
train_images = 300
[[configuration]]
lr_policy = "fixed"
batch_policy = "constant"
"""


def test_what_cannot_be_started_is_no_trace() -> None:
    with pytest.raises(RunError, match=r"^no-such-program must start as a process, got: No such "):
        started(["no-such-program"])


def test_few_processes_are_no_interrupt(tmp_path: Path) -> None:
    # The kernel counts no processes of root; this user may read and write root's files.
    may = "-all,+dac_override,+dac_read_search"
    another = (
        *("setpriv", "--reuid=54321", "--clear-groups", "--securebits=+no_setuid_fixup"),
        *(f"--inh-caps={may}", f"--ambient-caps={may}", f"--bounding-set={may}"),
    )
    try:
        subprocess.run([*another, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no processes of another user can be started here")
    (tmp_path / "quick.toml").write_text(QUICK)
    line = (sys.executable, "-P", "-m", "fastrcaps_search", "run", "--study", "quick.toml")
    for most in ("1", "2", "3", "4"):
        done = subprocess.run(
            [*another, "bash", "-c", 'ulimit -u "$0"; exec "$@"', most, *line, "--trials", "1"],
            cwd=tmp_path,
            env={**os.environ, "FASTRCAPS_RUNTIME_DIR": str(tmp_path / f"slots-{most}")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert re.fullmatch(
            r"fastrcaps-search: .+(Resource temporarily unavailable|new thread); `.+\n",
            done.stderr,
        )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGILL, "SIGILL: this processor may be too old for this build of torch"),
        (-signal.SIGKILL, "SIGKILL: maybe for want of memory, of which fewer workers need less"),
        # As a shell, srun or docker hands it on.
        (137, "SIGKILL: maybe for want of memory, of which fewer workers need less"),
        (-signal.SIGALRM, "SIGALRM"),
        (9, "exit code 9"),
        (255, "exit code 255"),
        (None, "it does not end"),
    ],
)
def test_an_end_is_named(code: int | None, words: str) -> None:
    assert ending(code) == words


def test_a_child_that_dies_of_a_signal_says_where(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(
        "import os, signal\ndef main(): os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    done = subprocess.run(
        child_command("dying"),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ending(done.returncode).startswith("SIGSEGV: a fault in torch or another library")
    assert f'File "{tmp_path / "dying.py"}", line 2 in main' in done.stderr


STOPPED = """
import signal, sys
from fastrcaps_search.processes import handle_stops
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
handle_stops(lambda number, frame: print(number))
for word in sys.argv[1:]:
    signal.raise_signal(int(word))
"""


def test_all_that_asks_to_stop_is_handled_but_what_nohup_ignores() -> None:
    numbers = [str(int(number)) for number in STOPS]
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, *numbers], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [n for n in numbers if int(n) != signal.SIGHUP]
    wanted = {signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU}
    assert {signal.SIGINT, *wanted} == set(STOPS)
