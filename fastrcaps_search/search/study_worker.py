"""What a worker does in its process: claim, train, tell, until the study's budget is met."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace

from fastrcaps_search.analysis.signs import holders
from fastrcaps_search.errors import (
    CheckpointError,
    DeviceError,
    DiskError,
    FastrcapsError,
    InterruptedRunError,
    LeaseLostError,
)
from fastrcaps_search.search import files
from fastrcaps_search.search.checkpoints import CheckpointCollector
from fastrcaps_search.search.events import Tell, WorkerEvent, named
from fastrcaps_search.search.files import LOG, logging_to
from fastrcaps_search.search.launch import WorkerSpec
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.search.runs import fail_run, read_test_set, train_run
from fastrcaps_search.search.signs import followed, own_job
from fastrcaps_search.search.slots import Slots
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.workplace import Workplace
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.presence import Presence
from fastrcaps_search.store.records import Purpose
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.device import SuspensionWatch, device_name
from fastrcaps_search.training.resources import cores
from fastrcaps_search.training.splits import stage

WAIT_SECONDS = 0.5
WAIT_SHARE = 0.05
LONGEST_WAIT_SECONDS = 5.0
"""So long a worker that waits is silent at most: as long as one that trains, by default."""
RELEASE_SECONDS = 10.0
"""After so long no other attempt to give a run back begins: the supervisor waits for 30 s."""
DEVICE_RETRIES = 2
"""Fresh attempts, each in a process of its own, after a trial's device or memory has given out."""


