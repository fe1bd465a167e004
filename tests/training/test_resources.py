"""Cores and memory of this machine, and of pretended containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastrcaps_search.training import resources
from fastrcaps_search.training.resources import available_bytes, core_ids, cores

HERE = len(os.sched_getaffinity(0))
MEMORY = "MemTotal:       24000000 kB\nMemFree:  9 kB\nMemAvailable:   20000 kB\n"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the limits of a container, which has none at first."""
    (tmp_path / "meminfo").write_text(MEMORY)
    monkeypatch.setattr(resources, "CGROUP", tmp_path)
    monkeypatch.setattr(resources, "MEMORY", tmp_path / "meminfo")
    return tmp_path


@pytest.mark.parametrize(
    ("quota", "found"),
    [
        (None, HERE),
        ("max 100000", HERE),
        ("100000 100000", 1),
        ("50000 100000", 1),  # half a core is one thread
        ("190000 100000", 1),
        ("6400000 100000", HERE),
        ("", HERE),
    ],
)
def test_cores_are_those_of_the_affinity_within_the_quota(
    machine: Path, quota: str | None, found: int
) -> None:
    if quota is not None:
        (machine / "cpu.max").write_text(quota + "\n")
    assert cores() == found


def test_a_quota_above_one_core_counts_whole_cores(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert cores() == 16
    (machine / "cpu.max").write_text("350000 100000\n")
    assert cores() == 3


def test_core_ids_are_the_lowest_of_the_affinity_within_the_quota(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {9, 4, 200, 5})
    assert core_ids() == (4, 5, 9, 200)
    (machine / "cpu.max").write_text("250000 100000\n")
    assert core_ids() == (4, 5)
    (machine / "cpu.max").write_text("50000 100000\n")
    assert core_ids() == (4,)


def test_core_ids_where_the_system_has_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert (core_ids(), cores()) == ((0, 1, 2), 3)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert (core_ids(), cores()) == ((0,), 1)


@pytest.mark.parametrize(
    ("limit", "found"),
    [(None, 20_480_000), ("max", 20_480_000), ("1000000", 600_000), ("99000000", 20_480_000)],
)
def test_memory_is_what_is_available_within_the_limit(
    machine: Path, limit: str | None, found: int
) -> None:
    if limit is not None:
        (machine / "memory.max").write_text(limit + "\n")
        (machine / "memory.current").write_text("400000\n")
    assert available_bytes() == found


def test_a_system_that_does_not_say(machine: Path) -> None:
    (machine / "meminfo").unlink()
    assert available_bytes() is None
