"""The processes of this program: how it starts others of its own, and how any of them ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from fastrcaps_search.errors import RunError

HOME = Path(__file__).absolute().parent.parent
"""Where this package lies, installed or not."""
START = """
import json, sys
from importlib import import_module, machinery, util

name, told = sys.argv[1:3]
sys.argv[:3] = [name]
home, others = json.loads(told)
# At the end, where they shadow nothing.
sys.path += [folder for folder in others if folder not in sys.path]
spec = machinery.PathFinder.find_spec("fastrcaps_search", [home])
package = sys.modules[spec.name] = util.module_from_spec(spec)
spec.loader.exec_module(package)
with import_module("fastrcaps_search.errors").importing():
    module = import_module(name)
sys.exit(module.main())
"""
"""Takes the package from where its parent has it, which need be no place that Python looks at."""

STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""What asks a process to stop, besides Ctrl-C: by terminals, batch systems and limits of time."""
REASONS = {
    signal.SIGILL: "this processor may be too old for this build of torch",
    signal.SIGKILL: "maybe for want of memory, of which fewer workers need less",
    signal.SIGSEGV: "a fault in torch or another library, or a stack that is too small",
    signal.SIGBUS: "maybe a full disk or /dev/shm, or a file that was cut short",
    signal.SIGABRT: "a library gave up, maybe for want of memory",
    signal.SIGFPE: "a fault in torch or another library",
}
"""The likely reason of a death by a signal."""

Handler = Callable[[int, FrameType | None], object]


def child_command(module: str, *arguments: str) -> list[str]:
    """Command line of a process of this program's own: the ``main`` of a module.

    It finds what this process finds, but for the working directory: that is the user's and must
    not shadow modules. When it dies of a signal, it says where on its standard error.
    """
    folders = [Path(os.fsdecode(entry)).absolute() for entry in sys.path]
    told = json.dumps([str(HOME), [str(folder) for folder in folders if folder != Path.cwd()]])
    python = [sys.executable, "-P", "-X", "faulthandler", "-c", START]
    return [*python, module, told, *arguments]


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


def ending(code: int | None) -> str:
    """How a process ended, by its exit code or as a shell hands on that of a signal."""
    try:
        number = signal.Signals(-code if code is not None and code < 0 else (code or 0) - 128)
    except ValueError:
        return "it does not end" if code is None else f"exit code {code}"
    reason = REASONS.get(number)
    return f"{number.name}: {reason}" if reason else number.name


def handle_stops(handle: Handler, *always: signal.Signals) -> None:
    """Handle what asks this process to stop from now on.

    Args:
        handle: Called with the signal.
        always: Signals to be handled even if they are ignored now: what else is, stays so, as
            ``nohup`` asks for.
    """
    for number in (*always, *STOPS):
        if number in always or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
