"""What of this machine a process may use: its cores. Imports nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Limits of the container, where this is one (version 2 of the kernel's control groups)."""
CARD_DRIVER = Path("/dev/nvidiactl")


def cores() -> int:
    """Cores that this process may use: those of its affinity, within the container's quota."""
    allowed = len(_affinity())
    # A quota is time, not a mask: more threads than it pays for are all halted together.
    try:
        quota, _, period = (CGROUP / "cpu.max").read_text().strip().partition(" ")
    except OSError:
        return allowed
    if quota.isdecimal() and period.isdecimal():
        allowed = min(allowed, int(quota) // int(period))
    return max(allowed, 1)


def core_ids() -> tuple[int, ...]:
    """Ids of the cores that this process may use, in order: as many as :func:`cores` counts."""
    return tuple(sorted(_affinity())[: cores()])


def may_have_cards() -> bool:
    """Whether a driver of cards is here; torch, which takes seconds to ask, may still see none."""
    return CARD_DRIVER.exists()


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
