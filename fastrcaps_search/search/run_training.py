"""The training of a claimed run: begun or continued, its epochs stored, to its result."""

from __future__ import annotations

import math
from dataclasses import replace

from fastrcaps_search.definition.objective import measured
from fastrcaps_search.errors import CheckpointError, DiskError, SuspendedError
from fastrcaps_search.folders import is_url
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search import files
from fastrcaps_search.search.checkpoints import run_checkpoints
from fastrcaps_search.search.events import WorkerEvent
from fastrcaps_search.search.files import LOG
from fastrcaps_search.search.workplace import Workplace, must_stop, stored_trial
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.schema import storable
from fastrcaps_search.training import device as devices
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.policy import training_plan
from fastrcaps_search.training.run import Hooks, Run


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
        (run,) = (run for run in self._record.runs if run.run == self._index)
        # Where another place had its checkpoints, and whether there were any to go on from.
        here = storable(lease.store.location.place)
        self._elsewhere = run.files if run.files != here else None
        self._fetched = False

    def train(self) -> RunResult:
        """The result as stored: trained from the last checkpoint or the first epoch."""
        setting, study = self._setting(), self._place.study
        location, claim = self._lease.store.location, self._lease.claim.token
        folder = run_checkpoints(
            location, study, self._record, self._index, claim=claim, setting=setting
        )
        self._fetch(folder)
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

    def _fetch(self, folder: CheckpointFolder) -> None:
        """Get the checkpoints from where the run was trained before, if that can be read here."""
        if self._elsewhere is not None:
            location, key = self._lease.store.location, self._lease.claim.key
            own = files.run_folder(location, self._place.study, key.number, key.run)
            self._fetched = folder.fetch(files.kept(location, own, self._elsewhere))

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
        if not last and (stored or (self._elsewhere and not run.samples)):
            reason = self._why_again()
            LOG.warning(f"run {self._index} begins again: {reason}")
            self._place.tell(WorkerEvent.RESTARTED, reason=reason)
        if max(stored, default=0) > last:
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
            where += f", from {self._elsewhere}" if self._fetched else ""
            LOG.info(f"run {self._index} continues {where} from its checkpoint")
            self._place.tell(WorkerEvent.RESUMED, epoch=last + 1, where=where)
        # After a suspension it goes on from its checkpoints here.
        self._elsewhere, self._fetched = None, False

    def _why_again(self) -> str:
        """Why there is no checkpoint of a run that was begun before."""
        claim = self._lease.claim
        tokens = [row.token for row in self._record.epochs if row.run == self._index]
        token = max(tokens, default=claim.token - 1)
        claims = self._lease.store.claims(self._place.study)
        holders = {one.token: one for one in claims if one.key == claim.key}
        here = self._lease.store.location.place
        before, holder = self._elsewhere or here, holders[token]
        if not self._elsewhere and (is_url(here) or holder.host == holders[claim.token].host):
            return f"its checkpoints in {here} are gone or damaged"
        what = "its checkpoints are" if tokens else "what was saved of it is"
        on = "" if is_url(before) else f" on {holder.host_name}"
        return (
            f"{what} in {before}{on}, not in {here} here; workers with those --files "
            "remove them once it has ended, --files with a folder or URL that all workers reach "
            "keeps them"
        )
