"""What a worker is told to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fastrcaps_search.store.lease import Claim


class Duty(StrEnum):
    """What a worker is to do next."""

    TRAIN = "train"
    REPEAT = "repeat"
    TEST = "test"
    WAIT = "wait"
    DONE = "done"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class Admitted:
    """Answer of the door: a duty, with a claim where there is something to do."""

    duty: Duty
    claim: Claim | None = None
