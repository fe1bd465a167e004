"""Which process, on which machine: enough to tell a dead worker from a live one."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, once: a pid alone comes back after a reboot or a wrap-around.

    Attributes:
        host: Host name with the machine's own id.
        boot_id: Changes with every boot.
        pid_namespace: Containers of one machine share the boot but not the pids.
        pid: Process id.
        process_start: Start time of the process in the kernel's ticks; 0 where unknown.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: int

    @classmethod
    def current(cls) -> ProcessIdentity:
        """This process."""
        pid = os.getpid()
        return cls(
            host=_host(),
            boot_id=_boot_id(),
            pid_namespace=_pid_namespace(),
            pid=pid,
            process_start=process_start(pid) or 0,
        )

    @property
    def is_known_dead(self) -> bool:
        """Whether this process surely lives no more, as far as this machine can tell.

        A process of another machine, or of another container, is never known to be dead.
        """
        here = (_host(), _boot_id(), _pid_namespace())
        if self.host != here[0]:
            return False
        if self.boot_id != here[1]:
            return True
        if self.pid_namespace != here[2]:
            return False
        start = process_start(self.pid)
        return start is None or (
            0 not in (start, self.process_start) and start != self.process_start
        )


def process_start(pid: int) -> int | None:
    """Start time of a live process in clock ticks since boot; ``None`` when it is no more.

    A zombie counts as dead. A live process of which ``/proc`` says nothing gives 0.
    """
    fields = _stat(pid)
    if not fields:
        return _alive_without_proc(pid)
    return None if fields[0] in "ZX" else int(fields[19])


def is_suspended(pid: int) -> bool:
    """Whether a process was stopped by a signal that lets it go on later."""
    fields = _stat(pid)
    return bool(fields) and fields[0] in "Tt"


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on; nothing where it says nothing."""
    # The command name, in brackets, may hold blanks and brackets itself.
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _alive_without_proc(pid: int) -> int | None:
    # Other users' processes may be hidden from /proc.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


@cache
def _host() -> str:
    machine = _read("/etc/machine-id")
    return f"{platform.node()}/{machine}" if machine else platform.node()


@cache
def _boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id")


@cache
def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
