"""The device of a worker: its name, its clock, its threads."""

from __future__ import annotations

import platform
import time
from pathlib import Path

import torch

from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.training.step import KERNEL


def devices() -> list[str]:
    """Devices of this machine: the cards, then ``cpu``."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [*(f"cuda:{index}" for index in range(count)), "cpu"]


def device_name(device: torch.device) -> str:
    """Name of the card, or of the processor and its model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU {_processor()}"


def device_name_of(device: str) -> str:
    """Name of ``cpu`` or ``cuda:N``."""
    return device_name(torch.device(device))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = {
        key.strip(): value.strip()
        for key, value in (line.split(":") for line in lines if line.count(":") == 1)
    }
    model = facts.get("model name") or platform.processor() or platform.machine()
    # Virtual machines hide the model's name behind the maker's, but not its number.
    number = facts.get("model")
    family = facts.get("cpu family")
    return f"{model} (family {family} model {number})" if number and family else model


def run_setting(device: torch.device, *, precision: str, threads: int) -> RunSetting:
    """Set the threads of this process; how and where a run then trains."""
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    return RunSetting(
        device=device.type,
        device_name=device_name(device),
        torch_version=torch.__version__,
        precision=precision,
        threads=threads,
        kernel=KERNEL,
    )


class Clock:
    """Seconds between two moments at which the device has done all its work."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._begun = 0.0

    def start(self) -> None:
        """Wait for the device and begin."""
        self._begun = self._now()

    def stop(self) -> float:
        """Wait for the device; seconds since the start."""
        return self._now() - self._begun

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
