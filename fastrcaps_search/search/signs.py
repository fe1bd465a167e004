"""What a worker tells its supervisor, as the sign of life that everybody can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fastrcaps_search.definition.checks import shortened
from fastrcaps_search.search.events import Tell, WorkerEvent
from fastrcaps_search.search.supervise import DOING
from fastrcaps_search.store.holders import Sign
from fastrcaps_search.store.presence import Presence

JOB_VARIABLE = "FASTRCAPS_JOB"
"""Names the job of a batch system that a worker runs in, in words: ``slurm 123``."""
PROGRESS = ("epoch", "epochs", "images_per_second")
"""Facts of events that stand in a sign under the same names."""


def followed(tell: Tell, presence: Presence) -> Tell:
    """Tells, and notes it for the worker's next sign."""

    def told(event: WorkerEvent, **facts: object) -> None:
        known = {name: facts[name] for name in PROGRESS if name in facts}
        if event in DOING:
            number = facts.get("trial")
            known |= {"number": number, "run": None if number is None else facts.get("run", 0)}
            if event == WorkerEvent.NO_CORES:
                known["awaited"] = facts["held"]
            presence.sign = Sign(doing=DOING[event], **known)  # type: ignore[arg-type]  # by name
        elif known:
            presence.sign = replace(presence.sign, **known)  # type: ignore[arg-type]  # by name
        tell(event, **facts)

    return told


def own_job(environment: Mapping[str, str]) -> str | None:
    """The job of a batch system that this process runs in, in words; ``None`` outside of any."""
    slurm = environment.get("SLURM_JOB_ID")
    named = environment.get(JOB_VARIABLE) or (f"slurm {slurm}" if slurm else None)
    return None if named is None else shortened(named)
