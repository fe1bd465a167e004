"""Frozen records of workers: who holds, or held, which run, and what each was last seen to do."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from fastrcaps_search.store.process_identity import ProcessIdentity, without_machine_id
from fastrcaps_search.store.records import Purpose, RunKey

FORGOTTEN_SECONDS = 3600.0
FORGOTTEN_LEASES = 10
"""A worker that went without a word is shown for an hour, or for so many times its lease."""


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
        """The host's name alone."""
        return without_machine_id(self.host)


def _holder(who: LeaseRecord | WorkerRecord) -> Hashable:
    names = (who.host, who.boot_id, who.pid_namespace, who.pid, who.process_start)
    return who.worker, names


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
    def holder(self) -> Hashable:
        """The worker, equal in its lease and its sign of life."""
        return _holder(self)

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
    def is_to_be_suspected(self) -> bool:
        """Whether it is silent, and no other worker has seen that."""
        suspected = self.suspected_seconds
        # A suspicion from the future is one from before the clock was set back.
        return self.is_silent and (suspected is None or suspected < 0)

    @property
    def is_lost(self) -> bool:
        """Whether the run may be taken over: silent, suspected, and silent ever since.

        The last third of the lease begins when another worker finds it silent. After an outage of
        the database all are silent, and this is the time in which the living renew.
        """
        suspected = self.suspected_seconds
        return self.is_silent and suspected is not None and suspected >= self.lease_seconds / 3

    @property
    def free_in_seconds(self) -> float:
        """When another worker may take the run over, should one look for it from now on."""
        if self.is_known_dead:
            return 0.0
        if not self.is_silent:
            return self.lease_seconds - self.silent_seconds
        suspected = 0.0 if self.is_to_be_suspected else self.suspected_seconds or 0.0
        return max(self.lease_seconds / 3 - suspected, 0.0)

    @property
    def _silence(self) -> float:
        """Silence as a share of the lease."""
        return self.silent_seconds / self.lease_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What a worker is doing.

    Attributes:
        doing: ``starts``, ``trains``, ``tests``, ``waits``, ``waits for cores`` or ``measures``.
        number: The trial at hand.
        run: Index of its run.
        epoch: Last epoch that it ended or is in.
        epochs: Epochs of the training.
        images_per_second: Of that epoch.
        awaited: Who uses the cores that it waits for.
    """

    doing: str = "starts"
    number: int | None = None
    run: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    images_per_second: float | None = None
    awaited: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord(Sign, ProcessIdentity):
    """A worker's last sign of life.

    Attributes:
        nonce: Which worker.
        worker: Its name.
        device: Device that it trains on.
        device_name: Name of the processor or card; empty while it is unknown.
        job: Job of a batch system that it runs in, in words.
        lease_seconds: Silence after which it loses its run. A sign comes with each renewal.
        started_at: Seconds since 1970, on the database's clock.
        seen_at: The same of this sign.
        silent_seconds: Since then.
    """

    nonce: str
    worker: str
    device: str
    device_name: str
    job: str | None
    lease_seconds: float
    started_at: float
    seen_at: float
    silent_seconds: float

    @property
    def holder(self) -> Hashable:
        """The worker, equal in its lease and its sign of life."""
        return _holder(self)

    @property
    def is_forgotten(self) -> bool:
        """Whether it has been silent for so long that nobody waits for it any more."""
        return self.silent_seconds > max(FORGOTTEN_SECONDS, FORGOTTEN_LEASES * self.lease_seconds)


GIVEN_BACK = "given back"
"""State of a job that its engine was asked to end, and has not yet."""
WATCHED_SECONDS = 60.0
"""A run that watches jobs has seen them since; ten seconds are the longest between two looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A worker that an engine was given, and that waits or runs.

    Attributes:
        engine: Name of the engine.
        id: The engine's name of the job.
        state: ``waiting``, ``running`` or ``given back``.
        host: Where it runs, if the engine says so.
        reason: Why it waits, in the engine's words.
        flags: Of the run that placed it, as :func:`asked_flags` has them; empty where unknown.
        seen_seconds_ago: Since a run last asked the engine.
    """

    engine: str
    id: str
    state: str
    host: str
    reason: str
    flags: str = ""
    seen_seconds_ago: float = 0.0

    @property
    def is_watched(self) -> bool:
        """Whether a run is likely to watch it still."""
        return self.seen_seconds_ago <= WATCHED_SECONDS


@dataclass(frozen=True, slots=True)
class RunFaults:
    """What a run has met since its last stored epoch.

    Attributes:
        number: The trial.
        run: Index of the run within it.
        deaths: Workers that died.
        device_faults: Times that its device or the memory gave out.
    """

    number: int
    run: int
    deaths: int
    device_faults: int


def held_trials(live: Iterable[LeaseRecord]) -> frozenset[int]:
    """Numbers of the trials of which a run is held by one of these leases."""
    return frozenset(lease.number for lease in live)


def live_leases(leases: Sequence[LeaseRecord]) -> list[LeaseRecord]:
    """The leases that have not run out and whose process is not known to be dead."""
    return [lease for lease in leases if not lease.has_run_out and not lease.is_known_dead]
