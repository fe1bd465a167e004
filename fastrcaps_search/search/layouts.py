"""How many workers share a device, and with how many threads: as asked, as before, or measured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.estimate import trial_seconds
from fastrcaps_search.search.machine import MachineInfo, NetworkSeconds
from fastrcaps_search.store.calibrations import StepSeconds, network_key
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.training.resources import Limit, may_have_cards

DEVICES = re.compile(r"auto|cpu|cuda|cuda:[0-9]{1,4}(,cuda:[0-9]{1,4})*")
MOST_CPU_WORKERS = 4
NEAR_TIE = 1.05
"""Rates within this factor are equal: a measurement of a second has noise."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Devices and workers that were asked for.

    Attributes:
        devices: ``auto``, ``cpu``, ``cuda``, or cards as in ``cuda:0,cuda:2``.
        workers: Workers in all; ``None`` where they were not asked for.
        workers_per_device: Workers on each device; ``None`` where they were not asked for.
        threads: Threads of each worker; ``None`` where they were not asked for.
    """

    devices: str = "auto"
    workers: int | None = None
    workers_per_device: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.devices, str) or not DEVICES.fullmatch(self.devices):
            raise UsageError(
                "devices must be auto, cpu, cuda, or cards as in cuda:0,cuda:2; "
                f"got {self.devices!r}"
            )
        given = {
            "workers": self.workers,
            "workers per device": self.workers_per_device,
            "threads": self.threads,
        }
        for name, value in given.items():
            if value is not None and (type(value) is not int or value < 1):
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

    def total(self, devices: int) -> int | None:
        """Workers that were asked for on so many devices, if any were."""
        if self.workers_per_device is not None:
            return self.workers_per_device * devices
        return self.workers

    def layout(self, devices: int, *, cores: int) -> WorkerLayout | None:
        """Layout that was asked for, if any was: all workers divide the cores."""
        total, threads = self.total(devices), self.threads
        if total is None:
            if threads is None:
                return None
            together = min(cores // threads, MOST_CPU_WORKERS) if self.may_use_cpu else 1
            return WorkerLayout(max(together, 1), threads)
        return WorkerLayout(math.ceil(total / devices), threads or max(cores // total, 1))

    def require_threads(self, limit: Limit) -> None:
        """Make sure that a worker can have the threads that were asked for.

        Raises:
            UsageError: There are not so many cores.
        """
        if self.threads is not None and self.threads > limit.amount:
            raise UsageError(
                f"threads must be at most the cores that this command may use, {limit.words}, got "
                f"{self.threads}; use fewer threads"
            )


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The workers that are to be started.

    Attributes:
        machine: What they train on.
        step_seconds: Seconds of a step by network and batch size.
        workers: How many.
        threads: Threads of each.
        reason: Why these, in few words; empty where nothing was chosen.
        warning: One line where the seconds of this run will have to be computed.
    """

    machine: MachineInfo
    step_seconds: NetworkSeconds
    workers: int
    threads: int
    reason: str = ""
    warning: str | None = None

    @property
    def words(self) -> str:
        """``2 workers with 1 thread (as before) on CPU Intel``."""
        why = f" ({self.reason})" if self.reason else ""
        layout = WorkerLayout(self.workers, self.threads)
        return f"{layout.words}{why} on {self.machine.device_name}"


def candidates(cores: int, *, most: int) -> list[WorkerLayout]:
    """Layouts of a CPU worth comparing, the fewest workers first, three at the most.

    Args:
        cores: Cores to divide.
        most: Workers that can have something to do.
    """
    top = min(cores, most, MOST_CPU_WORKERS)
    # Of layouts with as many threads each, only the one with the most workers.
    by_threads = {cores // each: each for each in sorted({1, min(2, top), top})}
    return [WorkerLayout(workers, threads) for threads, workers in by_threads.items()]


def choose_layout(
    definition: StudyDefinition, compared: Mapping[WorkerLayout, StepSeconds], left_out: str = ""
) -> tuple[WorkerLayout, str]:
    """Of layouts of a CPU the one that trains most images per second, and why.

    Of near ties the one with most workers.

    Args:
        definition: The study.
        compared: Seconds of a step of its largest network, by layout and batch size.
        left_out: Why others were not compared.
    """
    networks = [network_key(*network) for network in definition.offered_networks]
    rates = {
        one: one.workers / trial_seconds(definition, dict.fromkeys(networks, seconds))
        for one, seconds in compared.items()
    }
    best = max(rates.values())
    layout = max(one for one, rate in rates.items() if rate * NEAR_TIE >= best)
    return layout, "; ".join(filter(None, (_reason(layout, rates), left_out)))


def _reason(chosen: WorkerLayout, rates: Mapping[WorkerLayout, float]) -> str:
    others = [layout for layout in rates if layout != chosen]
    if not others:
        return ""
    other = max(others, key=lambda layout: rates[layout])
    ratio = rates[chosen] / rates[other]
    beside = f"{other.workers} worker{'s' if other.workers > 1 else ''} with {other.threads}"
    if ratio < NEAR_TIE:
        return f"chosen: about as fast as {beside}"
    return f"chosen: {ratio:.1f}x the images/s of {beside}"


def plan_workers(
    options: DeviceOptions,
    machine: MachineInfo,
    stored: WorkerLayout,
    *,
    step_seconds: NetworkSeconds,
    cores: Limit,
    left: int,
    reason: str = "as before",
) -> WorkerPlan:
    """The workers that were asked for, or else those of the study's layout.

    Args:
        options: What was asked for.
        machine: What is here.
        stored: The study's layout on this device.
        step_seconds: Seconds of a step by network and batch size, in the layout to be started.
        cores: Cores of this machine for the command, and what allows no more.
        left: Trainings that are left: unless asked for, no more workers than these are started.
        reason: Why the study has this layout.
    """
    devices = len(machine.devices)
    asked = options.layout(devices, cores=cores.amount)
    layout, warnings = asked or stored, []
    why = (reason if asked is None else "", f"cores: {cores.words}" if cores.by else "")
    if layout != stored:
        warnings.append(
            f"{layout.words} on {machine.device_name} instead of {stored.words}, as the study "
            "began there: seconds will be computed, not measured, where that makes a difference"
        )
    needed = layout.workers * layout.threads
    if machine.devices == ("cpu",) and needed > cores.amount:
        warnings.append(
            f"{layout.words} need {needed} cores, of which there are {cores.words}: some wait "
            "while others train"
        )
    return WorkerPlan(
        machine,
        step_seconds,
        workers=options.total(devices) or max(min(layout.workers * devices, left), 1),
        threads=layout.threads,
        reason="; ".join(filter(None, why)),
        warning="; ".join(warnings) or None,
    )
