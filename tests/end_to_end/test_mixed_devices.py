"""A study on two machines of different processors, by their names; both are this one."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

from tests.end_to_end.conftest import Command

STUDY = """
name = "mixed"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
boundaries = [1]
train_images = 64
[space]
lr_policy = ["fixed", "exponential_decay"]
batch_policy = ["constant"]
"""
ELSEWHERE = """
import importlib.abc
import importlib.util
import sys


class Renamed(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "fastrcaps_search.training.device":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.device_name = lambda device: "CPU of another machine"

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Renamed())
"""


def elsewhere(command: Command, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command on the other machine."""
    folder = command.folder / "site"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(ELSEWHERE)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        command.line(*arguments),
        cwd=command.folder,
        env=command.environment() | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_another_machine_trains_counts_in_seconds_of_the_first(command: Command) -> None:
    (command.folder / "mixed.toml").write_text(STUDY)
    command("run", "--study", "mixed.toml", "--trials", "1", "--workers", "1", "--threads", "1")
    more = ("run", "--study", "mixed.toml", "--trials", "2", "--workers", "1", "--threads", "1")
    done = elsewhere(command, *more)
    assert done.returncode == 0, done.stderr
    assert "on CPU of another machine" in done.stdout

    listed = command("trials", "--study", "mixed").stdout.splitlines()
    assert ["~" in line for line in listed[1:3]] == [False, True]
    first, second = command.json("trials", "--study", "mixed")
    assert listed[3] == f"seconds: on {first['device']}; ~ computed, as measured: --json"
    assert "seconds_basis" not in first
    assert second["seconds_basis"] == "computed"
    with closing(sqlite3.connect(command.folder / "fastrcaps.db")) as connection:
        rows = connection.execute(
            "select number, training_seconds, computed_seconds from fastrcaps_epochs "
            "join (select number as n, best_epoch as b from fastrcaps_runs) "
            "on n = number and epoch <= b"
        ).fetchall()
        devices = connection.execute("select device_name from fastrcaps_calibrations").fetchall()
    assert len(set(devices)) == len(devices) == 2
    assert {computed for number, _, computed in rows if number == 0} == {None}
    there = [(took, computed) for number, took, computed in rows if number == 1]
    assert second["measured_seconds"] == pytest.approx(sum(took for took, _ in there))
    counted = sum(computed for _, computed in there)
    assert second["values"]["training_seconds"] == pytest.approx(counted)
    status = command.json("status", "--study", "mixed")
    assert status["reference_device"] == first["device"] != second["device"]
    assert status["seconds"] == {"measured": 1, "partly computed": 0, "computed": 1}

    refused = elsewhere(command, *more, "--reference-device", "CPU of another machine")
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "must keep its reference device, " in line
    assert line.endswith("leave --reference-device out, or choose another --storage")
