"""What of this machine a process may use, and its environment where it trains. Not heavy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROCESS = Path("/proc/self")
"""Where the kernel says which control groups this process is in, and where they are mounted."""
GROUP = re.compile(r"(?m)^\d+:([^:]*):(.+)$")
"""Controllers (none in version 2) and path of a line of ``cgroup``."""
MOUNT = re.compile(r"(?m)^(?:\S+ ){3}(\S+) (\S+) .*- cgroup(2?) .*?(\S+)$")
"""Root, place, version and options of a line of ``mountinfo`` that mounts control groups."""
GRANTS = (
    *("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS"),
    *("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "PBS_NUM_PPN", "LSB_DJOB_NUMPROC", "NSLOTS"),
)
"""Set by users and batch systems (Slurm, Torque, LSF, Grid Engine): cores that a command gets."""
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


class Limit(NamedTuple):
    """How much of something may be used.

    Attributes:
        amount: How much.
        by: What says so; empty where the machine has no more.
    """

    amount: int
    by: str = ""

    @property
    def words(self) -> str:
        """``2 by SLURM_CPUS_PER_TASK=2``."""
        return f"{self.amount} by {self.by}" if self.by else str(self.amount)


def granted_cores() -> Limit:
    """Cores that a command may use: those of this process, or as many as a variable grants."""
    limits = [cores()]
    for name in GRANTS:
        # OpenMP takes a list, of which the first is for threads that start no others.
        if found := re.match(r"\s*0*([1-9]\d{0,8})\s*(,|$)", os.environ.get(name, "")):
            limits.append(Limit(int(found[1]), f"{name}={found[1]}"))
    return min(limits)


def cores() -> Limit:
    """Cores that this process may use: those of its affinity, within its control groups' quotas.

    All processes of a user share them, whatever was granted to each.
    """
    count = len(_affinity())
    limits = [Limit(count, "the CPU affinity" if count < (os.cpu_count() or 1) else "")]
    for group in _control_groups("cpu"):
        # In version 2 of control groups, or in version 1.
        both = _text(group / "cpu.max") or " ".join(
            _text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")
        )
        quota, _, period = both.partition(" ")
        if quota.isdecimal() and period.isdecimal():
            # A quota is time, not a mask: more threads than it pays for are all halted together.
            limits.append(Limit(max(int(quota) // int(period), 1), f"the CPU quota of {group}"))
    return min(limits)


def memory() -> Limit:
    """Bytes of memory that this process may use together with those that it starts."""
    limits = [Limit(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]
    for group in _control_groups("memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            if (text := _text(group / name)).isdecimal():
                limits.append(Limit(int(text), f"the memory limit of {group}"))
    return min(limits)


def _control_groups(controller: str) -> Iterator[Path]:
    """Folders of the control groups of this process, and of those above, that can be seen here."""
    groups = GROUP.findall(_text(PROCESS / "cgroup"))
    for root, top, version, options in MOUNT.findall(_text(PROCESS / "mountinfo")):
        wanted = "" if version == "2" else controller
        for controllers, path in groups:
            if wanted in controllers.split(",") and wanted in ("", *options.split(",")):
                # In a container its own group may be mounted in place of the topmost one.
                below = Path(path).relative_to(root) if Path(path).is_relative_to(root) else "."
                group = Path(top, below)
                yield from (one for one in (group, *group.parents) if one.is_relative_to(top))


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace").strip()
    return ""


def core_ids() -> tuple[int, ...]:
    """Ids of the cores that this process may use, in order: as many as :func:`cores` counts."""
    return tuple(sorted(_affinity())[: cores().amount])


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
