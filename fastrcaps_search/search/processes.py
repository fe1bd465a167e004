"""Worker processes: started with an environment of their own, heard, stopped, outlived."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.errors import DiskError
from fastrcaps_search.store.host import is_suspended
from fastrcaps_search.store.place import (
    FILES_VARIABLE,
    LEASE_SECONDS,
    PATIENCE_SECONDS,
    STORAGE_VARIABLE,
    Location,
)

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


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a worker is to be started.

    Attributes:
        study: Name of the study.
        name: Name of the worker.
        device: ``cpu`` or ``cuda:N``.
        threads: Threads of torch.
        location: The database and the folder of the checkpoints.
        log: File for what the worker and its libraries print.
        data_folder: Folder with image data, if one was named.
        lease_seconds: Silence after which another worker may take over a trial of this one.
        store_patience: Seconds for which an outage of the database is borne.
    """

    study: str
    name: str
    device: str
    threads: int
    location: Location
    log: Path
    data_folder: Path | None = None
    lease_seconds: float = LEASE_SECONDS
    store_patience: float = PATIENCE_SECONDS


def worker_environment(spec: WorkerSpec, base: Mapping[str, str]) -> dict[str, str]:
    """Environment of a worker: its storage, its card, its threads, its allocator."""
    found = {
        **torch_environment(base, threads=spec.threads),
        # In the environment: a password must not stand on the command line.
        STORAGE_VARIABLE: spec.location.url,
        FILES_VARIABLE: str(spec.location.files),
    }
    if spec.data_folder is not None:
        found[DATA_VARIABLE] = str(spec.data_folder)
    kind, _, card = known_device(spec.device, base).partition(":")
    if kind == "cuda":
        # The card is chosen before torch starts; the worker sees no other.
        found["CUDA_VISIBLE_DEVICES"] = card
    return found


def known_device(device: str, base: Mapping[str, str]) -> str:
    """``cpu``, or ``cuda:`` with the name by which every process of this machine knows the card.

    ``cuda:0`` is another card for each process that was given cards of its own to see.
    """
    kind, _, index = device.partition(":")
    names = [name.strip() for name in base.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    if kind != "cuda" or names == [""]:
        return device
    return f"cuda:{names[int(index)]}"


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


class WorkerProcess:
    """A started worker.

    Args:
        spec: How to start it.
        events: Receives ``(worker name, event)`` for each line the worker says, and
            ``(worker name, None)`` when it says no more.
    """

    def __init__(
        self, spec: WorkerSpec, events: queue.Queue[tuple[str, dict[str, Any] | None]]
    ) -> None:
        self.spec = spec
        self._events = events
        try:
            spec.log.parent.mkdir(parents=True, exist_ok=True)
            log = spec.log.open("ab")
        except OSError as error:
            raise DiskError(
                f"{spec.log.parent} must be a folder that can be written, got: "
                f"{error.strerror}; mend it, or name another with --files"
            ) from error
        with log:
            self.process = subprocess.Popen(
                _command(spec),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=worker_environment(spec, os.environ),
                text=True,
                encoding="utf-8",
            )
        thread = threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True)
        thread.start()

    def _listen(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                self._events.put((self.spec.name, event))
        self._events.put((self.spec.name, None))

    @property
    def is_suspended(self) -> bool:
        """Whether the worker was stopped by a signal that lets it go on later."""
        return is_suspended(self.process.pid)

    def stop(self) -> None:
        """Ask the worker to stop after its current step."""
        if self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> None:
        """End the worker at once."""
        if self.process.poll() is None:
            self.process.kill()

    def wait(self, seconds: float) -> int | None:
        """Exit code, or ``None`` when it still runs after ``seconds``."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Close the pipe to the worker."""
        if self.process.stdin is not None:
            self.process.stdin.close()


def _command(spec: WorkerSpec) -> list[str]:
    # -P: the working directory is the user's and must not shadow modules.
    return [
        *(sys.executable, "-P", "-m", "fastrcaps_search.search.worker"),
        *("--study", spec.study, "--name", spec.name),
        *("--device", known_device(spec.device, os.environ), "--threads", str(spec.threads)),
        *("--lease-seconds", str(spec.lease_seconds)),
        *("--store-patience", str(spec.store_patience)),
    ]
