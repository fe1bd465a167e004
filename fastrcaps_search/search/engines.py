"""Engines that place ``worker`` commands on other machines: what one must offer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from pathlib import Path
from typing import Protocol

from fastrcaps_search.registry import Registry


class JobState(StrEnum):
    """What an engine does with a job."""

    WAITING = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """A ``worker`` command that is to be placed.

    Attributes:
        name: Name that all jobs of a study have, and no others: its jobs are found by it.
        command: Command line after the Python program; it holds no secret.
        environment: Variables that it needs; they hold no secret either, since others may read
            them: the database is named by a file that only its owner can read.
        log: Where what it prints is to go, in a folder that its machine reaches too.
        cores: Its part of the cores of this machine, should it come to run here.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    cores: int = 1


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job as its engine sees it.

    Attributes:
        id: The engine's name of it.
        state: Where it stands.
        host: Where it runs, if the engine says so.
        reason: Why it waits, or how it ended, in the engine's words.
        has_failed: Whether it ended in another way than by itself and well.
        log: What it printed, where that can be read here.
    """

    id: str
    state: JobState
    host: str = ""
    reason: str = ""
    has_failed: bool = False
    log: Path | None = None


class Cluster(Protocol):
    """An engine with the options of one run.

    Raises:
        UsageError: From any call, when the engine refuses: the run ends.
        RunError: From any call, when the engine does not answer: the run waits for it.
    """

    def share(self, job: WorkerJob) -> str:
        """What such a job gets, in words; nothing is asked of the engine."""

    def place(self, job: WorkerJob) -> str:
        """Hand in a job; the engine's name of it."""

    def jobs(self, name: str) -> list[PlacedJob]:
        """All jobs of that name that wait or run, and those that ended, while they are known."""

    def cancel(self, ids: Sequence[str]) -> None:
        """End jobs, in a way that lets them save; those that have ended are left out."""


class Engine(Protocol):
    """Places workers."""

    @property
    def name(self) -> str:
        """As ``--launcher`` takes it."""

    @property
    def options(self) -> Collection[str]:
        """Names that ``--launcher-option`` takes."""

    def open(self, options: Mapping[str, Sequence[str]]) -> Cluster:
        """Look for the engine.

        Args:
            options: Values by name, in the order given; all names are known.

        Raises:
            UsageError: An option's value cannot be.
            FastrcapsError: The engine is not here or its package is not installed.
        """


ENGINES: Registry[Engine] = Registry("engine")
