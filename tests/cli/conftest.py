"""Runs the command line in a folder of its own, as a user's shell would; stored studies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fastrcaps_search.cli.main import main

Cli = Callable[..., subprocess.CompletedProcess[str]]


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
