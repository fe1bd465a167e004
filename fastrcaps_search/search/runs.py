"""A claimed run: begun or continued, its epochs, and its result or its failure stored."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from fastrcaps_search.definition.objective import measured
from fastrcaps_search.errors import (
    CheckpointError,
    DeviceError,
    DiskError,
    DivergedError,
    FastrcapsError,
    InterruptedRunError,
    SuspendedError,
)
from fastrcaps_search.folders import is_url
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search import files
from fastrcaps_search.search.checkpoints import best_weights, run_checkpoints
from fastrcaps_search.search.events import Tell, WorkerEvent, named
from fastrcaps_search.search.files import LOG
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.records import DIVERGED, Failure, StudyRecord
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training import device as devices
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.kernels import choose_kernel, classifier_of
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.run import Hooks, Run, trained_network
from fastrcaps_search.training.splits import Splits, hits


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a worker brings to every trial.

    Attributes:
        study: The study.
        splits: Images on the worker's device.
        threads: Called with the threads that a run was begun with, ``None`` for a new one, before
            it is opened; gives how many it may have.
        tell: Called with an event and its facts.
        should_stop: Whether the worker was asked to stop.
        was_suspended: Whether the worker was suspended since this was asked last.
    """

    study: StudyRecord
    splits: Splits
    threads: Callable[[int | None], int]
    tell: Tell
    should_stop: Callable[[], bool]
    was_suspended: Callable[[], bool]


def must_stop(place: Workplace, lease: RunLease) -> bool:
    """Whether the worker was asked to stop.

    Raises:
        LeaseLostError: Another worker has taken the run over.
    """
    lease.require_held()
    return place.should_stop()


def train_run(place: Workplace, lease: RunLease) -> None:
    """Train a claimed run; store and tell its values, or the failure.

    Its trial fails with it where it is one of the planned runs, or diverged. After any other
    failure of a later run the trial keeps its values.

    Args:
        place: The worker's study, images and ways to tell.
        lease: The lease of the run.

    Raises:
        InterruptedRunError: Asked to stop; the run can be continued.
        DiskError: No room for the rows; the run can be continued.
        StoreError: The store or the lease is lost; the run can be continued.
        DeviceError: The device gave out; another process can continue the run.
    """
    try:
        with _device_faults():
            result = RunTraining(place, lease).train()
    except DivergedError as error:
        fail_run(place, lease, kind=DIVERGED, message=str(error))
    except FastrcapsError:
        raise
    except Exception as error:
        # Whatever else a training raises is data about its configuration.
        fail_run(place, lease, kind=type(error).__name__, message=_first_line(error))
    else:
        LOG.info(
            f"{lease.claim.key} complete: accuracy {result.accuracy:.4f}, "
            f"{result.training_seconds:.1f} s, {result.parameters} parameters"
        )
        place.tell(WorkerEvent.COMPLETE, **named(place.study, lease.claim.key))


def fail_run(place: Workplace, lease: RunLease, *, kind: str, message: str) -> None:
    """Store and tell that a run ended without values, by the error that is handled."""
    study, key = place.study, lease.claim.key
    log = files.run_log(lease.store.location, study, key)
    failure = Failure(kind, message, traceback.format_exc(), str(log))
    LOG.error(f"failed: {message}\n{failure.trace}")
    is_planned, diverged = key.run < study.definition.runs_per_trial, failure.is_divergence
    lease.fail(failure, ends_trial=is_planned or diverged)
    place.tell(WorkerEvent.FAILED, **named(study, key), reason=message, diverged=diverged)


