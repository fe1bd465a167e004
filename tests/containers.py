"""Commands under the conditions of a container, which ``unshare`` makes as Docker would."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import fastrcaps_search

PACKAGES = str(Path(fastrcaps_search.__path__[0]).parent)
IMAGE = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", sys.prefix, sys.base_prefix, PACKAGES)
"""Where the system, Python and the package lie outside; inside they lie there too."""
DEVICES = ("null", "zero", "full", "random", "urandom")
ENTRYPOINT = (sys.executable, "-P", "-m", "fastrcaps_search")
TMPFS = "mode=1777,nosuid,nodev,noexec"
"""As Docker mounts it."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """Starts commands as process 1 of processes of their own, in a root of their own.

    The root is read-only and has no ``/dev/shm``. The user has no name, no home, no other group
    and no capability, now or later.

    Attributes:
        root: An empty folder, on which the root is mounted.
        user: Number of the user and of its group.
        name: Of the machine.
        environment: All variables.
        volumes: Folders outside, by the place where they are mounted.
        temporary: Places where a new tmpfs is mounted.
        work: Working directory.
    """

    root: Path
    user: int
    name: str
    environment: Mapping[str, str]
    volumes: Mapping[str, Path]
    temporary: tuple[str, ...]
    work: str

    def start(self, *arguments: str) -> RunningContainer:
        """Start the command of the package with these arguments.

        Raises:
            pytest.skip.Exception: This user may not mount, or not become another.
        """
        kinds = ("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
        line = ["/usr/bin/unshare", *kinds, "/bin/sh", "-euc"]
        become = (
            *("setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
        )
        able = subprocess.run(
            [*line, shlex.join([*become, "true"])], capture_output=True, check=False
        )
        if os.geteuid() != 0 or able.returncode != 0:
            pytest.skip("needs root's rights, to mount and to become another user")
        command = (*become, "env", f"--chdir={self.work}", *ENTRYPOINT, *arguments)
        enter = shlex.join(["exec", "/usr/sbin/chroot", str(self.root), *command])
        process = subprocess.Popen(
            [*line, "\n".join([*self._steps(), enter])],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": PACKAGES, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return RunningContainer(process)

    def _steps(self) -> Iterator[str]:
        yield shlex.join(["hostname", self.name])
        yield shlex.join(["mount", "-t", "tmpfs", "-o", "mode=755", "root", str(self.root)])
        for place in ("/proc", *self.temporary, *self.volumes, self.work):
            yield self._at("mkdir -p", place)
        yield self._at("mount -t proc proc", "/proc")
        for place in self.temporary:
            yield self._at(f"mount -t tmpfs -o {TMPFS} tmpfs", place)
        for place in dict.fromkeys(IMAGE):
            if Path(place).is_symlink():
                yield self._at(shlex.join(["cp", "-P", place]), place)
            elif Path(place).exists():
                yield self._at("mkdir -p", place)
                yield self._at(shlex.join(["mount", "--bind", place]), place)
                yield self._at("mount -o remount,bind,ro", place)
        for device in DEVICES:
            yield self._at("mkdir -p", "/dev")
            yield self._at("touch", f"/dev/{device}")
            yield self._at(f"mount --bind /dev/{device}", f"/dev/{device}")
        for place, folder in self.volumes.items():
            yield self._at(shlex.join(["mount", "--bind", str(folder)]), place)
        yield self._at("mount -o remount,ro", "")

    def _at(self, command: str, place: str) -> str:
        return f"{command} {shlex.quote(f'{self.root}{place}')}"


class RunningContainer:
    """A command that was started as a container's.

    Args:
        process: What started it; it ends as the command does.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def stop(self, *, within: float) -> tuple[int, str, str]:
        """Ask process 1 to end, as engines do; exit code and output of the command.

        Args:
            within: Seconds; a command that takes longer is killed with all of its processes.

        Raises:
            AssertionError: It took longer, or a process of the container is left.
        """
        (first,) = self._children()
        namespace = Path(f"/proc/{first}/ns/pid").readlink()
        os.kill(first, signal.SIGTERM)
        found = self.wait(within)
        left = [path for path in Path("/proc").glob("[0-9]*/ns/pid") if _link(path) == namespace]
        assert left == []
        return found

    def wait(self, seconds: float) -> tuple[int, str, str]:
        """Exit code and output of the command once it has ended.

        Raises:
            AssertionError: It took longer.
        """
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"it took more than {seconds} s:\n{out}\n{err}") from None
        return self.process.returncode, out, err

    def _children(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in tasks.read_text().split()]


def _link(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None
