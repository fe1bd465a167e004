"""One claimed trial: its runs, its records, its values or its failure."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from fastrcaps_search.errors import (
    CheckpointError,
    DeviceError,
    DiskError,
    DivergedError,
    InterruptedRunError,
    StoreError,
    SuspendedError,
    UsageError,
)
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search import files
from fastrcaps_search.store.lease import ClaimedTrial
from fastrcaps_search.store.records import Failure, RunRecord, StudyRecord, TrialRecord, Values
from fastrcaps_search.training import device as devices
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.resources import cores
from fastrcaps_search.training.run import Hooks, Run
from fastrcaps_search.training.splits import Splits

LOG = logging.getLogger("fastrcaps_search.trial")


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a worker brings to every trial.

    Attributes:
        study: The study.
        splits: Images on the worker's device.
        threads: Threads of torch for a new run.
        tell: Called with the name of an event and its facts.
        should_stop: Whether the worker was asked to stop.
        was_suspended: Whether the worker was suspended since this was asked last.
        use_threads: Called with the threads of a run before it is opened; gives how many it may
            have.
    """

    study: StudyRecord
    splits: Splits
    threads: int
    tell: Callable[..., None]
    should_stop: Callable[[], bool]
    was_suspended: Callable[[], bool]
    use_threads: Callable[[int], int] = lambda threads: threads


