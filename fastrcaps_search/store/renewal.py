"""A thread that renews a lease, whatever the training and the database are doing."""

from __future__ import annotations

import threading
from collections.abc import Callable

RETRY_SECONDS = 1.0


class Renewal:
    """Renews a lease until it is stopped or the lease is lost.

    Args:
        renew: Renews once; whether the lease is still held. It may fail for a while.
        every_seconds: Pause between two renewals.

    Attributes:
        lost: Set once the lease was found to be another worker's.
    """

    def __init__(self, renew: Callable[[], bool], *, every_seconds: float) -> None:
        self.lost = threading.Event()
        self._renew = renew
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; a renewal in progress is not waited for."""
        self._stop.set()

    def _work(self) -> None:
        pause = self._every_seconds
        while not self._stop.wait(pause):
            try:
                held = self._renew()
            except Exception:
                # The database is out, most likely. The training goes on; its next write says what
                # is wrong, if it still is. A thread that ended here would lose the trial.
                pause = min(RETRY_SECONDS, self._every_seconds)
                continue
            if not held:
                self.lost.set()
                return
            pause = self._every_seconds
