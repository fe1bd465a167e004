"""The device of a worker: its name, its clock, its threads."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import signal
import threading
import time
from functools import cache
from pathlib import Path

import torch

from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.processes import start_thread

OLDEST_TORCH = (2, 6)
"""As in ``setup.cfg``, which says nothing where this package or torch was not installed by pip."""
if tuple(map(int, torch.__version__.split(".")[:2])) < OLDEST_TORCH:
    raise ImportError(f"torch {torch.__version__} is too old, 2.6 is needed", name="torch")
OMP_PAUSE_HARD = 2
"""OpenMP 5.0's ``omp_pause_hard``: give up what would be kept for the next parallel region."""
EPOLL_EVENT_BYTES = 16
"""Of Linux's ``struct epoll_event``, 12 where it is packed."""


def devices() -> list[str]:
    """Devices of this machine: the cards, then ``cpu``."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [*(f"cuda:{index}" for index in range(count)), "cpu"]


def found_devices(wanted: str) -> list[str]:
    """Devices of this machine that ``wanted`` (auto, cpu, cuda, or cards) allows.

    Cards are named as in ``cuda:0,cuda:2``; none is found where one of them is missing.
    """
    *cards, _ = devices()
    if wanted == "cpu" or (wanted == "auto" and not cards):
        return ["cpu"]
    if wanted in ("auto", "cuda"):
        return cards
    named = list(dict.fromkeys(wanted.split(",")))
    return named if set(named) <= set(cards) else []


def device_name(device: str | torch.device) -> str:
    """Name of the card, or of the processor and its model."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU {_processor()}"


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


def run_setting(device: torch.device, *, precision: str, threads: int, kernel: str) -> RunSetting:
    """Set the threads of this process; how and where a run then trains."""
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    return RunSetting(
        device=device.type,
        device_name=device_name(device),
        torch_version=torch.__version__,
        precision=precision,
        threads=threads,
        kernel=kernel,
    )


@cache
def survive_forks() -> None:
    """Let children that this process forks later multiply, though it has multiplied before.

    GNU's OpenMP, with which torch comes, would have them wait for ever for the threads that only
    the parent has. So these end before a fork; parent and child start new ones when they need any.
    """
    # Of the very library that torch is linked to.
    pause = getattr(ctypes.CDLL(torch._C.__file__), "omp_pause_resource_all", None)
    if pause is None:
        os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
    else:
        os.register_at_fork(before=lambda: pause(OMP_PAUSE_HARD))


def prepare(device: str, *, threads: int) -> torch.device:
    """Settings of this process under which every figure is measured and every value made."""
    survive_forks()
    # Before torch starts its threads, which take the setting over. Gradients of images that are
    # classified well are zero, so that Adam's averages decay through the denormal numbers, on
    # which Intel's processors are up to a hundred times slower (measured: three times per step
    # of a narrow network at batch 1).
    torch.set_flush_denormal(True)
    torch.set_num_threads(threads)
    # fp32 means fp32: cuDNN would round the factors of convolutions to 10 bits (TF32). A trainer
    # of another precision says so for itself (``step.use_precision``).
    torch.backends.cudnn.allow_tf32 = False
    place = torch.device(device)
    if place.type == "cuda" and place.index is not None:
        # Graphs are captured and kernels launched on the current card.
        torch.cuda.set_device(place)
    return place


def is_device_fault(error: BaseException) -> bool:
    """Whether memory or the device gave out, which says nothing about a configuration."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    signs = ("CUDA", "cuDNN", "can't allocate memory")
    return isinstance(error, RuntimeError) and any(sign in text for sign in signs)


class SuspensionWatch:
    """Notices that this process was suspended (SIGSTOP) and woken.

    The time of a suspension counts as training, unlike that for which the machine sleeps: Linux's
    monotonic clock, which ``perf_counter`` reads, stands still meanwhile.

    The SIGCONT that wakes a process says too little: Slurm sends one before each SIGTERM, to
    processes that run. But a suspension ends an epoll_wait with EINTR (signal(7)), as nothing else
    does in a thread that takes no signals, so that one waits in it. Only a suspension that comes
    while that thread is on its way back, within moments of an answer, is missed.
    """

    def __init__(self) -> None:
        self._continued = False
        self._suspended = False
        self._asked = os.eventfd(0)
        self._epoll = select.epoll()
        self._epoll.register(self._asked, select.EPOLLIN)
        self._answered = threading.Event()
        # Python's own would wait on after EINTR without a word.
        self._wait = ctypes.CDLL(None, use_errno=True).epoll_wait
        start_thread(self._watch)

    def note(self, *_: object) -> None:
        """Is to be called for SIGCONT."""
        self._continued = True

    def __call__(self) -> bool:
        """Whether there was a suspension since the last call."""
        if not self._continued:
            return False
        self._continued = False
        self._answered.clear()
        os.eventfd_write(self._asked, 1)
        # Whatever ended the wait before has been noted by then.
        self._answered.wait()
        found, self._suspended = self._suspended, False
        return found

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        event = ctypes.create_string_buffer(EPOLL_EVENT_BYTES)
        while True:
            if self._wait(self._epoll.fileno(), event, 1, -1) == 1:
                os.eventfd_read(self._asked)
                self._answered.set()
            elif ctypes.get_errno() == errno.EINTR:
                self._suspended = True


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
