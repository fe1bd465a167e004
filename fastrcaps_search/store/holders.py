"""Frozen records of who holds, or held, which run: this process, or another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastrcaps_search.store.process_identity import ProcessIdentity
from fastrcaps_search.store.records import Purpose, RunKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """That a worker was given a run: for the first time, to go on with it, or to test it.

    Attributes:
        number: The trial.
        run: Index of the run within it.
        token: Fencing token; grows with each claim of the run.
        purpose: ``train`` or ``test``.
        worker: Name of the worker.
        host: Name and id of its machine.
        device: Device that it trains on.
        claimed_at: Seconds since 1970, on the database's clock.
    """

    number: int
    run: int
    token: int
    purpose: str
    worker: str
    host: str
    device: str
    claimed_at: float

    @property
    def key(self) -> RunKey:
        """The run."""
        return RunKey(self.number, self.run)

    @property
    def is_training(self) -> bool:
        """Whether the run is held to be trained."""
        return self.purpose == Purpose.TRAIN

    @property
    def host_name(self) -> str:
        """The host's name alone; its machine id is nobody's business."""
        name, separator, _ = self.host.rpartition("/")
        return name if separator else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord(ClaimRecord, ProcessIdentity):
    """Which process holds a run now.

    Attributes:
        renewed_at: Seconds since 1970, on the database's clock.
        lease_seconds: Silence after which it runs out.
        silent_seconds: Since it was last renewed.
        suspected_seconds: Since another worker first found it silent; ``None`` where none has.
    """

    renewed_at: float
    lease_seconds: float
    silent_seconds: float
    suspected_seconds: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the worker has not been heard for so long that it is suspected to be lost."""
        # After the clock was set back all are silent, until they renew.
        return self._silence >= 2 / 3 or self._silence < 0

    @property
    def has_run_out(self) -> bool:
        """Whether the worker has not been heard for the whole length of its lease."""
        return self._silence >= 1

    @property
    def is_lost(self) -> bool:
        """Whether the run may be taken over: silent, suspected, and silent ever since.

        The last third of the lease begins when another worker finds it silent. After an outage of
        the database all are silent, and this is the time in which the living renew.
        """
        suspected = self.suspected_seconds
        return self.is_silent and suspected is not None and suspected >= self.lease_seconds / 3

    @property
    def _silence(self) -> float:
        """Silence as a share of the lease."""
        return self.silent_seconds / self.lease_seconds


def live_leases(leases: Sequence[LeaseRecord]) -> list[LeaseRecord]:
    """The leases that have not run out and whose process is not known to be dead."""
    return [lease for lease in leases if not lease.has_run_out and not lease.is_known_dead]
