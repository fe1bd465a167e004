"""What of this machine a process may use, and its environment where it trains. Not heavy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Limits of the container, where this is one (version 2 of the kernel's control groups)."""
CARD_DRIVER = Path("/dev/nvidiactl")

ALLOCATOR = {
    # Large tensors come back with every step: glibc would give their pages to the kernel and
    # fault them in again each time (measured: up to twice the time of a step at batch 128).
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
    "MALLOC_TOP_PAD_": "268435456",
    # Large pages where the kernel gives them for the asking: fewer misses of the address cache
    # (measured: 5 % to 8 % of a narrow step while two workers share two cores).
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

WAITING = {
    # A thread that waits for the others gives its core away at once, where it would spin on it
    # for a while: the one that all wait for may have no core yet, because another worker or
    # program is on it (measured, two processes of two threads on two cores, a narrow network at
    # batch 16: 760 to 790 images/s, 13 to 280 with spinning; alone up to 9 % less).
    "OMP_WAIT_POLICY": "passive",
}
WAITING_VARIABLES = frozenset({"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
"""Any of these says how threads wait: torch comes with GNU's OpenMP, or is built with Intel's."""


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


def torch_environment(base: Mapping[str, str], *, threads: int) -> dict[str, str]:
    """Environment of a process that trains, or measures how fast training is.

    What the user has set stands, but for the number of threads.
    """
    return {
        **ALLOCATOR,
        **({} if WAITING_VARIABLES & base.keys() else WAITING),
        **base,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
