"""A real Ray cluster of two nodes on this machine, for the tests alone: no other can reach it."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.servers import Server
from tests.store.workers import until

ADDRESS = "http://127.0.0.1:8265"
HEAD, OTHER = "127.0.0.1", "127.0.0.2"
"""Hosts of the two nodes."""
CLONE_NEWNET = 0x40000000
SMALL = "--num-cpus=1 --memory=1000000000 --object-store-memory=80000000"
START = f"""
ip link set lo up &&
"$0" start --head --node-ip-address={HEAD} --temp-dir="$1" {SMALL} --num-gpus=0 >&2 &&
"$0" start --address={HEAD}:6379 --node-ip-address={OTHER} {SMALL} --num-gpus=2 >&2 || exit
echo started
cat
"""
"""For the first process of the namespaces, which inherits orphans and clears them away when they
end: Ray counts one that nobody did as alive. It ends, and all others with it, with its input."""
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray gives a job a quarter of an hour to find room.
    "RAY_JOB_START_TIMEOUT_SECONDS": "60",
    # A node that is lost is noticed after three seconds, where Ray waits for fifteen.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_timeout_ms": "1000",
}


def may_have_namespaces() -> bool:
    """Whether this process may make a network of its own, and enter it."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    return subprocess.run(["unshare", "--net", "--pid", "true"], check=False).returncode == 0


class RayPair(Server):
    """Two nodes of one core each, ``with RayPair() as pair``; the second has two GPUs, it says.

    Ray's daemons listen on every interface: they have a network namespace of their own, with only
    a loopback interface. They end with the process that started them.

    Attributes:
        access: Variables without which it answers nobody.
    """

    def __init__(self) -> None:
        super().__init__("ray")
        token = self.folder / "token"
        token.write_text(secrets.token_hex(32))
        self.access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}

    def start(self) -> None:
        """Start both nodes."""
        ray = str(Path(sys.executable).with_name("ray"))
        apart = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with (self.folder / "start.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*apart, "sh", "-c", START, ray, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **SETTINGS, **self.access},
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said == b"started\n", (self.folder / "start.log").read_text()

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End all that runs there."""
        process.communicate()

    @contextmanager
    def network(self) -> Iterator[None]:
        """Have this thread, and what it starts, in the cluster's network."""
        own = Path("/proc/thread-self/ns/net")
        with own.open("rb") as before, Path(f"/proc/{self.pid}/ns/net").open("rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def processes(self) -> list[int]:
        """Ids here of all that run there."""
        apart = Path(f"/proc/{self.pid}/ns/pid_for_children").readlink()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "ns/pid").readlink() == apart:
                    found.append(int(process.name))
        return found

    def lose_a_node(self, *, when: Callable[[], bool]) -> None:
        """End the second node and all that runs on it as the end of its machine would.

        Args:
            when: What is to be so in that very moment.
        """

        def is_the_moment() -> bool:
            if not when():
                return False
            self._send(signal.SIGSTOP)
            if when():
                return True
            self._send(signal.SIGCONT)
            return False

        until(is_the_moment)
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        """Send a signal to the second node's raylet and all below it."""
        lines, parents = processes(), {}
        for process in self.processes():
            with suppress(OSError):
                status = Path(f"/proc/{process}/stat").read_text()
                parents[process] = int(status.rpartition(")")[2].split()[1])
        (raylet,) = (
            process
            for process in parents
            if "/raylet/raylet " in lines.get(process, "") and OTHER in lines[process]
        )
        node = [raylet]
        for one in node:
            node += [process for process, parent in parents.items() if parent == one]
        for one in node:
            os.kill(one, number)


def processes() -> dict[int, str]:
    """Command lines of all processes, by their ids."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ")
            found[int(process.name)] = line.decode(errors="replace")
    return found


def _enter(network: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(network, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
