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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Tries again, after growing pauses, what the database refuses for the time being.

    Attributes:
        seconds: How long an outage is borne; at 0 the first refusal is final.
        stop: Ends the waiting when it is set.
        tell: Called with the reason when an outage has lasted a while, and with ``None`` when it
            is over.
    """

    seconds: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)
    tell: Callable[[str | None], None] = lambda reason: None

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
        began, pause, told = None, FIRST_PAUSE_SECONDS, False
        while True:
            try:
                result = attempt()
                break
            except (StoreUnavailableError, DiskError) as error:
                if self.seconds == 0:
                    raise
                began = time.monotonic() if began is None else began
                waited = time.monotonic() - began
                self._require_patience(error, waited)
                if waited >= QUIET_SECONDS and not told:
                    told = True
                    self.tell(str(error))
                self.stop.wait(min(pause, self.seconds - waited))
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        if told:
            self.tell(None)
        return result

    def _require_patience(self, error: StoreUnavailableError | DiskError, waited: float) -> None:
        if self.stop.is_set():
            raise InterruptedRunError(
                f"stopped on request while the database could not be used ({error})"
            ) from error
        if waited >= self.seconds:
            raise type(error)(
                f"{error}; waited {self.seconds:g} s for that (--store-patience), now the "
                "worker stops: the same line goes on from what was stored last"
            ) from error
