"""Which process, on which machine: enough to tell a dead worker from a live one."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path


# Not slotted: a lease is one of its own.
@dataclass(frozen=True)
class ProcessIdentity:
    """One process, once: a pid alone comes back after a reboot or a wrap-around.

    Attributes:
        host: Host name with the machine's own id.
        boot_id: Changes with every boot; empty where unknown.
        pid_namespace: Containers of one machine share the boot but not the pids; empty where
            unknown.
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
        return cls(*_here(), pid, process_start(pid) or 0)

    @property
    def is_known_dead(self) -> bool:
        """Whether this process surely lives no more, as far as this machine can tell.

        That can be told only of one that began in this boot and among these pids. Cloned machines
        and containers of one image go by the same name and machine id, so that another boot may
        as well be that of another machine.
        """
        if not self._is_here:
            return False
        start = process_start(self.pid)
        return start is None or (
            0 not in (start, self.process_start) and start != self.process_start
        )

    @property
    def is_known_suspended(self) -> bool:
        """Whether this process was stopped and may go on, as far as this machine can tell."""
        return self._is_here and not self.is_known_dead and is_suspended(self.pid)

    @property
    def host_name(self) -> str:
        """The host's name alone."""
        return without_machine_id(self.host)

    @property
    def _is_here(self) -> bool:
        here = _here()
        return "" not in here and (self.host, self.boot_id, self.pid_namespace) == here


def without_machine_id(host: str) -> str:
    """The name of a host alone; its machine id is nobody's business."""
    name, separator, _ = host.rpartition("/")
    return name if separator else host


def process_start(pid: int) -> int | None:
    """Start time of a live process in clock ticks since boot; ``None`` when it is no more.

    A zombie counts as dead. A live process of which ``/proc`` says nothing gives 0.
    """
    fields = _stat(pid)
    if fields:
        return None if fields[0] in "ZX" else int(fields[19])
    # Other users' processes may be hidden from /proc.
    try:
        os.kill(pid, 0)
    except PermissionError:
        return 0
    except ProcessLookupError:
        return None
    return 0


def is_suspended(pid: int) -> bool:
    """Whether a process was stopped by a signal that lets it go on later."""
    fields = _stat(pid)
    return bool(fields) and fields[0] in "Tt"


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on; nothing where it says nothing."""
    # The command name, in brackets, may hold blanks and brackets itself.
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


@cache
def _here() -> tuple[str, str, str]:
    """Host, boot and pid namespace of this process."""
    host, machine = platform.node(), _read("/etc/machine-id")
    pid_namespace = ""
    with suppress(OSError):
        # A /proc that was mounted outside of this namespace speaks of other processes.
        if str(Path("/proc/self").readlink()) == str(os.getpid()):
            pid_namespace = str(Path("/proc/self/ns/pid").readlink())
    boot_id = _read("/proc/sys/kernel/random/boot_id")
    return f"{host}/{machine}" if machine else host, boot_id, pid_namespace
