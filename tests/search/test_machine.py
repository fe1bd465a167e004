"""The real measurement, in processes of its own, of a network that trains fast."""

from __future__ import annotations

import multiprocessing
import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError, RunError, UsageError
from fastrcaps_search.search import machine
from fastrcaps_search.search.machine import Probe
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.training.device import device_name
from fastrcaps_search.training.probe import Question, benchmark

BASE = {
    "name": "s",
    "network": "lenet5",
    "train_images": 100,
    "epochs": 2,
    "boundaries": [1],
    "batch_size": 16,
}
ONE, TWO = WorkerLayout(1, 2), WorkerLayout(2, 1)
ONE_BATCH: dict[str, list[Any]] = {
    "lr_policy": ["fixed", "one_cycle"],
    "batch_policy": ["constant"],
}


def probe(
    *,
    space: dict[str, list[Any]] = ONE_BATCH,
    network: str = "lenet5",
    stop: threading.Event | None = None,
) -> Probe:
    definition = StudyDefinition.from_dict({**BASE, "network": network, "space": space})
    return Probe(definition, threads=2, stop=stop or threading.Event())


def look(stop: threading.Event | None = None) -> None:
    with probe(stop=stop) as asked:
        asked.look("cpu")


def test_layouts_are_compared_and_calibrated_in_one_process() -> None:
    with probe() as asked:
        seen = asked.look("cpu")
        assert (seen.devices, seen.device_name) == (("cpu",), device_name("cpu"))
        assert seen.setting.torch_version == torch.__version__
        compared, left_out = asked.compare(seen, [ONE, TWO])
        assert (list(compared), left_out) == ([ONE, TWO], "")
        found = asked.calibrate(seen, [TWO, WorkerLayout(1, 1)])
    for costs in compared.values():
        assert list(costs) == [16]
        assert 0 < costs[16] < 1
    assert list(found) == [WorkerLayout(1, 1), TWO]
    for networks in found.values():
        assert list(networks) == ["only"]
        assert 0 < networks["only"][16] < 1


def test_all_networks_and_batch_sizes_that_occur_are_calibrated() -> None:
    space: dict[str, list[Any]] = {
        "lr_policy": ["fixed"],
        "batch_policy": ["constant"],
        "batch_size": [1, 2, 100],
        "decoder": ["full", "reduced"],
        "weight_sharing": [True],
    }
    with probe(space=space, network="capsnet-narrow") as asked:
        found = asked.calibrate(asked.look("cpu"), [WorkerLayout(1, 1)])
    networks = found[WorkerLayout(1, 1)]
    assert list(networks) == ["full-shared", "reduced-shared"]
    for steps in networks.values():
        # Larger ones take as long as they have images.
        assert list(steps) == [1, 2, 64]
        assert 0 < steps[1] < steps[64]


def test_processes_that_cannot_be_forked_measure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a card: what is shared must reach a process that begins anew.
    definition = StudyDefinition.from_dict({**BASE, "space": ONE_BATCH})
    question = Question(definition, "cpu", [(None, None)], [16])
    context = multiprocessing.get_context("spawn")
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
    ((workers, threads, (steps,)),), left_out = benchmark([(2, 1)], question)
    assert (workers, threads, left_out) == (2, 1, "")
    assert 0 < steps[16] < 1


def test_a_device_that_is_not_here() -> None:
    with (
        probe() as asked,
        pytest.raises(UsageError, match="device cuda:63 must be on this machine, but it is not"),
    ):
        asked.look("cuda:63")


def test_devices_that_are_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the first would be calibrated, and what trains on the other refused.
    answer = {"devices": ["cuda:0", "cuda:1"], "names": ["a card", "another"], "setting": {}}
    monkeypatch.setattr(Probe, "_ask", lambda *_: answer)
    with (
        probe() as asked,
        pytest.raises(
            UsageError,
            match=r"^devices must be equal, got a card \(cuda:0\), another \(cuda:1\); start a "
            r"command for each kind, as with --devices cuda:0$",
        ),
    ):
        asked.look("auto")


def test_a_run_that_is_to_stop_does_not_wait_for_the_measurement() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(InterruptedRunError, match="interrupted before anything was trained"):
        look(stop=stop)


def test_what_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PROBE_SECONDS", 0.0)
    with pytest.raises(
        RunError, match=r"^a training step must be possible .*got nothing within 0 s; "
    ):
        look()


def test_the_processes_of_a_measurement_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A probe whose child, like those that train, would outlive it.
    program, told = tmp_path / "python", tmp_path / "told"
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho $! >{told}\nwait\n")
    program.chmod(0o700)
    os.mkfifo(told)
    monkeypatch.setattr(sys, "executable", str(program))
    stop = threading.Event()
    children: list[int] = []

    def stop_when_told() -> None:
        children.append(os.pidfd_open(int(told.read_text())))
        stop.set()

    thread = threading.Thread(target=stop_when_told)
    thread.start()
    with pytest.raises(InterruptedRunError):
        look(stop=stop)
    thread.join()
    assert select.select(children, [], [], 60)[0] == children
    os.close(children[0])


DEATH = """
import os, signal, sys
if "fastrcaps_search.training.probe" in sys.orig_argv:
    {}
"""


@pytest.fixture
def in_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has a line of Python done in the process of the next measurement as it starts."""

    def prepare(line: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(DEATH.format(line))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")

    return prepare


KILL = "os.kill(os.getpid(), signal.{})"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (KILL.format("SIGILL"), "SIGILL: this processor may be too old for this build of torch; "),
        (KILL.format("SIGSEGV"), "SIGSEGV: a fault in torch or another library"),
        (KILL.format("SIGKILL"), "SIGKILL: maybe for want of memory"),
        (
            "os.register_at_fork(after_in_child=lambda: " + KILL.format("SIGILL") + ")",
            "SIGILL: this processor may be too old for this build of torch; ",
        ),
        (
            "os.fork = lambda: [][0]",
            "IndexError: list index out of range; `fastrcaps-search doctor` shows what is",
        ),
        ("sys.modules['torch'] = None", "torch must be importable, got ModuleNotFoundError: "),
        ("os._exit(9)", "exit code 9; "),
    ],
)
def test_what_ends_a_measurement_is_named(
    in_the_probe: Callable[[str], None], line: str, said: str
) -> None:
    in_the_probe(line)
    with pytest.raises(RunError) as error, probe() as asked:
        asked.calibrate(asked.look("cpu"), [WorkerLayout(1, 2)])
    assert said in str(error.value)
    assert "torch must" not in str(error.value) or "torch" in line
    assert "\n" not in str(error.value)


def test_who_asks_a_whole_job_to_stop_may_reach_the_measurement_first(
    in_the_probe: Callable[[str], None],
) -> None:
    in_the_probe(KILL.format("SIGTERM"))
    with pytest.raises(InterruptedRunError, match="interrupted before anything was trained"):
        look()
