"""How many workers share a device, and with how many threads: as asked, as before, or measured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fastrcaps_search.errors import UsageError
from fastrcaps_search.store.crews import Crew
from fastrcaps_search.training.resources import may_have_cards

DEVICES = re.compile(r"auto|cpu|cuda|cuda:[0-9]{1,4}(,cuda:[0-9]{1,4})*")
MOST_CPU_WORKERS = 4
NEAR_TIE = 1.05
"""Rates within this factor are equal: a measurement of a second has noise."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Devices and workers that a run was asked for.

    Attributes:
        devices: ``auto``, ``cpu``, ``cuda``, or cards as in ``cuda:0,cuda:2``.
        workers: Workers of the run; ``None`` where they were not asked for.
        workers_per_device: Workers on each device; ``None`` where they were not asked for.
    """

    devices: str = "auto"
    workers: int | None = None
    workers_per_device: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.devices, str) or not DEVICES.fullmatch(self.devices):
            raise UsageError(
                "devices must be auto, cpu, cuda, or cards as in cuda:0,cuda:2; "
                f"got {self.devices!r}"
            )
        given = {"workers": self.workers, "workers per device": self.workers_per_device}
        for name, value in given.items():
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.workers is not None and self.workers_per_device is not None:
            raise UsageError(
                "workers must be given for the whole run or per device, got both "
                f"({self.workers} and {self.workers_per_device}); leave one of them out"
            )

    @property
    def may_use_cpu(self) -> bool:
        """Whether the workers may come to train on the CPU."""
        return self.devices == "cpu" or (self.devices == "auto" and not may_have_cards())

    @property
    def chooses(self) -> bool:
        """Whether the number of workers was left to this program."""
        return self.total(1) is None

    def total(self, devices: int) -> int | None:
        """Workers that were asked for on so many devices, if any were."""
        if self.workers_per_device is not None:
            return self.workers_per_device * devices
        return self.workers

    def crew(self, devices: int, *, cores: int) -> Crew | None:
        """Crew of a device that was asked for, if any was: all workers divide the cores."""
        total = self.total(devices)
        if total is None:
            return None
        return Crew(math.ceil(total / devices), max(cores // total, 1))


def candidates(cores: int, *, most: int) -> list[Crew]:
    """Crews of a CPU worth comparing, the fewest workers first, three at the most.

    Args:
        cores: Cores to divide.
        most: Workers that can have something to do.
    """
    # Of crews with as many threads each, only the one with the most workers.
    by_threads = {
        cores // workers: Crew(workers, cores // workers)
        for workers in range(1, min(cores, most, MOST_CPU_WORKERS) + 1)
    }
    found = sorted(by_threads.values())
    # Of those between, the one that leaves the fewest cores idle.
    between = sorted(found[1:-1], key=lambda crew: (crew.workers * crew.threads, crew.workers))
    return sorted({found[0], *between[-1:], found[-1]})


def fastest(images_per_second: Mapping[Crew, float]) -> Crew:
    """The crew that trains most images per second; of near ties the one with most workers."""
    best = max(images_per_second.values())
    return max(crew for crew, rate in images_per_second.items() if rate * NEAR_TIE >= best)


def reason(chosen: Crew, images_per_second: Mapping[Crew, float]) -> str:
    """Why a crew was chosen, in few words; empty where nothing was compared."""
    others = {crew: rate for crew, rate in images_per_second.items() if crew != chosen}
    if not others:
        return ""
    other = max(others, key=lambda crew: others[crew])
    ratio = images_per_second[chosen] / others[other]
    plural = "s" if other.workers > 1 else ""
    beside = f"{other.workers} worker{plural} with {other.threads}"
    if ratio < NEAR_TIE:
        return f"chosen: about as fast as {beside}"
    return f"chosen: {ratio:.1f}x the images/s of {beside}"
