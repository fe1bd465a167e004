from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from fastrcaps_search.store.process_identity import ProcessIdentity, process_start

ME = ProcessIdentity.current()


def test_this_process_is_alive() -> None:
    assert ME.pid == os.getpid()
    assert not ME.is_known_dead


def test_a_process_that_has_ended_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert replace(ME, pid=child.pid, process_start=1).is_known_dead


def test_a_killed_process_is_dead_before_its_parent_has_noticed() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    start = process_start(child.pid)
    assert start is not None
    identity = replace(ME, pid=child.pid, process_start=start)
    dead_before = identity.is_known_dead
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert (dead_before, identity.is_known_dead) == (False, True)
    child.communicate()


def test_another_process_under_the_same_pid_is_another_process() -> None:
    assert replace(ME, process_start=ME.process_start + 1).is_known_dead


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"pid_namespace": "pid:[1]"}])
def test_another_host_or_container_cannot_be_judged(change: dict[str, str]) -> None:
    assert not replace(ME, pid=2**22 - 1, **change).is_known_dead  # type: ignore[arg-type]  # strings all


def test_another_boot_may_be_that_of_another_machine_of_this_name() -> None:
    assert not replace(ME, boot_id="another boot", pid=2**22 - 1).is_known_dead
