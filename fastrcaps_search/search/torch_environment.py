"""The environment of processes that train, or measure how fast training is."""

from __future__ import annotations

from collections.abc import Mapping

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
