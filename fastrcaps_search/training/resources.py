"""What of this machine a process may use: cores and memory. Imports nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Limits of the container, where this is one (version 2 of the kernel's control groups)."""
MEMORY = Path("/proc/meminfo")
CARD_DRIVER = Path("/dev/nvidiactl")


def cores() -> int:
    """Cores that this process may use: those of its affinity, within the container's quota."""
    allowed = len(_affinity())
    # A quota is time, not a mask: more threads than it pays for are all halted together.
    quota, _, period = _limit("cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        allowed = min(allowed, int(quota) // int(period))
    return max(allowed, 1)


def core_ids() -> tuple[int, ...]:
    """Ids of the cores that this process may use, in order: as many as :func:`cores` counts."""
    return tuple(sorted(_affinity())[: cores()])


def may_have_cards() -> bool:
    """Whether a driver of cards is here; torch, which takes seconds to ask, may still see none."""
    return CARD_DRIVER.exists()


def available_bytes() -> int | None:
    """Memory that can still be used without swapping; ``None`` where the system does not say."""
    limit, used = _limit("memory.max"), _limit("memory.current")
    found = [int(limit) - int(used)] if limit.isdecimal() and used.isdecimal() else []
    for line in _read(MEMORY).splitlines():
        key, _, value = line.partition(":")
        if key == "MemAvailable":
            found.append(int(value.split()[0]) * 1024)
    return min(found, default=None)


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _limit(name: str) -> str:
    return _read(CGROUP / name)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
