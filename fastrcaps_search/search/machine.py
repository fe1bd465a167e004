"""What a process that trains says of this machine.

The process that asks never imports torch.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError, RunError, UsageError
from fastrcaps_search.processes import STOPS, child_command, ending, started
from fastrcaps_search.search import estimate
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.layouts import DeviceOptions, MachineInfo, candidates
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.training.resources import torch_environment

PROBE_SECONDS = 300.0
POLL_SECONDS = 0.2


def inspect_machine(
    definition: StudyDefinition,
    options: DeviceOptions,
    *,
    cores: int,
    known: Collection[str],
    stop: threading.Event,
) -> MachineInfo:
    """Find the devices and measure the first; where workers are to be chosen, several layouts.

    Args:
        definition: The study.
        options: Devices and workers that were asked for.
        cores: Cores of this machine.
        known: Names of devices on which nothing is to be measured.
        stop: Set when the run is to stop.

    Raises:
        InterruptedRunError: Asked to stop.
        UsageError: The device that was asked for is not here.
        RunError: The measurement failed.
    """
    most = (configuration_count(definition) or cores) * definition.runs_per_trial
    asked = options.layout(1, cores=cores)
    layouts = candidates(cores, most=most) if asked is None else [WorkerLayout(1, asked.threads)]
    question = {
        "definition": definition.to_dict(),
        "batch_sizes": estimate.probed_sizes(estimate.batch_sizes(definition)),
        "devices": options.devices,
        "known": sorted(known),
        "layouts": [(layout.workers, layout.threads) for layout in layouts],
    }
    answer = _ask(question, threads=layouts[0].threads, stop=stop)
    if not answer["devices"]:
        raise UsageError(
            f"device {options.devices} must be on this machine, but it is not; "
            "`fastrcaps-search doctor` lists what is"
        )
    measured = {
        WorkerLayout(workers, threads): {int(size): one for size, one in seconds.items()}
        for workers, threads, seconds in answer["measured"]
    }
    name, left_out = answer["device_name"], answer.get("left_out", "")
    return MachineInfo(tuple(answer["devices"]), name, measured, left_out)


def device_names() -> dict[str, str]:
    """Names of all devices of this machine.

    Raises:
        RunError: Torch cannot say.
    """
    answer = _ask({"devices": None}, threads=1, stop=threading.Event())
    return dict(answer["names"])


def _ask(question: dict[str, Any], *, threads: int, stop: threading.Event) -> dict[str, Any]:
    """The probe's answer, unless the run is to stop or it takes far too long."""
    given: str | None = json.dumps(question)
    end = time.monotonic() + PROBE_SECONDS
    with started(
        child_command("fastrcaps_search.training.probe"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=torch_environment(os.environ, threads=threads),
        # A group of its own, so that the processes that it starts end with it.
        start_new_session=True,
    ) as process:
        try:
            while process.returncode is None:
                if stop.is_set():
                    raise InterruptedRunError("interrupted before anything was trained")
                if time.monotonic() >= end:
                    raise _failure(f"nothing within {PROBE_SECONDS:g} s")
                with suppress(subprocess.TimeoutExpired):
                    out, err = process.communicate(given, timeout=POLL_SECONDS)
                given = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if stop.is_set() or -process.returncode in STOPS:
        # Whoever ends a whole job asks the probe too, and maybe first.
        raise InterruptedRunError("interrupted before anything was trained")
    if process.returncode != 0:
        said = re.findall(r"^(?:fastrcaps_search\S+: (.+)|(\S+: .+))", err, re.MULTILINE)
        ours, other = said[-1] if said and process.returncode > 0 else ("", "")
        raise RunError(ours) if ours else _failure(other or ending(process.returncode))
    return dict(json.loads(out))


def _failure(came: str) -> RunError:
    return RunError(
        f"a training step must be possible on this machine, got {came}; `fastrcaps-search doctor` "
        "shows what is installed"
    )
