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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastrcaps_search.cli.report import changed, page_path, read_study
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.report.facts.view import StoredStudy
from fastrcaps_search.report.write import write_report
from fastrcaps_search.store.place import STORAGE_VARIABLE, Location, chosen_location

PAUSE_SECONDS = 5.0
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
    location = chosen_location(None)
    known: StoredStudy | None = None
    pause_seconds = 0.0
    while not _ended(pause_seconds):
        began = time.monotonic()
        # An outage or a full disk: the next look may find it mended.
        with contextlib.suppress(FastrcapsError):
            found = read_study(location, name)
            if known is None or changed(known, found):
                write_report(found, path=page_path(name))
            known = found
        # The page of a long study takes seconds: it must not be written all the time.
        pause_seconds = max(PAUSE_SECONDS, 10 * (time.monotonic() - began))


def _ended(seconds: float) -> bool:
    """Wait so long for the end of standard input; whether it came."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1)


if __name__ == "__main__":
    main(sys.argv[1])
