"""What the servers of the tests have in common: a folder and a process, gone at the end."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.store.workers import until

START_SECONDS = 60.0


class Server:
    """A server that runs within ``with``; where it does not start, nothing is left either.

    Args:
        kind: Part of its folder's name.

    Attributes:
        folder: Of its files.
        process: Itself while it runs.
    """

    def __init__(self, kind: str) -> None:
        # Not pytest's folder: only the tester may enter that, and a socket's path must be short.
        self.folder = Path(tempfile.mkdtemp(prefix=f"fastrcaps-{kind}-", dir="/tmp"))
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it; return when it answers."""
        raise NotImplementedError

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End its process and all that belongs to it."""
        process.kill()
        process.wait()

    def close(self) -> None:
        """End it if it runs, and remove its folder."""
        try:
            if self.process is not None:
                self.end(self.process)
        finally:
            self.process = None
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self.process is not None, "the server must run"
        return self.process.pid


def wait_for(process: subprocess.Popen[bytes], answers: Callable[[], bool], log: Path) -> None:
    """Return once a server answers; say what it has logged where it ends or takes too long."""

    def has_come() -> bool:
        assert process.poll() is None, f"it has ended:\n{log.read_text(errors='replace')}"
        return answers()

    until(has_come, START_SECONDS, said=lambda: log.read_text(errors="replace"))