class Worker:
    """Works on one study in this process.

    Args:
        store: The store, open for writing.
        spec: How the worker was started.
        tell: Called with an event and its facts.
        stop: Set when the worker is to stop.
    """

    def __init__(
        self, store: Store, spec: WorkerSpec, *, tell: Tell, stop: threading.Event
    ) -> None:
        self._store = store
        self._study = study = store.study(spec.study)
        self._spec = spec
        self._stop = stop
        self._place: Workplace | None = None
        # A card is its own: only threads that compute on cores need slots.
        self._cores = min(spec.threads, cores().amount) if spec.device == "cpu" else 0
        self._slots = Slots(owner=f"{spec.name} of study {study.name}")
        claimant = Claimant(
            store=store,
            study=study,
            worker=spec.name,
            device=spec.device,
            lease_seconds=spec.lease_seconds,
        )
        self._presence = Presence(claimant, job=own_job(os.environ))
        self._tell = followed(tell, self._presence)
        # A database that does not even take a run back is not asked for more.
        self._store_answers = True
        self._queue = TrialQueue(claimant, propose)
        self._export = OptunaExport(store, study.name)
        self._collector = CheckpointCollector(store, study)

    def work(self) -> None:
        """Work until nothing is left to claim, or nothing was for too long.

        Raises:
            InterruptedRunError: Asked to stop.
            DiskError: No room for checkpoints or rows.
            StoreError: The database cannot be used.
        """
        told: WorkerEvent | None = None
        self._presence.begin()
        idle_since = time.monotonic()
        while not self._stop.is_set():
            if self._slots.try_claim(self._cores):
                # Before a run is claimed: without its images none must begin.
                self._staged()
                if self._stop.is_set():
                    break
                found, waits = self._queue.claim_next(), WorkerEvent.WAITING
            else:
                found = Idle.DONE if self._queue.is_over() else Idle.WAIT
                waits = WorkerEvent.NO_CORES
            if found is Idle.DONE:
                # Others may have ended since what was begun here.
                self._collector.collect()
                self._tell(WorkerEvent.DONE)
                return
            if isinstance(found, Claim):
                told = None
                self._do(found)
                idle_since = time.monotonic()
                continue
            limit = self._spec.idle_limit
            if limit is not None and time.monotonic() - idle_since >= limit:
                self._tell(WorkerEvent.IDLE, seconds=limit)
                return
            if told != waits:
                self._tell(waits, **self._awaited(waits))
            told = waits
            self._sign_idle(waits)
            self._slots.release()
            self._stop.wait(wait_seconds(time.monotonic() - idle_since))
        raise InterruptedRunError("stopped on request")

    def _sign_idle(self, waits: WorkerEvent) -> None:
        """Leave a sign of life now and then."""
        if waits is WorkerEvent.NO_CORES and self._presence.is_due:
            # Others may use them by now.
            sign = replace(self._presence.sign, awaited=self._slots.holders())
            self._presence.sign = sign
        self._presence.beat()

    def close(self) -> None:
        """Close the connections and give the cores back."""
        self._export.close()
        self._slots.release()
        if self._store_answers:
            self._presence.end()

    def _threads(self, before: int | None) -> int:
        """Threads of a run: this worker's, or those that it was begun with.

        Where there are not so many free cores, it gets those at hand: nobody knows how long it
        would wait, with a trial that others could train.
        """
        threads = self._spec.threads if before is None else min(before, cores().amount)
        if not self._cores or self._slots.try_claim(threads):
            return threads
        return len(self._slots.held)

    def _awaited(self, waits: WorkerEvent) -> dict[str, object]:
        """Who holds the cores or the runs that are waited for."""
        if waits is WorkerEvent.NO_CORES:
            return {"cores": self._cores, "held": self._slots.holders()}
        return {"held": holders(self._store.leases(self._study), self._study) or ""}

    def _staged(self) -> Workplace:
        """The images on the device, once there is a core for them."""
        if self._place is None:
            watch = SuspensionWatch()
            signal.signal(signal.SIGCONT, watch.note)
            # Of several cards this process sees only its own.
            splits = stage(
                self._study.definition,
                device=self._spec.device.partition(":")[0],
                threads=self._spec.threads,
                folder=self._spec.data_folder,
            )
            self._presence.device_name = device_name(splits.training.labels.device)
            self._place = Workplace(
                self._study, splits, self._threads, self._tell, self._stop.is_set, watch
            )
        return self._place

    def _do(self, claim: Claim) -> None:
        lease = RunLease(self._store, claim, presence=self._presence)
        log = files.run_log(self._store.location, self._study, claim.key)
        do = {Purpose.TRAIN: self._train, Purpose.TEST: self._test}[claim.purpose]
        try:
            with logging_to(log), lease.renewed():
                do(lease)
        except LeaseLostError as error:
            LOG.warning(error)
            self._tell(WorkerEvent.LOST, **named(self._study, claim.key))
        except BaseException:
            # When that fails, others see that this process is no more, and count it as a death.
            self._store_answers = False
            late = threading.Event()
            timer = threading.Timer(RELEASE_SECONDS, late.set)
            timer.daemon = True
            timer.start()
            with suppress(FastrcapsError):
                RetryPolicy(RELEASE_SECONDS, stop=late)(lease.release)
                self._store_answers = True
            timer.cancel()
            raise

    def _train(self, lease: RunLease) -> None:
        claim = lease.claim
        parameters = json.dumps(claim.parameters.to_dict())
        LOG.info(f"{claim.key} claimed by {self._spec.name} (claim {claim.token}): {parameters}")
        epochs = self._study.definition.epochs_of(claim.parameters)
        policy = claim.parameters.described
        self._tell(
            WorkerEvent.BEGINS, **named(self._study, claim.key), policy=policy, epochs=epochs
        )
        try:
            train_run(self._staged(), lease)
        except DeviceError as error:
            # Even if the run is lost, the device of this process is not to be trusted.
            with suppress(LeaseLostError):
                self._note_device_fault(lease, error)
            raise
        self._collector.collect()
        # What cannot be written there now, is by a later worker or at the end of the command.
        with suppress(FastrcapsError):
            self._export.add()

    def _note_device_fault(self, lease: RunLease, error: DeviceError) -> None:
        """Count it; a training that has had its attempts ends as failed."""
        faults, most = lease.note_device_fault(), DEVICE_RETRIES + 1
        LOG.error(f"attempt {faults} of {most}: {error}")
        if faults < most:
            self._tell(WorkerEvent.FAULT, attempt=faults, attempts=most, reason=str(error))
        else:
            message = f"{error} ({faults} attempts)"
            fail_run(self._staged(), lease, kind="device", message=message)

    def _test(self, lease: RunLease) -> None:
        claim = lease.claim
        self._tell(WorkerEvent.TESTING, **named(self._study, claim.key))
        try:
            read_test_set(self._staged(), lease)
        except (CheckpointError, DeviceError, DiskError) as error:
            LOG.warning(f"no test accuracy: {error}")
            self._tell(WorkerEvent.UNTESTED, **named(self._study, claim.key), reason=str(error))
            self._queue.give_up_testing(claim.key)
        lease.hand_back()


def wait_seconds(waited: float) -> float:
    """How long a worker waits before it asks again; a hundred that wait do not ask at once.

    A twentieth of what it has waited so far, so that it loses no more than that, but half a second
    at least.

    Args:
        waited: Seconds since it had something to do.
    """
    pause = min(max(WAIT_SHARE * waited, WAIT_SECONDS), LONGEST_WAIT_SECONDS)
    return pause * random.uniform(0.8, 1.2)
