"""Asks a process of its own what is here and how fast it trains: this one never imports torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError, RunError, UsageError
from fastrcaps_search.search import estimate
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.crews import MOST_CPU_WORKERS, Wanted, candidates
from fastrcaps_search.search.processes import torch_environment
from fastrcaps_search.store.crews import Crew

PROBE_SECONDS = 300.0
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Seen:
    """What is here.

    Attributes:
        devices: ``cpu``, or the cards.
        device_name: Name of the first.
        measured: Seconds per step by crew; empty where nothing was to be measured.
    """

    devices: tuple[str, ...]
    device_name: str
    measured: dict[Crew, estimate.StepCosts]


def look(
    definition: StudyDefinition,
    wanted: Wanted,
    *,
    cores: int,
    known: Collection[str],
    stop: threading.Event,
) -> Seen:
    """Find the devices and measure the first; where workers are to be chosen, several crews.

    Args:
        definition: The study.
        wanted: Devices and workers that were asked for.
        cores: Cores of this machine.
        known: Names of devices on which nothing is to be measured.
        stop: Set when the run is to stop.

    Raises:
        InterruptedRunError: Asked to stop.
        UsageError: The device that was asked for is not here.
        RunError: The measurement failed.
    """
    sizes = estimate.batch_sizes(definition)
    most = (configuration_count(definition) or MOST_CPU_WORKERS) * definition.runs_per_trial
    asked = wanted.crew(1, cores=cores)
    crews = candidates(cores, most=most) if asked is None else []
    facts = _ask(
        wanted.devices,
        threads=cores if asked is None else asked.threads,
        question={
            "definition": definition.to_dict(),
            "batch_sizes": estimate.probed_sizes(sizes),
            "largest_batch": sizes[-1],
            "known": sorted(known),
            "crews": [(crew.workers, crew.threads) for crew in crews],
        },
        stop=stop,
    )
    if not facts["devices"]:
        raise UsageError(
            f"device {wanted.devices} must be on this machine, but it is not; "
            "`fastrcaps-search doctor` lists what is"
        )
    measured = {
        Crew(one["workers"], one["threads"]): estimate.StepCosts(
            {int(size): seconds for size, seconds in one["step_seconds"].items()}
        )
        for one in facts["measured"]
    }
    return Seen(tuple(facts["devices"]), facts["device_name"], measured)


def _ask(
    device: str, *, threads: int, question: dict[str, Any], stop: threading.Event
) -> dict[str, Any]:
    command = [
        *(sys.executable, "-P", "-m", "fastrcaps_search.training.probe"),
        *("--device", device, "--threads", str(threads)),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=torch_environment(os.environ, threads=threads),
        text=True,
        # A group of its own, so that the processes that it starts end with it.
        start_new_session=True,
    ) as process:
        try:
            out, err = _await(process, json.dumps(question), stop)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        last = (err.strip().splitlines() or ["no message"])[-1]
        raise RunError(
            f"torch must be able to train a step on {device}, got: {last}; "
            "`fastrcaps-search doctor` shows what is installed"
        )
    return dict(json.loads(out))


def _await(
    process: subprocess.Popen[str], given: str | None, stop: threading.Event
) -> tuple[str, str]:
    """What the process printed, unless the run is to stop or it takes far too long."""
    end = time.monotonic() + PROBE_SECONDS
    while True:
        try:
            found = process.communicate(given, timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            given = None
            if stop.is_set():
                raise InterruptedRunError("interrupted before anything was trained") from None
            if time.monotonic() < end:
                continue
            raise RunError(
                f"torch must train a few steps within {PROBE_SECONDS:g} s, but did not; "
                "`fastrcaps-search doctor` shows what is installed"
            ) from None
        if stop.is_set():
            raise InterruptedRunError("interrupted before anything was trained")
        return found
