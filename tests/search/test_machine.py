"""The real measurement, in processes of its own, of a network that trains fast."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError, RunError, UsageError
from fastrcaps_search.search import machine
from fastrcaps_search.search.layouts import DeviceOptions, MachineInfo
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.training.device import device_name

BASE = {
    "name": "s",
    "network": "lenet5",
    "train_images": 100,
    "epochs": 2,
    "boundaries": [1],
    "batch_size": 16,
}
ONE_BATCH = {"lr_policy": ["fixed", "one_cycle"], "batch_policy": ["constant"]}


def inspect(
    options: DeviceOptions,
    *,
    known: tuple[str, ...] = (),
    space: dict[str, list[str]] = ONE_BATCH,
    stop: threading.Event | None = None,
) -> MachineInfo:
    return machine.inspect_machine(
        StudyDefinition.from_dict({**BASE, "space": space}),
        options,
        cores=2,
        known=known,
        stop=stop or threading.Event(),
    )


def test_layouts_are_compared_where_the_workers_are_to_be_chosen() -> None:
    seen = inspect(DeviceOptions("cpu"))
    assert (seen.devices, seen.device_name) == (("cpu",), device_name("cpu"))
    assert list(seen.step_seconds) == [WorkerLayout(1, 2), WorkerLayout(2, 1)]
    for costs in seen.step_seconds.values():
        assert list(costs) == [16]
        assert 0 < costs[16] < 1


def test_a_study_of_one_training_has_nothing_to_compare() -> None:
    seen = inspect(DeviceOptions("cpu"), space={**ONE_BATCH, "lr_policy": ["fixed"]})
    assert list(seen.step_seconds) == [WorkerLayout(1, 2)]


def test_workers_that_were_asked_for_are_measured_alone() -> None:
    assert list(inspect(DeviceOptions("cpu", workers=2)).step_seconds) == [WorkerLayout(1, 1)]


def test_a_known_device_is_not_measured() -> None:
    assert inspect(DeviceOptions("cpu"), known=("another", device_name("cpu"))).step_seconds == {}


def test_a_device_that_is_not_here() -> None:
    with pytest.raises(UsageError, match="device cuda:63 must be on this machine, but it is not"):
        inspect(DeviceOptions("cuda:63"))


def test_a_run_that_is_to_stop_does_not_wait_for_the_measurement() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(InterruptedRunError, match="interrupted before anything was trained"):
        inspect(DeviceOptions("cpu"), stop=stop)


def test_what_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PROBE_SECONDS", 0.0)
    with pytest.raises(
        RunError, match=r"^a training step must be possible .*got nothing within 0 s; "
    ):
        inspect(DeviceOptions("cpu"))


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
        inspect(DeviceOptions("cpu"), stop=stop)
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
    with pytest.raises(RunError) as error:
        inspect(DeviceOptions("cpu", workers=1))
    assert said in str(error.value)
    assert "torch must" not in str(error.value) or "torch" in line
    assert "\n" not in str(error.value)


def test_who_asks_a_whole_job_to_stop_may_reach_the_measurement_first(
    in_the_probe: Callable[[str], None],
) -> None:
    in_the_probe(KILL.format("SIGTERM"))
    with pytest.raises(InterruptedRunError, match="interrupted before anything was trained"):
        inspect(DeviceOptions("cpu"))
