"""A launcher from outside, one file in a distribution of its own, starts the workers of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import plug_in

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command

pytestmark = pytest.mark.slow

# Starts workers at a low priority and notes each start; every process that imports this file, the
# workers among them, notes its own priority.
LAUNCHER = """
import os
import sys
from dataclasses import dataclass

from fastrcaps_search.search.launch import LAUNCHERS, LocalLauncher


def note(file, text):
    with open(file, "a") as lines:
        lines.write(text + "\\n")


@dataclass(frozen=True)
class Noted:
    name: str = "noted"

    def start(self, spec, events):
        note("starts", spec.name)
        return LocalLauncher(prefix=("nice", "-n", "3")).start(spec, events)


LAUNCHERS.register(Noted())
note("priorities", f"{sys.argv[0].rpartition('.')[2]} {os.getpriority(os.PRIO_PROCESS, 0)}")
"""


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_plug_in_starts_the_workers_of_a_run(
    quick: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in.install(tmp_path, LAUNCHER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    line = ("run", "--study", "quick.toml", "--workers", "2")
    refused = quick(*line, "--trials", "2", "--launcher", "slurrm", rc=2)
    assert refused.stderr.splitlines() == [
        "fastrcaps-search: launcher must be local or noted or slurm or ray, got 'slurrm'; others "
        "come with plug-ins"
    ]

    quick(*line, "--trials", "2", "--launcher", "noted")
    assert lines(quick.folder / "starts") == ["worker-0", "worker-1"]
    lower = os.getpriority(os.PRIO_PROCESS, 0) + 3
    noted = [text for text in lines(quick.folder / "priorities") if text.startswith("worker ")]
    assert noted == [f"worker {lower}"] * 2
    trials = quick.json("trials", "--study", "quick")
    assert [trial["state"] for trial in trials] == ["complete"] * 2

    quick(*line, "--trials", "3")
    assert lines(quick.folder / "starts") == ["worker-0", "worker-1"]
    assert len(quick.json("trials", "--study", "quick")) == 3
