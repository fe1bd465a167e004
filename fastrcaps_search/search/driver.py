"""A whole ``run``: enter the study, look at the machine, start the workers, see it through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError, RunError, UsageError
from fastrcaps_search.search import estimate, files
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.processes import WorkerSpec, torch_environment
from fastrcaps_search.search.supervise import Observer, Supervisor
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord, TrialRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.summary import untested_front

MOST_CPU_WORKERS = 4
PROBE_SECONDS = 300.0
POLL_SECONDS = 0.2
LONG_TRIAL_SECONDS = 3600.0
MINI = "mnist-mini"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run was asked for.

    Attributes:
        definition: The study.
        trials: Total of trials; ``None`` for the stored budget or the length of a fixed list.
        location: The database.
        data_folder: Folder with image data, if one was named.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        workers: Number of workers; ``None`` to choose.
        seed: Seed; ``None`` for the stored one, or 0.
    """

    definition: StudyDefinition
    trials: int | None
    location: Location
    data_folder: Path | None = None
    device: str = "auto"
    workers: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """What the workers will train on.

    Attributes:
        devices: ``cpu``, or the cards.
        device_name: Name of the first.
        costs: Measured seconds per step.
        workers: Number of workers.
        threads: Threads of each.
    """

    devices: tuple[str, ...]
    device_name: str
    costs: estimate.StepCosts
    workers: int
    threads: int


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        study: The study.
        trials: All its trials, without epochs.
        exhausted: Whether the space has no more configurations for the budget.
    """

    study: StudyRecord
    trials: tuple[TrialRecord, ...]
    exhausted: bool

    @property
    def finished(self) -> int:
        """Trials that count towards the budget."""
        return sum(trial.is_finished for trial in self.trials)

    @property
    def all_failed(self) -> bool:
        """Whether no trial of a finished study has values."""
        return bool(self.trials) and all(t.state is TrialState.FAILED for t in self.trials)


class StudyRun:
    """One ``run`` command.

    Args:
        request: What was asked.
    """

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.study = enter_study(
            request.location, request.definition, seed=request.seed, budget=_budget(request)
        )
        self._store = Store.writing(request.location)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def outcome(self) -> RunOutcome:
        """How the study stands."""
        study = self._store.study(self.study.name)
        trials = tuple(self._store.trials(study))
        possible = configuration_count(study.definition)
        exhausted = possible is not None and possible < study.budget
        return RunOutcome(study, trials, exhausted)

    @property
    def target(self) -> int:
        """Trials that the study can and should end with."""
        possible = configuration_count(self.study.definition)
        return self.study.budget if possible is None else min(possible, self.study.budget)

    def is_done(self) -> bool:
        """Whether nothing is left to train or to test."""
        outcome = self.outcome()
        return outcome.finished >= self.target and not untested_front(self.study, outcome.trials)

    def look(self, stop: threading.Event) -> Machine:
        """Measure the machine, in a process of its own.

        Args:
            stop: Set when the run is to stop.

        Raises:
            InterruptedRunError: Asked to stop.
            UsageError: The device that was asked for is not here.
            RunError: The measurement failed.
        """
        cpu_workers = self.request.workers or _cpu_workers(self.target)
        threads = max(cores() // cpu_workers, 1)
        device = self.request.device
        facts = _probe(self.study.definition, device, threads=threads, stop=stop)
        devices = tuple(facts["devices"])
        if not devices:
            raise UsageError(
                f"device {self.request.device} must be on this machine, but it is not; "
                "`fastrcaps-search doctor` lists what is"
            )
        workers = cpu_workers if devices == ("cpu",) else self.request.workers or len(devices)
        costs = estimate.StepCosts({int(k): v for k, v in facts["step_seconds"].items()})
        return Machine(devices, facts["device_name"], costs, workers, threads)

    def plan_line(self, machine: Machine) -> str:
        """What will be done, on what, and about how long it will take."""
        outcome = self.outcome()
        definition = self.study.definition
        left = self.target - outcome.finished
        trials = self._store.trials(self.study, epochs=True)
        own = estimate.stored_costs(trials, device=machine.devices[0].partition(":")[0])
        each = estimate.trial_seconds(definition, machine.costs.updated(own))
        plural = "s" if machine.workers > 1 else ""
        line = (
            f"{self.study.name}: {outcome.finished}/{self.target} trials done, {left} to go; "
            f"{definition.network} on {definition.data_set}, {definition.split_size} images x "
            f"{definition.epochs} epochs x {definition.runs_per_trial} "
            f"run{'s' if definition.runs_per_trial > 1 else ''}; {machine.workers} "
            f"worker{plural} with {machine.threads} thread{'s' if machine.threads > 1 else ''} "
            f"on {machine.device_name}; {estimate.in_words(each * left / machine.workers)}"
        )
        if each >= LONG_TRIAL_SECONDS:
            line += (
                f" ({estimate.in_words(each)} a trial; "
                f"`--study {MINI}` shows everything in minutes)"
            )
        return line

    def train(self, machine: Machine, *, stop: threading.Event, observe: Observer) -> None:
        """Start the workers and see them through.

        Raises:
            InterruptedRunError: Asked to stop.
            RunError: The workers could not go on.
        """
        Supervisor(self._specs(machine), stop=stop, observe=observe).run()

    def _specs(self, machine: Machine) -> list[WorkerSpec]:
        location = self.request.location
        return [
            WorkerSpec(
                study=self.study.name,
                name=name,
                device=machine.devices[index % len(machine.devices)],
                threads=machine.threads,
                storage=location.url,
                data_folder=self.request.data_folder,
                log=files.worker_log(location, self.study.name, name),
            )
            for index in range(machine.workers)
            for name in [f"worker-{index}"]
        ]


def _budget(request: RunRequest) -> int:
    if request.trials is not None:
        return request.trials
    if request.definition.configurations:
        return len(request.definition.configurations)
    if request.location.path.is_file():
        store = Store.reading(request.location)
        try:
            stored = store.find_study(request.definition.name)
        finally:
            store.close()
        if stored is not None:
            return stored.budget
    raise UsageError("--trials must be given to begin a search, for example --trials 12")


def cores() -> int:
    """Cores that this process may use."""
    return (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def _cpu_workers(target: int) -> int:
    """Workers on a CPU: two of one thread out-run one of two, but memory has an end."""
    return max(min(cores(), MOST_CPU_WORKERS, target), 1)


def _probe(
    definition: StudyDefinition, device: str, *, threads: int, stop: threading.Event
) -> dict[str, Any]:
    command = [
        *(sys.executable, "-P", "-m", "fastrcaps_search.training.probe"),
        *("--device", device, "--threads", str(threads), "--batch-sizes"),
        *(str(size) for size in estimate.probed_sizes(definition)),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=torch_environment(os.environ, threads=threads),
        text=True,
    ) as process:
        out, err = _await(process, json.dumps(definition.to_dict()), stop)
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
    """What the process printed; it is ended when the run is to stop or takes far too long."""
    end = time.monotonic() + PROBE_SECONDS
    while True:
        try:
            out, err = process.communicate(given, timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            given = None
            if not stop.is_set() and time.monotonic() < end:
                continue
            process.kill()
            out, err = process.communicate()
        if stop.is_set():
            raise InterruptedRunError("interrupted before anything was trained")
        return out, err
