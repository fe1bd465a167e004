"""How long an outage of the database is borne, and what is said of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fastrcaps_search.errors import DiskError, InterruptedRunError, StoreUnavailableError

Result = TypeVar("Result")
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
QUIET_SECONDS = 1.0
"""Outages up to this length are not worth a line."""


def _unheard(reason: str | None) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Tries again, after growing pauses, what the database refuses for the time being.

    Attributes:
        seconds: How long an outage is borne; at 0 the first refusal is final.
        stop: Ends the waiting when it is set.
        tell: Called with the reason when an outage has lasted a while, and with ``None`` when it
            is over.
    """

    seconds: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)
    tell: Callable[[str | None], None] = _unheard

    def __call__(self, attempt: Callable[[], Result]) -> Result:
        """What the attempt returns, once it succeeds.

        Args:
            attempt: Must do no harm when it is done twice: a commit whose answer was lost is
                tried again.

        Raises:
            StoreUnavailableError: The patience is at an end.
            DiskError: The same, with a full disk under the database.
            InterruptedRunError: Asked to stop while the database did not answer.
        """
        outage = _Outage(self)
        while True:
            try:
                result = attempt()
            except (StoreUnavailableError, DiskError) as error:
                outage.bear(error)
            else:
                outage.end()
                return result


class _Outage:
    """One outage, from its first refusal."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._began: float | None = None
        self._pause = FIRST_PAUSE_SECONDS
        self._told = False

    def bear(self, error: StoreUnavailableError | DiskError) -> None:
        """Wait before the next attempt, or raise when that has gone on for too long."""
        patience = self._patience
        if patience.seconds == 0:
            raise error
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        waited = now - self._began
        if patience.stop.is_set():
            raise InterruptedRunError(
                f"stopped on request while the database could not be used ({error})"
            ) from error
        if waited >= patience.seconds:
            raise type(error)(
                f"{error}; waited {patience.seconds:g} s for that (--store-patience), now the "
                "worker stops: its last checkpoint is kept, the same line goes on from there"
            ) from error
        if waited >= QUIET_SECONDS and not self._told:
            self._told = True
            patience.tell(str(error))
        patience.stop.wait(min(self._pause, patience.seconds - waited))
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def end(self) -> None:
        """Say that the database is back, where its absence was spoken of."""
        if self._told:
            self._patience.tell(None)
