"""Keeps the page of a running study current, in a process of low priority beside the workers.

``run`` starts it and ends it by closing its standard input, which the kernel does too when ``run``
is killed. It gets the database through its environment: a password has no place on a command line.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastrcaps_search.cli.report import page_path, watch
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.report.formats import Format
from fastrcaps_search.store.place import STORAGE_VARIABLE, Location, chosen_location

PAUSE_SECONDS = 5.0
REST = 10.0
"""A page that took so long to write is not written again for so many times as long."""
PATIENCE_SECONDS = 10.0
LOWEST_PRIORITY = 19
"""Niceness with which the page takes next to nothing from trainings that are being timed."""
MODULE = "fastrcaps_search.cli.current"


@contextmanager
def kept_current(name: str, location: Location) -> Iterator[Path]:
    """Keep the page current meanwhile; where it is.

    What goes wrong there is not said: the run writes the page itself when it ends.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, STORAGE_VARIABLE: location.url},
        # Ctrl-C is for the run, which decides when it ends.
        start_new_session=True,
    )
    try:
        yield page_path(name)
    finally:
        # Before the run writes its last page, which this one must not replace by an older.
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
        process.kill()
        process.communicate()


def main(name: str) -> None:
    """Write the page whenever the study has changed, until standard input ends."""
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    # An exit in good order leaves no temporary file behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    watch(
        chosen_location(None),
        name,
        [(page_path(name), Format.HTML)],
        wait=_ended,
        pause_seconds=PAUSE_SECONDS,
        rest=REST,
        bears=FastrcapsError,
    )


def _ended(seconds: float) -> bool:
    """Wait so long for the end of standard input; whether it came."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1)


if __name__ == "__main__":
    main(sys.argv[1])
