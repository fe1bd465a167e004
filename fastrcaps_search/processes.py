"""The processes of this program: how it starts others of its own, and how any of them ends."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from fastrcaps_search.errors import RunError, importing

HOME = Path(__file__).absolute().parent.parent
"""Where this package lies, installed or not."""
START = (
    "import json, sys; home, *others = json.loads(sys.argv.pop(1)); "
    # What else lies there, and elsewhere, shadows nothing.
    "sys.path.insert(0, home); import fastrcaps_search; sys.path = [*sys.path[1:], *others]; "
    "from fastrcaps_search.processes import start; start()"
)
"""Takes the package from where its parent has it, which need be no place that Python looks at."""

STOPS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
)
"""What asks a process to stop: Ctrl-C, terminals, batch systems and limits of time."""
REASONS = {
    signal.SIGILL: "this processor may be too old for this build of torch",
    signal.SIGKILL: "maybe for want of memory, of which fewer workers need less",
    signal.SIGSEGV: "a fault in torch or another library, or a stack that is too small",
    signal.SIGBUS: "maybe a full disk or /dev/shm, or a file that was cut short",
    signal.SIGABRT: "a library gave up, maybe for want of memory",
}
"""The likely reason of a death by a signal."""

Handler = Callable[[int, FrameType | None], object]


def child_command(module: str, *arguments: str) -> list[str]:
    """Command line of a process of this program's own: the ``main`` of a module.

    It finds what this process finds, but for the working directory: that is the user's and must
    not shadow modules. When it dies of a signal, it says where on its standard error.
    """
    folders = [Path(os.fsdecode(entry)).absolute() for entry in sys.path]
    told = json.dumps([str(HOME), *(str(folder) for folder in folders if folder != Path.cwd())])
    python = [sys.executable, "-P", "-X", "faulthandler", "-c", START]
    return [*python, told, module, *arguments]


def start() -> NoReturn:
    """Do in a child what it was started for."""
    sys.argv.pop(0)
    with importing():
        module = importlib.import_module(sys.argv[0])
    sys.exit(module.main())


def started(command: Sequence[str], **settings: Any) -> subprocess.Popen[str]:  # noqa: ANN401
    """A process that speaks UTF-8.

    Args:
        command: Its command line.
        settings: As for :class:`subprocess.Popen`.

    Raises:
        RunError: It cannot be started.
    """
    try:
        return subprocess.Popen(command, text=True, encoding="utf-8", errors="replace", **settings)
    except OSError as error:
        raise RunError(
            f"{command[0]} must start as a process, got: {error.strerror}; `ulimit -u` and free "
            "memory limit how many there may be"
        ) from error


def start_thread(work: Callable[..., object], *arguments: object) -> None:
    """Do something beside all else, for as long as this process lasts.

    Raises:
        RunError: There may be no more threads.
    """
    try:
        threading.Thread(target=work, args=arguments, daemon=True).start()
    except RuntimeError as error:
        raise RunError(
            f"a process must have threads, got: {error}; `ulimit -u` and free memory limit how "
            "many there may be"
        ) from error


def ending(code: int | None) -> str:
    """How a process ended, by its exit code or as a shell hands on that of a signal."""
    if code is None:
        return "it does not end"
    try:
        number = signal.Signals(-code if code < 0 else code - 128)
    except ValueError:
        return f"exit code {code}"
    reason = REASONS.get(number)
    return f"{number.name}: {reason}" if reason else number.name


def handle_stops(handle: Handler) -> None:
    """Let what asks this process to stop call ``handle``, but for a hangup under ``nohup``."""
    for number in STOPS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
