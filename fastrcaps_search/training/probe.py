"""What this machine trains on, and how fast: measured in a process of its own.

Reads one JSON object from its standard input and prints one. The supervisor itself never imports
torch.
"""

from __future__ import annotations

import json
import mmap
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from statistics import harmonic_mean, median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.processes import ending
from fastrcaps_search.training.device import Clock, device_name, devices, found_devices, prepare
from fastrcaps_search.training.kernels import choose_kernel, make_step
from fastrcaps_search.training.resources import memory

WINDOW_SECONDS = 0.4
"""Time for the steps of one batch size; one step is made however long it takes."""
PATIENCE_SECONDS = 120.0
"""The longest that a process waits for the others, at least."""
LOOK_SECONDS = 0.001
"""How often it looks for them."""

StepOf = Callable[[int], Callable[[], object]]
"""Gives the training step of a batch size, warmed up."""


def main() -> int:
    """Print devices and seconds per step; 1 where not even one worker could train."""
    answer = probe(json.load(sys.stdin))
    if answer is None:
        return 1
    json.dump(answer, sys.stdout)
    return 0


def probe(question: dict[str, Any]) -> dict[str, Any] | None:
    """Devices, the name of the first, and what was measured on it.

    Args:
        question: ``devices``, as asked for, or ``None`` for the ``names`` of all and nothing else;
            ``definition``, ``batch_sizes``; ``known``, the names of devices on which nothing is to
            be measured; ``layouts``, pairs of workers and threads to be compared on a CPU: one
            alone is measured on a card.

    Returns:
        ``devices``, ``device_name``, ``measured``: workers, threads and seconds of a step by
        batch size, for each layout that could train, and ``left_out``: why not the others;
        ``None`` where none could.
    """
    if question["devices"] is None:
        return {"names": {device: device_name(device) for device in devices()}}
    found = found_devices(question["devices"])
    if not found:
        return {"devices": []}
    name = device_name(found[0])
    if name in question["known"]:
        return {"devices": found, "device_name": name, "measured": []}
    make = partial(_step_of, StudyDefinition.from_dict(question["definition"]), found[0])
    sizes, layouts, left_out = question["batch_sizes"], question["layouts"], ""
    if found[0] == "cpu":
        measured, left_out = benchmark(layouts, sizes, make=make)
    else:
        seconds = step_seconds(make, sizes, device=found[0], threads=layouts[0][1])
        measured = [(*layouts[0], seconds)]
    if not measured:
        return None
    return {"devices": found, "device_name": name, "measured": measured, "left_out": left_out}


def _step_of(definition: StudyDefinition, device: str) -> StepOf:
    """Gives warmed-up steps of the study's largest network on random images."""
    largest = {"decoder": Decoder.FULL, "weight_sharing": False}
    known = definition.architecture
    settings = {key: largest.get(key, definition[key]) for key in known.settings}
    network = known.build(**settings).to(device)
    kernel = choose_kernel(
        torch.device(device), network=definition.network, precision=definition.precision
    )
    step = make_step(network, kernel=kernel)

    def of(size: int) -> Callable[[], object]:
        images = torch.rand(size, 1, 28, 28, device=device)
        labels = torch.randint(10, (size,), device=device)
        step.warm_up(size)
        return lambda: step(images, labels, rate=0.0)

    # The first update of all makes the optimiser's memory, whatever the batch.
    of(1)()
    return of


def benchmark(
    layouts: Iterable[tuple[int, int]], sizes: Sequence[int], *, make: Callable[[], StepOf]
) -> tuple[list[tuple[int, int, dict[int, float]]], str]:
    """Let one layout after the other train on the CPU, up to the first that cannot.

    What kept it from training is told on the standard error.

    Args:
        layouts: Workers and threads of each, the fewest workers first.
        sizes: Batch sizes to measure.
        make: Builds network and step, in each process.

    Returns:
        Workers, threads, and the seconds of a step by batch size, as each of the workers sees it;
        and why other layouts were left out.
    """
    found: list[tuple[int, int, dict[int, float]]] = []
    for workers, threads in layouts:
        # The largest process so far, in KiB; of what is too large the kernel ends what it likes.
        need = workers * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        most = memory()
        if found and need > most.amount:
            allowed = f"{most.by or 'this machine'} allows {most.amount / 1e9:.1f}"
            return found, f"{workers} workers would take {need / 1e9:.1f} GB, {allowed}"
        seconds = _together(workers, threads, sizes, make)
        if seconds is None:
            # More processes need more memory: no layout after this one would fare better.
            return found, f"{workers} workers could not train together"
        found.append((workers, threads, seconds))
    return found, ""


def step_seconds(
    make: Callable[[], StepOf],
    sizes: Iterable[int],
    *,
    device: str,
    threads: int,
    meet: Callable[[], object] = lambda: None,
) -> dict[int, float]:
    """Median seconds of a step by batch size.

    Args:
        make: Builds network and step.
        sizes: Batch sizes to measure.
        device: ``cpu`` or ``cuda:N``.
        threads: Threads of this process.
        meet: Waits until all that measure at the same time have come as far.
    """
    clock = Clock(prepare(device, threads=threads))
    step_of = make()
    found = {}
    for size in sizes:
        step = step_of(size)
        meet()
        found[size] = _median_seconds(step, clock)
    return found


def _median_seconds(step: Callable[[], object], clock: Clock) -> float:
    spent: list[float] = []
    end = time.perf_counter() + WINDOW_SECONDS
    while not spent or time.perf_counter() < end:
        clock.start()
        step()
        spent.append(clock.stop())
    return median(spent)


def _together(
    workers: int, threads: int, sizes: Sequence[int], make: Callable[[], StepOf]
) -> dict[int, float] | None:
    """Mean seconds of a step by batch size; ``None`` where a process could not train."""
    # A fork shares the imports, which take longer than the measurement. It is safe because this
    # process has one thread of Python, and has not yet made torch start any of its own.
    context = multiprocessing.get_context("fork")
    # Barriers and arrays of multiprocessing are files in /dev/shm, which containers may lack.
    shared = mmap.mmap(-1, 8 * workers * (1 + len(sizes)))
    meetings, *seconds = np.frombuffer(shared).reshape(-1, workers)

    def train(place: int) -> None:
        meet = partial(_meet, meetings, place)
        found = step_seconds(make, sizes, device="cpu", threads=threads, meet=meet)
        for row, size in zip(seconds, sizes, strict=True):
            row[place] = found[size]

    processes = [
        context.Process(target=train, args=(place,), daemon=True) for place in range(workers)
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
    return {size: harmonic_mean(row.tolist()) for size, row in zip(sizes, seconds, strict=True)}


def _meet(meetings: NDArray[np.float64], place: int) -> None:
    """Wait until all have come: each counts in its place how often it has."""
    meetings[place] += 1
    for _ in range(round(PATIENCE_SECONDS / LOOK_SECONDS)):
        if meetings.min() >= meetings[place]:
            return
        time.sleep(LOOK_SECONDS)
    raise TimeoutError(f"another process must come to measure within {PATIENCE_SECONDS:g} s")


def _have_ended_well(processes: Iterable[ForkProcess]) -> bool:
    """Wait for all processes, or for the first that fails: the others would wait for it."""
    left: dict[object, ForkProcess] = {process.sentinel: process for process in processes}
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
