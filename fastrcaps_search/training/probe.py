"""What this machine trains on, and how fast: measured in processes of their own.

Reads JSON objects from its standard input, a line each, and answers each with one. The supervisor
itself never imports torch.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from statistics import harmonic_mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.processes import ending
from fastrcaps_search.training.device import (
    Clock,
    device_name,
    devices,
    found_devices,
    prepare,
    run_setting,
    survive_forks,
)
from fastrcaps_search.training.kernels import Trainer, choose_kernel, make_trainer
from fastrcaps_search.training.resources import memory
from fastrcaps_search.training.splits import Split

WINDOW_SECONDS = 0.03
"""Time for the steps of one window; one step is made however long it takes."""
SIZE_SECONDS = 0.36
"""Time for the windows of one batch size. The fastest counts: what else a machine does makes some
slower, and none faster."""
FEWEST_WINDOWS = 2
"""Windows that are made however long they take."""
MOST_IMAGES = 4096
"""Random images to draw batches from."""
PATIENCE_SECONDS = 120.0
"""The longest that a process waits for the others, at least."""
LOOK_SECONDS = 0.001
"""How often it looks for them."""

Network = tuple[Decoder | None, bool | None]
"""Its decoder and whether it shares weights."""


def main() -> int:
    """Answer until there are no more questions; 1 where not even one worker could train."""
    for line in sys.stdin:
        answer = answered(json.loads(line))
        if answer is None:
            return 1
        print(json.dumps(answer), flush=True)
    return 0


def answered(question: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer to a question.

    Args:
        question: Nothing, for the ``names`` of all devices; or ``definition`` and ``devices``, as
            asked for; or ``definition``, ``device``, ``layouts`` (pairs of workers and threads,
            the fewest workers first), ``networks`` and ``batch_sizes``.

    Returns:
        Of devices as asked for: ``devices``, ``names``, ``setting`` of the first. Of layouts:
        ``measured``: workers, threads, and seconds of a step by batch size for each network, for
        every layout that could train; ``left_out``: why not the others; ``None`` where none could.
    """
    if not question:
        return {"names": {device: device_name(device) for device in devices()}}
    definition = StudyDefinition.from_dict(question["definition"])
    if "layouts" not in question:
        found = found_devices(question["devices"])
        setting = asdict(_setting(definition, found[0])) if found else None
        names = [device_name(device) for device in found]
        return {"devices": found, "names": names, "setting": setting}
    networks = [(name and Decoder(name), shares) for name, shares in question["networks"]]
    asked = Question(definition, question["device"], networks, question["batch_sizes"])
    measured, left_out = benchmark(question["layouts"], asked)
    return {"measured": measured, "left_out": left_out} if measured else None


