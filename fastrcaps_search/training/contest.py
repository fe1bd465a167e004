"""Seconds per step while several processes train at the same time and share the cores."""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Barrier
from statistics import harmonic_mean, median

from fastrcaps_search.training.device import prepare
from fastrcaps_search.training.resources import available_bytes

WINDOW_SECONDS = 0.4
"""Time for the steps of one batch size; one step is made however long it takes."""
PATIENCE_SECONDS = 120.0
"""The longest that a process waits for the others."""

StepOf = Callable[[int], Callable[[], object]]
"""Gives the training step of a batch size, warmed up."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one crew of processes did.

    Attributes:
        workers: Processes.
        threads: Threads of each.
        step_seconds: Seconds of a step by batch size, as each of them sees it.
    """

    workers: int
    threads: int
    step_seconds: dict[int, float]


@dataclass(frozen=True, slots=True)
class _Told:
    """What one process tells: seconds of a step by size; its memory before these and at most."""

    seconds: list[float]
    bytes_before: int
    bytes_at_most: int


def contest(
    crews: Iterable[tuple[int, int]],
    sizes: Sequence[int],
    *,
    largest: int,
    make: Callable[[], StepOf],
) -> list[Measured]:
    """Let one crew after the other train; those that memory has no room for are left out.

    Args:
        crews: Workers and threads of each, the fewest workers first.
        sizes: Batch sizes to measure.
        largest: The largest batch size of the study, which memory must have room for.
        make: Builds network and step, in each process.

    Raises:
        RuntimeError: The first crew could not train.
    """
    found: list[Measured] = []
    needed = 0
    for workers, threads in crews:
        room = available_bytes()
        if found and room is not None and workers * needed > room:
            break
        try:
            told = _together(workers, threads, sizes, make)
        except RuntimeError:
            if not found:
                raise
            # More processes need more memory: no crew after this one would fare better.
            break
        by_size = zip(sizes, zip(*(one.seconds for one in told), strict=True), strict=True)
        seconds = {size: harmonic_mean(each) for size, each in by_size}
        needed = max(_needed(one, share=largest / max(sizes)) for one in told)
        found.append(Measured(workers, threads, seconds))
    return found


def _needed(told: _Told, *, share: float) -> int:
    """Bytes of a worker: what the batches have added grows in proportion to them."""
    added = told.bytes_at_most - told.bytes_before
    return told.bytes_before + round(added * max(share, 1.0))


def _together(
    workers: int, threads: int, sizes: Sequence[int], make: Callable[[], StepOf]
) -> list[_Told]:
    """What each of the processes tells."""
    # A fork shares the imports, which take longer than the measurement. It is safe because this
    # process has one thread of Python, and has not yet made torch start any of its own.
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(workers)
    processes: list[ForkProcess] = []
    ends: list[Connection] = []
    try:
        for _ in range(workers):
            mine, theirs = context.Pipe(duplex=False)
            ends.append(mine)
            process = context.Process(
                target=_tell, args=(theirs, barrier, threads, sizes, make), daemon=True
            )
            with warnings.catch_warnings():
                # From Python 3.12 on, of the threads of numpy's BLAS, which renews them itself.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            processes.append(process)
            theirs.close()
        return _heard(ends)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for end in ends:
            end.close()


def _heard(ends: Sequence[Connection]) -> list[_Told]:
    found: list[_Told] = []
    waited = list(ends)
    while waited:
        for end in wait(waited):
            waited = [other for other in waited if other is not end]
            try:
                told = json.loads(end.recv_bytes()) if isinstance(end, Connection) else {}
            except EOFError:
                raise RuntimeError("a process that measured a training step died") from None
            if "error" in told:
                raise RuntimeError(told["error"])
            found.append(_Told(**told))
    return found


def _tell(
    told: Connection,
    barrier: Barrier,
    threads: int,
    sizes: Sequence[int],
    make: Callable[[], StepOf],
) -> None:
    with suppress(BrokenPipeError):
        try:
            found = asdict(_measure(barrier, threads, sizes, make))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        # As text: nothing is unpickled.
        told.send_bytes(json.dumps(found).encode())


def _measure(
    barrier: Barrier, threads: int, sizes: Sequence[int], make: Callable[[], StepOf]
) -> _Told:
    prepare("cpu", threads=threads)
    step_of = make()
    before = _bytes_at_most()
    seconds = []
    for size in sizes:
        step = step_of(size)
        barrier.wait(PATIENCE_SECONDS)
        seconds.append(_median_seconds(step))
    return _Told(seconds, before, _bytes_at_most())


def _median_seconds(step: Callable[[], object]) -> float:
    spent: list[float] = []
    end = time.perf_counter() + WINDOW_SECONDS
    while not spent or time.perf_counter() < end:
        begun = time.perf_counter()
        step()
        spent.append(time.perf_counter() - begun)
    return median(spent)


def _bytes_at_most() -> int:
    """The most memory that this process has had at once; Linux counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
