"""Workers as processes of this machine: started, heard, stopped, outlived."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from fastrcaps_search.errors import DiskError
from fastrcaps_search.search.events import Events
from fastrcaps_search.search.launch.launcher import (
    LAUNCHERS,
    WorkerSpec,
    worker_command,
    worker_environment,
)
from fastrcaps_search.store.host import is_suspended


class LocalWorker:
    """A worker that runs as a child of this process.

    Args:
        spec: How to start it.
        events: Receives what it says.
        command: Its command line.
    """

    def __init__(self, spec: WorkerSpec, events: Events, command: list[str]) -> None:
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
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=worker_environment(spec, os.environ),
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        heard = (spec.name, events, self.process.stdout)
        threading.Thread(target=_listen, args=heard, daemon=True).start()

    @property
    def is_suspended(self) -> bool:
        """Whether it was stopped by a signal that lets it go on later."""
        return is_suspended(self.process.pid)

    def stop(self) -> None:
        """Ask it to stop after its current step."""
        self.process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def wait(self, seconds: float) -> int | None:
        """Exit code, or ``None`` when it still runs after ``seconds``."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Close the pipe to it."""
        if self.process.stdin is not None:
            self.process.stdin.close()


def _listen(name: str, events: Events, lines: IO[str]) -> None:
    try:
        with lines:
            for line in lines:
                # What a launcher's own program prints is no event.
                with suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict) and "event" in event:
                        events.put((name, event))
    finally:
        events.put((name, None))


@dataclass(frozen=True, slots=True)
class LocalLauncher:
    """Starts workers as children of this process.

    Attributes:
        name: As ``--launcher`` takes it.
        prefix: Put before the worker's command line: ``("nice",)``, for example. The program must
            hand on standard input and output, signals and the exit code.
    """

    name: str = "local"
    prefix: tuple[str, ...] = ()

    def start(self, spec: WorkerSpec, events: Events) -> LocalWorker:
        """Start a worker.

        Raises:
            DiskError: Its log cannot be written.
        """
        return LocalWorker(spec, events, [*self.prefix, *worker_command(spec)])


LOCAL = LocalLauncher()
LAUNCHERS.register(LOCAL)
