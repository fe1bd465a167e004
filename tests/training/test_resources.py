"""Cores of this machine, and of pretended containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastrcaps_search.training import resources
from fastrcaps_search.training.resources import core_ids, cores

HERE = len(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the limits of a container, which has none at first."""
    monkeypatch.setattr(resources, "CGROUP", tmp_path)
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