@contextmanager
def _device_faults() -> Iterator[None]:
    """Raise :class:`DeviceError` where the device or its memory gives out."""
    try:
        yield
    except Exception as error:
        if not devices.is_device_fault(error):
            raise
        raise DeviceError(
            f"the device and its memory must last for the training, got: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def stored_trial(study: StudyRecord, lease: RunLease) -> TrialRecord:
    """The trial of a claimed run as it is stored now, with its epochs."""
    (found,) = lease.store.trials(study, epochs=True, number=lease.claim.key.number)
    return found


class RunTraining:
    """Trains a claimed run.

    Args:
        place: The worker's study, images and ways to tell.
        lease: The lease of the run.
    """

    def __init__(self, place: Workplace, lease: RunLease) -> None:
        self._place = place
        self._lease = lease
        self._record = stored_trial(place.study, lease)
        self._index = lease.claim.key.run
        self._plan = training_plan(place.study.definition, self._record.parameters)

    def train(self) -> RunResult:
        """The result as stored: trained from the last checkpoint or the first epoch."""
        setting, study = self._setting(), self._place.study
        location, claim = self._lease.store.location, self._lease.claim.token
        folder = run_checkpoints(
            location, study, self._record, self._index, claim=claim, setting=setting
        )
        result = None
        while result is None:
            try:
                run = self._open(setting, folder)
                result = run.train()
            except SuspendedError as error:
                LOG.warning(f"{error}: the epoch is trained again")
                self._record = stored_trial(study, self._lease)
        result = self._on_reference(result)
        # Before the rest is removed: whoever finds the run undone goes on from its checkpoint.
        self._lease.finish(result, kept=run.is_kept)
        folder.keep_only_weights(result.best_epoch)
        return result

    def _on_reference(self, result: RunResult) -> RunResult:
        """The result in seconds of the study's reference device, by its stored epochs."""
        study, best = self._place.study, result.best_epoch
        stored = stored_trial(study, self._lease).epochs
        epochs = [one for one in stored if one.run == self._index and one.metrics.epoch <= best]
        spent = [replace(one.metrics, training_seconds=one.seconds) for one in epochs]
        return replace(
            result,
            training_seconds=math.fsum(one.seconds for one in epochs),
            measured_seconds=result.training_seconds,
            computed_epochs=sum(one.computed_seconds is not None for one in epochs),
            others=measured(study.definition.objectives, spent, result.parameters),
        )

    def _setting(self) -> RunSetting:
        """Where the run trains; a continued one with the threads and kernels it was begun with."""
        device = self._place.splits.training.labels.device
        (before,) = (run.setting for run in self._record.runs if run.run == self._index)
        kernel = choose_kernel(
            device,
            network=self._plan.network,
            precision=self._plan.precision,
            stored=None if before is None else before.kernel,
        )
        threads = self._place.threads(None if before is None else before.threads)
        return devices.run_setting(
            device, precision=str(self._plan.precision), threads=threads, kernel=kernel
        )

    def _open(self, setting: RunSetting, folder: CheckpointFolder) -> Run:
        """The run at its last checkpoint; from the start where that does not fit."""
        try:
            run = Run(
                self._plan,
                seed=self._place.study.seed_of(self._index),
                splits=self._place.splits,
                kernel=setting.kernel,
                folder=folder,
                hooks=self._hooks(setting),
            )
        except CheckpointError as error:
            LOG.warning(f"starts again: {error}")
            folder.remove()
            return self._open(setting, folder)
        log = files.run_log(self._lease.store.location, self._place.study, self._lease.claim.key)
        self._lease.begin(setting, fresh=not run.epochs, log_path=str(log), sharing=run.sharing)
        self._agree(run, setting, folder)
        return run

    def _hooks(self, setting: RunSetting) -> Hooks:
        place, tell = self._place, self._place.tell

        def on_epoch(metrics: EpochMetrics) -> None:
            self._lease.store_epoch(metrics, setting=setting)
            LOG.info(
                f"run {self._index} epoch {metrics.epoch}/{self._plan.epochs}: batch "
                f"{metrics.batch_size}, accuracy {metrics.accuracy:.4f}, loss {metrics.loss:.5f}, "
                f"{metrics.training_seconds:.2f} s"
            )
            tell(
                WorkerEvent.EPOCH,
                epoch=metrics.epoch,
                accuracy=round(metrics.accuracy, 6),
                images_per_second=round(metrics.samples / metrics.training_seconds, 1),
            )

        def on_progress(epoch: int, images: int, per_second: float) -> None:
            tell(WorkerEvent.PROGRESS, epoch=epoch, images_per_second=round(per_second, 1))

        def should_stop() -> bool:
            return must_stop(place, self._lease)

        def on_unsaved(epoch: int, error: DiskError) -> None:
            LOG.warning(f"run {self._index} epoch {epoch}: {error}")
            tell(WorkerEvent.UNSAVED, epoch=epoch, reason=str(error))

        return Hooks(
            *(on_epoch, on_progress, should_stop, place.was_suspended, on_unsaved),
            sharing=lambda: self._lease.sharing,
        )

    def _agree(self, run: Run, setting: RunSetting, folder: CheckpointFolder) -> None:
        """Bring the stored epochs in line with the checkpoint, and say where the run goes on."""
        last = len(run.epochs)
        stored = {e.metrics.epoch for e in self._record.epochs if e.run == self._index}
        if max(stored, default=0) > last:
            if not last:
                reason = self._why_again()
                LOG.warning(f"run {self._index} begins again: {reason}")
                self._place.tell(WorkerEvent.RESTARTED, reason=reason)
            self._lease.forget_epochs_after(last)
        for metrics in run.epochs:
            if metrics.epoch not in stored:
                # Its row will say that this claim has stored it.
                folder.adopt(metrics.epoch)
                self._lease.store_epoch(metrics, setting=setting)
        if last or run.samples:
            where = f"at epoch {last + 1}"
            if run.samples:
                percent = 100 * run.samples // len(self._place.splits.training)
                where = f"in epoch {last + 1} at {percent} %"
            LOG.info(f"run {self._index} continues {where} from its checkpoint")
            self._place.tell(WorkerEvent.RESUMED, epoch=last + 1, where=where)

    def _why_again(self) -> str:
        """Why there is no checkpoint of a run of which epochs are stored."""
        (run,) = (run for run in self._record.runs if run.run == self._index)
        token = max(row.token for row in self._record.epochs if row.run == self._index)
        claims = self._lease.store.claims(self._place.study)
        holders = {one.token: one for one in claims if one.key == self._lease.claim.key}
        before, here = run.files or "", self._lease.store.location.place
        elsewhere = holders[token].host != holders[self._lease.claim.token].host
        if before == here and (is_url(here) or not elsewhere):
            return f"its checkpoints in {here} are gone or damaged"
        on = "" if is_url(before) else f" on {holders[token].host_name}"
        return (
            f"its checkpoints are in {before}{on}, not in {here} here; --files with a folder or "
            "URL that all workers reach keeps them"
        )


def read_test_set(place: Workplace, lease: RunLease) -> None:
    """Store what the best weights of a claimed run reach on the test set.

    Args:
        place: The worker's study and images.
        lease: The lease of the run.

    Raises:
        CheckpointError: The weights are missing or damaged.
        DeviceError: The device gave out.
        DiskError: Object storage does not give the weights.
        InterruptedRunError: Asked to stop.
        LeaseLostError: Another worker has taken the run over.
    """

    def stop_if_asked() -> None:
        if must_stop(place, lease):
            raise InterruptedRunError("stopped on request; the test set is read later")

    record = stored_trial(place.study, lease)
    (run,) = (one for one in record.runs if one.run == lease.claim.key.run)
    weights = best_weights(lease.store.location, place.study, record, run)
    definition, test = place.study.definition, place.splits.test
    assert run.setting is not None
    with _device_faults():
        network = trained_network(definition, record.parameters, weights)
        device, kernel = test.labels.device, run.setting.kernel
        classifier, _ = classifier_of(network, device, definition=definition, stored=kernel)
        reached = int(hits(classifier, test, look=stop_if_asked).sum()) / len(test)
    lease.store_test_accuracy(reached)
    LOG.info(f"{lease.claim.key}: test accuracy {reached:.4f}")