class TrialTraining:
    """Trains a claimed trial.

    Args:
        place: The worker's study, images and ways to tell.
        claimed: The claim.
        record: The trial as stored when it was claimed, with its epochs.
    """

    def __init__(self, place: Workplace, claimed: ClaimedTrial, record: TrialRecord) -> None:
        self._place = place
        self._claimed = claimed
        self._record = record
        self._plan = training_plan(place.study.definition, record.parameters)

    def train(self) -> Failure | None:
        """Train all runs and store the values, or the failure, which is returned.

        Raises:
            InterruptedRunError: Asked to stop; the trial can be continued.
            DiskError: No room, not even for the best weights; the trial can be continued.
            StoreError: The store or the lease is lost; the trial can be continued.
            DeviceError: The device gave out; another process can continue the trial.
        """
        try:
            results = [
                self._run(run) for run in range(self._place.study.definition.runs_per_trial)
            ]
        except (InterruptedRunError, DiskError, StoreError, UsageError):
            raise
        except Exception as error:
            if devices.is_device_fault(error):
                raise DeviceError(
                    "the device and its memory must last for the training, got: "
                    f"{_first_line(error)}"
                ) from error
            # Whatever else a training raises is data about its configuration.
            failure = self._failure(error)
            self._claimed.fail(failure)
            return failure
        values = Values(
            accuracy=fmean(result.accuracy for result in results),
            training_seconds=fmean(result.training_seconds for result in results),
            parameters=fmean(result.parameters for result in results),
        )
        self._claimed.complete(values)
        LOG.info(
            "complete: accuracy %.4f, %.1f s, %d parameters",
            values.accuracy,
            values.training_seconds,
            values.parameters,
        )
        return None

    def _failure(self, error: Exception) -> Failure:
        message = _first_line(error)
        trace = "".join(traceback.format_exception(error))
        LOG.error("failed: %s\n%s", message, trace)
        location = self._claimed.store.location
        path = files.trial_log(location, self._place.study, self._record.number)
        kind = "diverged" if isinstance(error, DivergedError) else type(error).__name__
        return Failure(kind, message, trace, str(path))

    def _run(self, index: int) -> RunResult:
        """One run: as stored, from its last checkpoint, or from its first epoch."""
        stored = {run.run: run for run in self._record.runs}.get(index)
        done = _done(stored)
        if done is not None:
            return done
        seed = self._place.study.seed + index
        setting = self._setting(stored)
        folder = checkpoint_folder(
            self._claimed,
            study=self._place.study,
            run=index,
            seed=seed,
            known=self._known(index),
        )
        result = None
        while result is None:
            try:
                result = self._open(index, seed, setting, folder).train()
            except SuspendedError as error:
                LOG.warning("%s: the epoch is trained again", error)
                self._refresh()
        self._claimed.finish_run(index, result)
        folder.keep_only_weights(result.best_epoch)
        return result

    def _known(self, index: int) -> dict[int, int]:
        """The claim whose checkpoint counts, by epoch."""
        known = claims(self._record, run=index)
        # The holder before this one may have died between a checkpoint and its row. It had
        # continued exactly the rows that are stored, and nobody has held the trial since. A
        # checkpoint without a row of a claim before that one may continue rows that are no more.
        known[max(known, default=0) + 1] = self._claimed.claim.token - 1
        return known

    def _refresh(self) -> None:
        """Read the trial again as it is stored."""
        store, study = self._claimed.store, self._place.study
        (self._record,) = store.trials(study, epochs=True, number=self._record.number)

    def _setting(self, stored: RunRecord | None) -> RunSetting:
        """Where the run trains; a continued one with the threads and kernels it was begun with.

        The threads are never more than there are cores for them.
        """
        device = self._place.splits.training.labels.device
        before = None if stored is None else stored.setting
        kernel = choose_kernel(
            device,
            capsules=self._plan.network.has_capsules,
            precision=self._plan.precision,
            stored=None if before is None else before.kernel,
        )
        threads = self._place.threads if before is None else min(before.threads, cores())
        threads = self._place.use_threads(threads)
        return devices.run_setting(
            device, precision=str(self._plan.precision), threads=threads, kernel=kernel
        )

    def _open(self, index: int, seed: int, setting: RunSetting, folder: CheckpointFolder) -> Run:
        run = self._build(seed, setting.kernel, folder, self._hooks(index, setting))
        self._claimed.begin_run(index, seed=seed, setting=setting, fresh=not run.epochs)
        self._agree(index, run, setting, folder)
        return run

    def _hooks(self, index: int, setting: RunSetting) -> Hooks:
        place = self._place

        def on_epoch(metrics: EpochMetrics) -> None:
            self._claimed.store_epoch(index, metrics, setting=setting)
            self._told(index, metrics)

        def on_progress(epoch: int, images: int, per_second: float) -> None:
            self._place.tell(
                "progress", epoch=epoch, images=images, images_per_second=round(per_second, 1)
            )

        def should_stop() -> bool:
            self._claimed.require_held()
            return place.should_stop()

        def on_unsaved(epoch: int, error: DiskError) -> None:
            LOG.warning("run %d epoch %d: %s", index, epoch, error)
            place.tell("unsaved", epoch=epoch, reason=str(error))

        return Hooks(on_epoch, on_progress, should_stop, place.was_suspended, on_unsaved)

    def _build(self, seed: int, kernel: str, folder: CheckpointFolder, hooks: Hooks) -> Run:
        """The run at its last checkpoint; from the start where that does not fit."""

        def build() -> Run:
            splits = self._place.splits
            return Run(
                self._plan, seed=seed, splits=splits, kernel=kernel, folder=folder, hooks=hooks
            )

        try:
            return build()
        except CheckpointError as error:
            LOG.warning("starts again: %s", error)
            folder.remove()
            return build()

    def _agree(self, index: int, run: Run, setting: RunSetting, folder: CheckpointFolder) -> None:
        """Bring the stored epochs in line with the checkpoint, and say where the run goes on."""
        last = len(run.epochs)
        stored = {e.metrics.epoch for e in self._record.epochs if e.run == index}
        if max(stored, default=0) > last:
            self._claimed.forget_epochs_after(index, last)
        for metrics in run.epochs:
            if metrics.epoch not in stored:
                # Its row will say that this claim has stored it.
                folder.adopt(metrics.epoch)
                self._claimed.store_epoch(index, metrics, setting=setting)
        if last:
            LOG.info("run %d continues at epoch %d from its checkpoint", index, last + 1)
            self._place.tell("resumed", run=index, epoch=last + 1)

    def _told(self, index: int, metrics: EpochMetrics) -> None:
        LOG.info(
            "run %d epoch %d/%d: batch %d, accuracy %.4f, loss %.5f, %.2f s",
            index,
            metrics.epoch,
            self._plan.epochs,
            metrics.batch_size,
            metrics.accuracy,
            metrics.loss,
            metrics.training_seconds,
        )
        self._place.tell(
            "epoch", run=index, epoch=metrics.epoch, accuracy=round(metrics.accuracy, 6)
        )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _done(stored: RunRecord | None) -> RunResult | None:
    """The result of a run that had ended before its trial was taken over."""
    if stored is None or stored.accuracy is None:
        return None
    return RunResult(
        accuracy=stored.accuracy,
        training_seconds=stored.training_seconds or 0.0,
        parameters=stored.parameters or 0,
        best_epoch=stored.best_epoch or 0,
    )


def claims(record: TrialRecord, *, run: int) -> dict[int, int]:
    """The claim that stored each epoch of a run."""
    return {row.metrics.epoch: row.token for row in record.epochs if row.run == run}


def checkpoint_folder(
    claimed: ClaimedTrial, *, study: StudyRecord, run: int, seed: int, known: Mapping[int, int]
) -> CheckpointFolder:
    """Checkpoints of one run, marked so that no other study's are ever read.

    Args:
        claimed: The claim, under which checkpoints are written.
        study: The study.
        run: Index of the run.
        seed: Its seed.
        known: The claim whose checkpoint counts, by epoch.
    """
    claim = claimed.claim
    return CheckpointFolder(
        files.run_folder(claimed.store.location, study, claim.number, run),
        owner={
            "study": study.uid,
            "trial": str(claim.number),
            "run": str(run),
            "seed": str(seed),
            "configuration": claim.configuration_key,
        },
        claim=claim.token,
        known=known,
    )