def _setting(definition: StudyDefinition, device: str) -> RunSetting:
    """How a run would be trained there, but for the threads."""
    # What is asked of the processor here multiplies, and forks follow.
    survive_forks()
    place = torch.device(device)
    kernel = choose_kernel(place, network=definition.network, precision=definition.precision)
    return run_setting(place, precision=str(definition.precision), threads=1, kernel=kernel)


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be measured, in each process.

    Attributes:
        definition: The study.
        device: ``cpu`` or a card.
        networks: Which of its networks.
        sizes: Batch sizes.
    """

    definition: StudyDefinition
    device: str
    networks: Sequence[Network]
    sizes: Sequence[int]

    @property
    def shape(self) -> tuple[int, int]:
        """Networks and batch sizes: the places of what is measured."""
        return len(self.networks), len(self.sizes)

    def trainer(self, network: Network) -> Trainer:
        """What trains that network, on random images."""
        definition, place = self.definition, torch.device(self.device)
        known = definition.architecture
        own = dict(zip(("decoder", "weight_sharing"), network, strict=True))
        settings = {key: own.get(key, definition[key]) for key in known.settings}
        count = min(definition.split_size, MOST_IMAGES)
        images = torch.randint(256, (count, 28, 28), dtype=torch.uint8, device=place)
        labels = torch.randint(10, (count,), device=place)
        return make_trainer(
            known.build(**settings).to(place).train(),
            Split(images, labels),
            seed=0,
            shifts=definition.shifts,
            kernel=choose_kernel(
                place, network=definition.network, precision=definition.precision
            ),
        )


def benchmark(
    layouts: Iterable[tuple[int, int]], asked: Question
) -> tuple[list[tuple[int, int, list[dict[int, float]]]], str]:
    """Let one layout after the other train, up to the first that cannot.

    What kept it from training is told on the standard error.

    Args:
        layouts: Workers and threads of each, the fewest workers first.
        asked: What each worker measures.

    Returns:
        Workers, threads, and for each network the seconds of a step by batch size, as each of the
        workers sees it; and why other layouts were left out.
    """
    found: list[tuple[int, int, list[dict[int, float]]]] = []
    for workers, threads in layouts:
        # The largest process so far, in KiB; of what is too large the kernel ends what it likes.
        need = workers * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        most = memory()
        if found and need > most.amount:
            allowed = f"{most.by or 'this machine'} allows {most.amount / 1e9:.1f}"
            return found, f"{workers} workers would take {need / 1e9:.1f} GB, {allowed}"
        seconds = _together(workers, threads, asked)
        if seconds is None:
            # More processes need more memory: no layout after this one would fare better.
            return found, f"{workers} workers could not train together"
        found.append((workers, threads, seconds))
    return found, ""


def _together(workers: int, threads: int, asked: Question) -> list[dict[int, float]] | None:
    """Mean seconds of a step by batch size, for each network.

    ``None`` where a process could not train.
    """
    # A fork shares the imports, which take longer than the measurement. It is safe because this
    # process has one thread of Python, and none of torch's. No fork of a process that has asked a
    # card for its name can use it.
    get_context = multiprocessing.get_context
    context = get_context("fork") if asked.device == "cpu" else get_context("spawn")
    # Barriers and arrays of multiprocessing are files in /dev/shm, which containers may lack.
    file = os.memfd_create("fastrcaps-probe")
    try:
        os.truncate(file, 8 * workers * (1 + len(asked.networks) * len(asked.sizes)))
        table = Table(f"/proc/{os.getpid()}/fd/{file}", workers, asked.shape)
        processes = [
            context.Process(target=_train, args=(asked, table, place, threads), daemon=True)
            for place in range(workers)
        ]
        with warnings.catch_warnings():
            # From Python 3.12 on, of the threads of numpy's BLAS, which renews them itself.
            warnings.simplefilter("ignore", DeprecationWarning)
            for process in processes:
                process.start()
        try:
            if not _have_ended_well(processes):
                return None
        finally:
            for process in processes:
                process.kill()
                process.join()
        _, seconds = table.opened()
        return [
            {
                size: harmonic_mean(seconds[:, network, place].tolist())
                for place, size in enumerate(asked.sizes)
            }
            for network in range(len(asked.networks))
        ]
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class Table:
    """Memory that the processes of a measurement share.

    Attributes:
        path: Its file.
        workers: How many they are.
        shape: Networks and batch sizes.
    """

    path: str
    workers: int
    shape: tuple[int, int]

    def opened(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How often each process has met the others [W], and what it has measured [W, N, S]."""
        shared = np.memmap(self.path, dtype=np.float64, mode="r+")
        return shared[: self.workers], shared[self.workers :].reshape(self.workers, *self.shape)


def _train(asked: Question, table: Table, place: int, threads: int) -> None:
    """Measure in one of the processes: all of them the same at the same time."""
    meetings, seconds = table.opened()
    clock = Clock(prepare(asked.device, threads=threads))
    for network, each in enumerate(asked.networks):
        trainer = asked.trainer(each)
        for column, size in enumerate(asked.sizes):
            trainer.warm_up([size])
            _meet(meetings, place, meanwhile=partial(time.sleep, LOOK_SECONDS))
            one_step = partial(_seconds, trainer, size, 1, clock)
            seconds[place, network, column] = step_seconds(asked, trainer, size, clock)
            # The others are not done yet, and are to be slowed down until they are.
            _meet(meetings, place, meanwhile=one_step)


def step_seconds(asked: Question, trainer: Trainer, size: int, clock: Clock) -> float:
    """Seconds of a step: the mean of the fastest window."""
    _seconds(trainer, size, 1, clock)
    first = _seconds(trainer, size, 1, clock)
    most = min(asked.definition.split_size, MOST_IMAGES) // size
    steps = max(min(int(WINDOW_SECONDS / first), most), 1)
    windows = max(int(SIZE_SECONDS / (first * steps)), FEWEST_WINDOWS)
    return min(_seconds(trainer, size, steps, clock) for _ in range(windows))


def _seconds(trainer: Trainer, size: int, steps: int, clock: Clock) -> float:
    """Mean seconds of so many steps, which change no weights."""
    clock.start()
    deque(trainer.epoch(1, [size] * steps, [0.0] * steps), maxlen=0)
    return clock.stop() / steps


def _meet(meetings: NDArray[np.float64], place: int, *, meanwhile: Callable[[], object]) -> None:
    """Wait until all have come: each counts in its place how often it has."""
    meetings[place] += 1
    end = time.monotonic() + PATIENCE_SECONDS
    while meetings.min() < meetings[place]:
        if time.monotonic() > end:
            raise TimeoutError(
                f"another process must come to measure within {PATIENCE_SECONDS:g} s"
            )
        meanwhile()


def _have_ended_well(processes: Iterable[BaseProcess]) -> bool:
    """Wait for all processes, or for the first that fails: the others would wait for it."""
    left: dict[object, BaseProcess] = {process.sentinel: process for process in processes}
    while left:
        for sentinel in wait([process.sentinel for process in left.values()]):
            process = left.pop(sentinel)
            process.join()
            if process.exitcode != 0:
                # One that raised has said why.
                if process.exitcode != 1:
                    print(ending(process.exitcode), file=sys.stderr)
                return False
    return True
