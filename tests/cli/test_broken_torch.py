"""A torch that cannot be imported: every command that needs it says so in one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fastrcaps_search.training.device import OLDEST_TORCH
from tests.conftest import Cli

CUBLAS = "libcublas.so.12: cannot open shared object file: No such file or directory"


@pytest.fixture
def with_torch(tmp_path: Path) -> Callable[[str], str]:
    """Makes a path for modules on which torch is this text."""

    def make(text: str) -> str:
        (tmp_path / "broken/torch").mkdir(parents=True)
        (tmp_path / "broken/torch/__init__.py").write_text(text)
        return ":".join(filter(None, [str(tmp_path / "broken"), os.environ.get("PYTHONPATH")]))

    return make


def test_a_library_that_torch_lacks(cli: Cli, with_torch: Callable[[str], str]) -> None:
    path = with_torch(f"raise OSError({CUBLAS!r})")
    said = f"torch must be importable, got OSError: {CUBLAS}; install it again"
    cpu = ("--study", "mnist-mini", "--devices", "cpu")
    # Torch alone says what is here, after seconds.
    begins = (
        "mnist-mini: measuring once how fast the CPU trains 4 networks at batch sizes 1, 8, 16, "
        "32, 64: about 20 s or more\n"
    )
    lines = (
        ("run", *cpu, "--trials", "1"),
        ("worker", *cpu),
        ("rates", "--study", "mnist-mini"),
        ("evaluate", "network"),
        ("export", "--study", "mnist-mini", "--out", "network"),
    )
    for line in lines:
        done = cli(*line, PYTHONPATH=path)
        before = begins if line[0] in ("run", "worker") else ""
        assert (done.returncode, done.stdout) == (1, before), line
        (told,) = done.stderr.splitlines()
        assert told.startswith(f"fastrcaps-search: {said}"), line

    done = cli("doctor", PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (1, "")
    facts = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert facts["devices"].startswith(said)
    assert {"python", "cores", "optuna", "store"} < facts.keys()
    assert facts["python"] == sys.version.split()[0]


def test_a_torch_that_is_too_old_or_ends_the_process(
    cli: Cli, with_torch: Callable[[str], str], tmp_path: Path
) -> None:
    path = with_torch("__version__ = '1.13.1+cu117'")
    done = cli("doctor", PYTHONPATH=path)
    assert done.returncode == 1
    said = (
        "torch must be importable, got ImportError: torch 1.13.1+cu117 is too old, 2.6 is needed"
    )
    assert said in done.stdout

    file = tmp_path / "broken/torch/__init__.py"
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)")
    done = cli("doctor", PYTHONPATH=path)
    assert done.returncode == 1
    assert "SIGILL: this processor may be too old for this build of torch" in done.stdout
    assert "store" in done.stdout


def test_another_library_that_is_missing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['safetensors'] = None")
    path = ":".join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = cli("evaluate", "network", PYTHONPATH=path)
    assert done.returncode == 1
    (told,) = done.stderr.splitlines()
    assert told.startswith("fastrcaps-search: safetensors must be importable, got ModuleNotFound")


def test_the_oldest_torch_is_that_of_the_package() -> None:
    setup = Path(__file__).parents[2] / "setup.cfg"
    (wanted,) = re.findall(r"^    torch>=(\S+)$", setup.read_text(), re.MULTILINE)
    assert wanted == ".".join(map(str, OLDEST_TORCH))
