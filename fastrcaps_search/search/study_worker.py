"""What a worker does in its process: claim, train, tell, until the study's budget is met."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fastrcaps_search.errors import (
    CheckpointError,
    DeviceError,
    FastrcapsError,
    InterruptedRunError,
    LeaseLostError,
)
from fastrcaps_search.search import files
from fastrcaps_search.search.slots import CoreSlots
from fastrcaps_search.search.trial_log import LOG, log_claim, logging_to
from fastrcaps_search.store.admission import Door
from fastrcaps_search.store.duties import Admitted, Duty
from fastrcaps_search.store.failures import failure_facts
from fastrcaps_search.store.lease import Claim, ClaimedTrial, live_leases
from fastrcaps_search.store.records import Failure, StudyRecord, TrialRecord
from fastrcaps_search.store.repeats import ClaimedRepeat
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import cores

if TYPE_CHECKING:
    from fastrcaps_search.search.runs import Workplace
    from fastrcaps_search.search.tidying import Tidying

WAIT_SECONDS = 0.5
DEVICE_RETRIES = 2
"""Fresh attempts, each in a process of its own, after a trial's device or memory has given out."""
Tell = Callable[..., None]
"""Called with the name of an event and its facts."""


class Worker:
    """Works on one study in this process.

    Args:
        store: The store, open for writing.
        study: The study.
        name: Name of the worker.
        device: ``cpu`` or ``cuda:N``.
        threads: Threads of torch.
        data_folder: Folder with image data.
        lease_seconds: Silence after which another worker may take over a trial of this one.
        tell: Called with the name of an event and its facts.
        stop: Set when the worker is to stop.
    """

    def __init__(
        self,
        store: Store,
        study: StudyRecord,
        *,
        name: str,
        device: str,
        threads: int,
        data_folder: Path | None,
        lease_seconds: float,
        tell: Tell,
        stop: threading.Event,
    ) -> None:
        # Optuna takes a moment to import; the signals are in place before.
        from fastrcaps_search.search.suggest import propose

        self._store = store
        self._study = study
        self._device = device
        self._threads = threads
        self._data_folder = data_folder
        self._tell = tell
        self._stop = stop
        self._place: Workplace | None = None
        self._tidying: Tidying | None = None
        # A card is its own: only threads that compute on cores need slots.
        self._slots = CoreSlots(owner=f"{name} of study {study.name}") if device == "cpu" else None
        self._door = Door(
            store,
            study,
            worker=name,
            device=device,
            propose=propose,
            lease_seconds=lease_seconds,
        )

    def work(self) -> None:
        """Work until nothing is left to claim.

        Raises:
            InterruptedRunError: Asked to stop.
            DiskError: No room for checkpoints or rows.
            StoreError: The database cannot be used.
        """
        told = ""
        while not self._stop.is_set():
            admitted = self._next()
            if admitted is not None and admitted.duty in (Duty.DONE, Duty.EXHAUSTED):
                self._tell(str(admitted.duty))
                return
            if admitted is not None and admitted.claim is not None:
                told = ""
                self._do(admitted, admitted.claim)
                self._tidy(admitted.duty)
                continue
            waits = "no_cores" if admitted is None else "waiting"
            if told != waits:
                self._tell(waits, **self._awaited(waits))
            told = waits
            self._free_cores()
            self._stop.wait(WAIT_SECONDS)
        raise InterruptedRunError("stopped on request")

    def close(self) -> None:
        """Close the connections and give the cores back."""
        self._door.close()
        self._free_cores()

    def _next(self) -> Admitted | None:
        """What is to be done next; ``None`` while there are no free cores for it."""
        if self._slots is not None and not self._slots.try_claim(self._wanted_cores()):
            over = self._door.over()
            return None if over is None else Admitted(over)
        # Before a trial is claimed: without its images none must begin.
        self._staged()
        return self._door.next()

    def _wanted_cores(self) -> int:
        return min(self._threads, cores())

    def _use_threads(self, threads: int) -> int:
        """Threads of a run, which may have been begun with others than this worker's.

        Where there are not so many free cores, it gets those at hand: nobody knows how long it
        would wait, with a trial that others could train.
        """
        if self._slots is None or self._slots.try_claim(threads):
            return threads
        return self._slots.held

    def _free_cores(self) -> None:
        if self._slots is not None:
            self._slots.release()

    def _tidy(self, duty: Duty) -> None:
        """Remove the networks of trials that are well behind the front."""
        if duty is Duty.TEST:
            return
        from fastrcaps_search.search.tidying import Tidying

        self._tidying = self._tidying or Tidying(self._store, self._study)
        self._tidying.tidy()

    def _awaited(self, waits: str) -> dict[str, object]:
        if waits == "waiting" or self._slots is None:
            return {"held": self._held()}
        return {"cores": self._wanted_cores(), "held": self._slots.holders()}

    def _staged(self) -> Workplace:
        """The images on the device, once there is a core for them."""
        if self._place is None:
            # Torch takes seconds to import.
            from fastrcaps_search.search.runs import Workplace
            from fastrcaps_search.training.device import SuspensionWatch
            from fastrcaps_search.training.stage import stage

            watch = SuspensionWatch()
            signal.signal(signal.SIGCONT, lambda *_: setattr(watch, "woken", True))
            # Of several cards this process sees only its own.
            splits = stage(
                self._study.definition,
                device=self._device.partition(":")[0],
                threads=self._threads,
                folder=self._data_folder,
            )
            self._place = Workplace(
                self._study,
                splits,
                self._threads,
                self._tell,
                self._stop.is_set,
                watch,
                self._use_threads,
            )
        return self._place

    def _held(self) -> str:
        """Who holds the trials that are waited for."""
        return ", ".join(
            f"trial {lease.number} ({lease.worker}, process {lease.pid} on {lease.host_name})"
            for lease in live_leases(self._store.leases(self._study))
        )

    def _do(self, admitted: Admitted, claim: Claim) -> None:
        claimed = ClaimedRepeat(self._store, claim)
        log = files.trial_log(self._store.location, self._study, claim.number)
        try:
            with logging_to(log), claimed.renewed():
                do = {Duty.TRAIN: self._train, Duty.REPEAT: self._repeat, Duty.TEST: self._test}
                do[admitted.duty](claimed)
        except LeaseLostError as error:
            LOG.warning("%s", error)
            self._tell("lost", trial=claim.number)
            return
        except BaseException:
            # When that fails, others see that this process is no more.
            with suppress(FastrcapsError):
                claimed.release()
            raise

    def _train(self, claimed: ClaimedTrial) -> None:
        from fastrcaps_search.search.trial import TrialTraining

        claim = claimed.claim
        self._tell("trial", **self._begun(claim))
        training = TrialTraining(self._staged(), claimed, self._record(claim))

        def fail(failure: Failure) -> None:
            claimed.fail(failure)
            self._tell("failed", trial=claim.number, **failure_facts(failure))

        with self._device_faults_noted(claimed, fail):
            failure = training.train()
        facts = {} if failure is None else failure_facts(failure)
        self._tell("failed" if facts else "complete", trial=claim.number, **facts)

    def _repeat(self, claimed: ClaimedRepeat) -> None:
        from fastrcaps_search.search.trial import RepeatTraining

        claim = claimed.claim
        training = RepeatTraining(self._staged(), claimed, self._record(claim))
        facts = {"trial": claim.number, "run": training.index}
        self._tell("repeat", run=training.index, **self._begun(claim))

        def fail(failure: Failure) -> None:
            training.fail(failure)
            self._tell("unrepeated", **failure_facts(failure), **facts)

        with self._device_faults_noted(claimed, fail):
            failure = training.train()
        claimed.hand_back()
        if failure is None:
            self._tell("repeated", **facts)
        else:
            self._tell("unrepeated", **failure_facts(failure), **facts)

    def _begun(self, claim: Claim) -> dict[str, object]:
        """Log who goes on with a trial; what is told of it."""
        log_claim(claim)
        epochs = self._study.definition.epochs_of(claim.parameters)
        return {"trial": claim.number, "policy": claim.parameters.described, "epochs": epochs}

    def _record(self, claim: Claim) -> TrialRecord:
        (record,) = self._store.trials(self._study, epochs=True, number=claim.number)
        return record

    @contextmanager
    def _device_faults_noted(
        self, claimed: ClaimedTrial, fail: Callable[[Failure], None]
    ) -> Iterator[None]:
        try:
            yield
        except DeviceError as error:
            # Even if the trial is lost, the device of this process is not to be trusted.
            with suppress(LeaseLostError):
                self._note_device_fault(claimed, error, fail)
            raise

    def _note_device_fault(
        self, claimed: ClaimedTrial, error: DeviceError, fail: Callable[[Failure], None]
    ) -> None:
        """Count it; a training that has had its attempts ends as failed."""
        faults = claimed.note_device_fault()
        LOG.error("attempt %d of %d: %s", faults, DEVICE_RETRIES + 1, error)
        if faults <= DEVICE_RETRIES:
            self._tell("fault", attempt=faults, attempts=DEVICE_RETRIES + 1, reason=str(error))
            return
        number = claimed.claim.number
        reason = f"{error} ({faults} attempts)"
        log = files.trial_log(self._store.location, self._study, number)
        fail(Failure("device", reason, traceback.format_exc(), str(log)))

    def _test(self, claimed: ClaimedTrial) -> None:
        from fastrcaps_search.search.testing import read_test_set

        number = claimed.claim.number
        self._tell("testing", trial=number)
        try:
            read_test_set(self._staged(), claimed, self._record(claimed.claim))
        except CheckpointError as error:
            LOG.warning("no test accuracy: %s", error)
            self._tell("untested", trial=number, reason=str(error))
            self._door.give_up_testing(number)
        claimed.hand_back()
