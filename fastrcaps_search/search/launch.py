"""How workers are started: here as processes of this machine, elsewhere as a plug-in says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Protocol

from fastrcaps_search.data.data_set import DATA_VARIABLE
from fastrcaps_search.errors import RunError
from fastrcaps_search.processes import child_command, start_thread, started
from fastrcaps_search.registry import Registry
from fastrcaps_search.search.events import Events
from fastrcaps_search.search.files import open_log
from fastrcaps_search.store.location import FILES_VARIABLE, STORAGE_VARIABLE, Location, locate
from fastrcaps_search.store.process_identity import is_suspended
from fastrcaps_search.training.resources import torch_environment


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a worker is to be started.

    Attributes:
        study: Name of the study.
        name: Name of the worker.
        device: ``cpu`` or ``cuda:N``.
        threads: Threads of torch.
        location: The database and the place of the checkpoints.
        log: File for what the worker and its libraries print.
        lease_seconds: Silence after which another worker may take over a trial of this one.
        store_patience: Seconds for which an outage of the database is borne.
        data_folder: Folder with image data, if one was named.
        idle_limit: Seconds without anything to claim after which it ends, if there are any.
    """

    study: str
    name: str
    device: str
    threads: int
    location: Location
    log: Path
    lease_seconds: float
    store_patience: float
    data_folder: Path | None = None
    idle_limit: float | None = None


class WorkerHandle(Protocol):
    """A worker that was started."""

    @property
    def is_suspended(self) -> bool:
        """Whether it was stopped in a way that lets it go on later."""

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or ``None`` when it still runs after ``seconds``."""

    def stop(self) -> None:
        """Ask it to stop after its current step."""

    def kill(self) -> None:
        """End it at once, unless it has ended, and let go of what connects it to this process."""


class Launcher(Protocol):
    """Starts workers."""

    @property
    def name(self) -> str:
        """As ``--launcher`` takes it."""

    def start(self, spec: WorkerSpec, events: Events) -> WorkerHandle:
        """Start a worker.

        Args:
            spec: How.
            events: Is to receive what the worker tells, a JSON object a line on its standard
                output, and ``(name, None)`` when it tells no more.

        Raises:
            FastrcapsError: It cannot be started.
        """


LAUNCHERS: Registry[Launcher] = Registry("launcher")


def worker_environment(spec: WorkerSpec, base: Mapping[str, str]) -> dict[str, str]:
    """Environment of a worker: its storage, its card, its threads, its allocator."""
    found = {
        **torch_environment(base, threads=spec.threads),
        # In the environment: a password must not stand on the command line.
        STORAGE_VARIABLE: spec.location.url,
        FILES_VARIABLE: spec.location.place,
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


def worker_command(spec: WorkerSpec) -> list[str]:
    """Command line of a worker; it stops when its standard input is closed."""
    device = known_device(spec.device, os.environ)
    told = {**asdict(spec), "device": device, "log": str(spec.log)}
    # These two are in the environment.
    del told["location"], told["data_folder"]
    return child_command("fastrcaps_search.search.worker", json.dumps(told))


def own_spec(told: str, environment: Mapping[str, str]) -> WorkerSpec:
    """How this process was started: the other way round."""
    facts = json.loads(told)
    folder = environment.get(DATA_VARIABLE)
    return WorkerSpec(
        **{**facts, "log": Path(facts["log"])},
        location=locate(environment[STORAGE_VARIABLE], files=environment.get(FILES_VARIABLE)),
        data_folder=Path(folder) if folder else None,
    )


class LocalWorker:
    """A worker that runs as a child of this process.

    Args:
        spec: How to start it.
        events: Receives what it says.
        command: Its command line.
    """

    def __init__(self, spec: WorkerSpec, events: Events, command: list[str]) -> None:
        with open_log(spec.log) as log:
            self.process = started(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=worker_environment(spec, os.environ),
            )
        try:
            start_thread(_listen, spec.name, events, self.process.stdout)
        except RunError:
            self.kill()
            raise

    @property
    def is_suspended(self) -> bool:
        """Whether it was stopped by a signal that lets it go on later."""
        return is_suspended(self.process.pid)

    def stop(self) -> None:
        """Ask it to stop after its current step."""
        self.process.terminate()

    def kill(self) -> None:
        """End it at once, unless it has ended, and close the pipe to it."""
        self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def wait(self, seconds: float) -> int | None:
        """Exit code, or ``None`` when it still runs after ``seconds``."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None


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
            RunError: No process can be started.
        """
        return LocalWorker(spec, events, [*self.prefix, *worker_command(spec)])


LOCAL = LocalLauncher()
LAUNCHERS.register(LOCAL)
