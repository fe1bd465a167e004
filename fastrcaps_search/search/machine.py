"""What a process that trains says of this machine.

The process that asks never imports torch.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError, RunError, UsageError
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.processes import STOPS, child_command, ending, started
from fastrcaps_search.search import estimate
from fastrcaps_search.store.calibrations import StepSeconds, network_key
from fastrcaps_search.store.layouts import WorkerLayout
from fastrcaps_search.training.resources import torch_environment

PROBE_SECONDS = 300.0
"""The longest that an answer may take, for each network that it is about."""
POLL_SECONDS = 0.2
LARGEST = (Decoder.FULL, False)
"""Decoder and weight sharing of the network that layouts are compared by."""

NetworkSeconds = Mapping[str, StepSeconds]
"""Seconds of a step by network and batch size."""


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """What a machine trains on.

    Attributes:
        devices: ``cpu``, or the cards.
        setting: How a run trains on the first, but for the threads.
    """

    devices: tuple[str, ...]
    setting: RunSetting

    @property
    def device_name(self) -> str:
        """Name of the first."""
        return self.setting.device_name


class Probe(AbstractContextManager["Probe"]):
    """A process that measures what it is asked to, of one study on this machine.

    Args:
        definition: The study.
        threads: The most threads of a worker.
        stop: Set when the run is to stop.

    Attributes:
        beat: Called again and again while an answer is waited for.

    Raises:
        InterruptedRunError: From any question: asked to stop.
        RunError: From any question: torch cannot say, or no step could be made.
    """

    def __init__(
        self, definition: StudyDefinition | None, *, threads: int, stop: threading.Event
    ) -> None:
        self._definition = definition
        self.beat: Callable[[], object] = lambda: None
        self._stop = stop
        self._resources = ExitStack()
        # Closed with the process.
        said = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._said = self._resources.enter_context(said)
        self._process = self._resources.enter_context(
            started(
                child_command("fastrcaps_search.training.probe"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=torch_environment(os.environ, threads=threads),
                # A group of its own, so that the processes that it starts end with it.
                start_new_session=True,
            )
        )

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # What it did not take any more is of no interest now.
        with suppress(BrokenPipeError):
            self._resources.close()

    def names(self) -> dict[str, str]:
        """Names of all devices of this machine."""
        return dict(self._ask({})["names"])

    def look(self, devices: str) -> MachineInfo:
        """Find the devices that were asked for.

        Raises:
            UsageError: One of them is not here, or they are not equal.
        """
        answer = self._ask({**self._study, "devices": devices})
        if not answer["devices"]:
            raise UsageError(
                f"device {devices} must be on this machine, but it is not; "
                "`fastrcaps-search doctor` lists what is"
            )
        if len(set(answer["names"])) > 1:
            named = zip(answer["names"], answer["devices"], strict=True)
            got = ", ".join(f"{name} ({device})" for name, device in named)
            raise UsageError(
                f"devices must be equal, got {got}; start a command for each kind, as with "
                "--devices cuda:0"
            )
        return MachineInfo(tuple(answer["devices"]), RunSetting(**answer["setting"]))

    def compare(
        self, machine: MachineInfo, layouts: Sequence[WorkerLayout]
    ) -> tuple[dict[WorkerLayout, StepSeconds], str]:
        """Seconds of a step of the largest network in several layouts, and why not in others."""
        sizes = estimate.compared_sizes(self._sizes(machine))
        found, left_out = self._measure(machine, layouts, [LARGEST], sizes)
        return {layout: steps for layout, (steps,) in found.items()}, left_out

    def calibrate(
        self, machine: MachineInfo, layouts: Sequence[WorkerLayout]
    ) -> dict[WorkerLayout, NetworkSeconds]:
        """Seconds of a step of all networks of the study, in each layout that could train."""
        assert self._definition is not None
        networks = sorted(self._definition.offered_networks, key=str)
        sizes = self._sizes(machine)
        found, _ = self._measure(machine, sorted(layouts), networks, sizes)
        keys = [network_key(*network) for network in networks]
        return {layout: dict(zip(keys, steps, strict=True)) for layout, steps in found.items()}

    @property
    def _study(self) -> dict[str, Any]:
        assert self._definition is not None
        return {"definition": self._definition.to_dict()}

    def _sizes(self, machine: MachineInfo) -> list[int]:
        assert self._definition is not None
        sizes = estimate.batch_sizes(self._definition)
        return estimate.probed_sizes(sizes, on_cpu=machine.devices == ("cpu",))

    def _measure(
        self,
        machine: MachineInfo,
        layouts: Iterable[WorkerLayout],
        networks: Sequence[tuple[Decoder | None, bool | None]],
        sizes: Sequence[int],
    ) -> tuple[dict[WorkerLayout, list[StepSeconds]], str]:
        answer = self._ask(
            {
                **self._study,
                "device": machine.devices[0],
                "layouts": [(layout.workers, layout.threads) for layout in layouts],
                "networks": networks,
                "batch_sizes": sizes,
            },
            networks=len(networks),
        )
        found: dict[WorkerLayout, list[StepSeconds]] = {
            WorkerLayout(workers, threads): [
                {int(size): seconds for size, seconds in steps.items()} for steps in networks
            ]
            for workers, threads, networks in answer["measured"]
        }
        return found, answer["left_out"]

    def _ask(self, question: Mapping[str, Any], *, networks: int = 1) -> dict[str, Any]:
        """The probe's answer, unless the run is to stop or it takes far too long."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            print(json.dumps(question), file=process.stdin, flush=True)
        seconds = PROBE_SECONDS * networks
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not self._stop.is_set():
                if time.monotonic() >= end:
                    raise _failure(f"nothing within {seconds:g} s")
                self.beat()
                if selector.select(POLL_SECONDS):
                    break
        answer = "" if self._stop.is_set() else process.stdout.readline()
        if answer:
            return dict(json.loads(answer))
        if not self._stop.is_set():
            process.wait()
            if -process.returncode not in STOPS:
                raise self._ended(process.returncode)
        # Whoever ends a whole job asks the probe too, and maybe first.
        raise InterruptedRunError("interrupted before anything was trained")

    def _ended(self, code: int) -> RunError:
        """Why the probe has ended without an answer."""
        self._said.seek(0)
        words = self._said.read()
        said = re.findall(r"^(?:fastrcaps_search\S+: (.+)|(\S+: .+))", words, re.MULTILINE)
        ours, other = said[-1] if said and code > 0 else ("", "")
        return RunError(ours) if ours else _failure(other or ending(code))


def device_names() -> dict[str, str]:
    """Names of all devices of this machine.

    Raises:
        RunError: Torch cannot say.
    """
    with Probe(None, threads=1, stop=threading.Event()) as probe:
        return probe.names()


def _failure(came: str) -> RunError:
    return RunError(
        f"a training step must be possible on this machine, got {came}; `fastrcaps-search doctor` "
        "shows what is installed"
    )
