"""One run: a plan and a seed in, epoch records and three values out, resumable."""

from __future__ import annotations

import time
from bisect import bisect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from fastrcaps_search.capsnet.network import build_network, learned_parameters
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    CheckpointError,
    DiskError,
    DivergedError,
    InterruptedRunError,
    SuspendedError,
)
from fastrcaps_search.metrics import EpochMetrics, RunResult
from fastrcaps_search.seeds import derive_seed
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.checkpoint_parts import Checkpoint, Progress, require_fit
from fastrcaps_search.training.device import Clock, run_setting, survive_forks
from fastrcaps_search.training.kernels import Trainer, make_trainer
from fastrcaps_search.training.policy import TrainingPlan, training_plan
from fastrcaps_search.training.splits import Split, Splits, hits

PROGRESS_SECONDS = 0.5
SAVE_SECONDS = 300.0
"""Of an epoch between two checkpoints within it, the most that a killed process loses. Writing the
full CapsNet (99 MB) takes half a second of a core, and as long as the disk does."""
WORTH_SECONDS = 60.0
"""Of an epoch that are saved when the run is to stop; fewer are sooner trained again than missed,
and most studies have shorter epochs."""


def _ignore(*_: object) -> None:
    """Take no notice."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a run tells while it goes on.

    Attributes:
        on_epoch: Called with the figures of each new epoch, after its checkpoint.
        on_progress: Called now and then with epoch, images done in it, and images per second.
        should_stop: Whether to stop; asked after every step, on a card after every few, and
            before every batch of an evaluation.
        was_suspended: Whether the process was suspended since this was asked last; asked before
            and after every epoch, and before it is saved in its middle.
        on_unsaved: Called with an epoch whose checkpoint cannot be written, or at the end with
            the best epoch whose weights cannot be, and the reason; the run goes on without them.
        sharing: How many workers share the device in the epoch in progress.
    """

    on_epoch: Callable[[EpochMetrics], None] = _ignore
    on_progress: Callable[[int, int, float], None] = _ignore
    should_stop: Callable[[], bool] = lambda: False
    was_suspended: Callable[[], bool] = lambda: False
    on_unsaved: Callable[[int, DiskError], None] = _ignore
    sharing: Callable[[], int] = lambda: 1


def first_network(plan: TrainingPlan, *, seed: int) -> TrainableNetwork:
    """The network that a run of this seed begins with, on the CPU."""
    # The global generator of the CPU is used for the initial weights alone, and given back as it
    # was; torch.manual_seed would also seed those of the cards.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, 0))
        return build_network(
            plan.network,
            decoder=plan.decoder,
            weight_sharing=plan.weight_sharing,
            routing_gradient=plan.routing_gradient,
            reconstruction_weight=plan.reconstruction_weight,
        )


def trained_network(
    definition: StudyDefinition, parameters: TrialParameters, weights: Mapping[str, Tensor]
) -> TrainableNetwork:
    """The network of a trial with these weights, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: The weights are those of another network.
        ValueError: The study has no such network.
    """
    survive_forks()
    network = first_network(training_plan(definition, parameters), seed=0)
    require_fit(weights, network.state_dict())
    network.load_state_dict(weights)
    return network.eval()


def new_trainer(plan: TrainingPlan, split: Split, *, seed: int, kernel: str) -> Trainer:
    """What trains :func:`first_network` on a training split, where that is."""
    network = first_network(plan, seed=seed).to(split.labels.device).train()
    return make_trainer(network, split, seed=seed, shifts=plan.shifts, kernel=kernel)


class Run:
    """One training of one network with one seed.

    Args:
        plan: What to train.
        seed: Seed of the initial weights, the order and the shifts.
        splits: Images on the device.
        kernel: Name of the kernels.
        folder: Where to keep checkpoints; ``None`` for none.
        hooks: What to tell.

    Attributes:
        epochs: Figures so far; after construction those of the checkpoint, if there was one.
        samples: Images of the epoch in progress that are trained; after construction those of the
            checkpoint in its middle, if there was one.
        sharing: Workers that shared the device while these were trained.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        *,
        seed: int,
        splits: Splits,
        kernel: str,
        folder: CheckpointFolder | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._plan = plan
        self._splits = splits
        self._folder = folder
        self._hooks = hooks or Hooks()
        device = splits.training.labels.device
        self._clock = Clock(device)
        self._setting = run_setting(
            device,
            precision=str(plan.precision),
            threads=torch.get_num_threads(),
            kernel=kernel,
        )
        self.epochs: list[EpochMetrics] = []
        self.samples, self.sharing = 0, 1
        # Of training these, and when they were saved last.
        self._seconds = 0.0
        self._saved_at = 0.0
        # Of the best epoch's weights, packed.
        self._hits = b""
        # Weights of the best epoch, by epoch, while the disk refuses them.
        self._owed: dict[int, dict[str, Tensor]] = {}
        self._trainer = new_trainer(plan, splits.training, seed=seed, kernel=kernel)
        self._trained = self._trainer.trained
        self.network = self._trained.network
        self._resume()

    def train(self) -> RunResult:
        """Train to the last epoch.

        Raises:
            DivergedError: A loss or accuracy is not finite.
            InterruptedRunError: Asked to stop; the last checkpoint stands, and one of the epoch
                in progress where it is worth it.
            SuspendedError: The epoch contains a suspension: a new ``Run`` goes on from the last
                checkpoint, which is from before it.
        """
        for epoch in range(len(self.epochs) + 1, self._plan.epochs + 1):
            self._train_and_keep(epoch)
        if self._folder is not None:
            self._save_owed(self._folder)
        return self.result()

    @property
    def is_kept(self) -> bool:
        """Whether the weights of the best epoch are on the disk, or no folder was given."""
        return not self._owed

    def result(self) -> RunResult:
        """Values so far."""
        parameters = learned_parameters(self.network)
        return RunResult.from_epochs(self.epochs, parameters=parameters, hits=self._hits)

    def _train_and_keep(self, epoch: int) -> None:
        self._hooks.was_suspended()
        metrics = self._epoch(epoch)
        self._require_unsuspended(epoch)
        if not metrics.is_finite or not self._weights_are_finite():
            raise DivergedError(epoch)
        self.epochs.append(metrics)
        self.samples, self._seconds = 0, 0.0
        if self._folder is not None:
            self._save(self._folder)
        self._hooks.on_epoch(metrics)

    def _save(self, folder: CheckpointFolder) -> None:
        """Write a checkpoint; where the disk refuses, go on and try again after the next epoch."""
        checkpoint = self._checkpoint()
        best, epoch = self.result().best_epoch, len(self.epochs)
        # Weights that are no longer the best ones need not be saved.
        self._owed = {e: network for e, network in self._owed.items() if e == best}
        try:
            folder.save(checkpoint, owed=self._owed)
        except DiskError as error:
            if best == epoch:
                # On a processor the checkpoint shares the memory of the parameters.
                self._owed = {epoch: {k: v.clone() for k, v in checkpoint.network.items()}}
            self._hooks.on_unsaved(epoch, error)
        else:
            self._owed = {}

    def _save_owed(self, folder: CheckpointFolder) -> None:
        """Write the best weights where no checkpoint has them: the last chance for the network."""
        for epoch, network in self._owed.items():
            try:
                folder.save_weights(epoch, network)
            except DiskError as error:
                self._hooks.on_unsaved(epoch, error)
            else:
                self._owed = {}

    def _weights_are_finite(self) -> bool:
        """The last step may spoil the weights after the last finite loss."""
        return all(bool(torch.isfinite(p).all()) for p in self.network.parameters())

    def _epoch(self, epoch: int) -> EpochMetrics:
        sizes = self._plan.epoch_batches(epoch)
        rates = self._plan.epoch_rates(epoch)
        # The largest first: the others then fit into its memory.
        self._trainer.warm_up(sorted(set(sizes), reverse=True))
        self._steps(epoch, sizes, rates)
        self._clock.start()
        found = hits(self._trained, self._splits.evaluation, look=self._stop_if_asked)
        right = found.cpu().numpy()
        evaluation_seconds = self._clock.stop()
        samples = sum(sizes)
        loss, classification, reconstruction, correct = (
            total / samples for total in self._trained.take_sums()
        )
        self._trained.copy_to_module()
        reached = int(right.sum()) / len(right)
        if all(reached > earlier.accuracy for earlier in self.epochs):
            self._hits = np.packbits(right).tobytes()
        return EpochMetrics(
            epoch=epoch,
            batch_size=self._plan.batch_sizes[epoch - 1],
            lr_start=rates[0],
            lr_end=rates[-1],
            loss=loss,
            classification_loss=classification,
            reconstruction_loss=reconstruction,
            training_accuracy=correct,
            accuracy=reached,
            training_seconds=self._seconds,
            evaluation_seconds=evaluation_seconds,
            steps=len(sizes),
            samples=samples,
        )

    def _steps(self, epoch: int, sizes: list[int], rates: list[float]) -> None:
        """Train what is left of an epoch."""
        before, told, begun = self.samples, time.monotonic(), time.monotonic()
        self._saved_at = begun
        first = bisect(list(accumulate(sizes)), before)
        self._clock.start()
        for images in self._trainer.epoch(epoch, sizes, rates, first=first):
            self.samples += images
            if self._hooks.should_stop():
                self._seconds += self._clock.stop()
                self._stop()
            now = time.monotonic()
            if now - self._saved_at >= SAVE_SECONDS:
                self._seconds += self._clock.stop()
                self._require_unsuspended(epoch)
                self._save_progress()
                self._clock.start()
            if now - told >= PROGRESS_SECONDS:
                per_second = (self.samples - before) / (now - begun)
                self._hooks.on_progress(epoch, self.samples, per_second)
                told = now
        self._seconds += self._clock.stop()

    def _require_unsuspended(self, epoch: int) -> None:
        if self._hooks.was_suspended():
            raise SuspendedError(f"suspended during epoch {epoch}")

    def _stop_if_asked(self) -> None:
        if self._hooks.should_stop():
            self._stop()

    def _stop(self) -> NoReturn:
        """End on request, with the epoch in progress saved where that is worth it."""
        unsaved = time.monotonic() - self._saved_at
        if unsaved >= WORTH_SECONDS and not self._hooks.was_suspended():
            self._save_progress()
        raise InterruptedRunError("stopped on request; the last checkpoint stands")

    def _save_progress(self) -> None:
        """Write how far the epoch in progress has come; where the disk refuses, go on without."""
        if self._folder is None:
            return
        self._trained.copy_to_module()
        progress = Progress(
            self._checkpoint(),
            sums=self._trained.sums(),
            samples=self.samples,
            seconds=self._seconds,
            sharing=self._hooks.sharing(),
            setting=self._setting,
        )
        try:
            self._folder.save_progress(progress)
        except DiskError as error:
            self._hooks.on_unsaved(len(self.epochs) + 1, error)
        self._saved_at = time.monotonic()

    def _checkpoint(self) -> Checkpoint:
        network = {
            name: tensor.detach().contiguous().cpu()
            for name, tensor in self.network.state_dict().items()
        }
        optimiser = self._trained.optimiser_state()
        return Checkpoint(network, optimiser, tuple(self.epochs), self._hits)

    def _resume(self) -> None:
        """Go on from the newest checkpoint, or from the one in the middle of the epoch after it.

        Raises:
            CheckpointError: The newest is another network's.
        """
        if self._folder is None:
            return
        newest = found = self._folder.newest()
        # Checked before it is loaded: an error of the device must not be taken for a misfit, for
        # which the checkpoints are given up.
        if newest is not None:
            self._require_fit(newest)
            self.epochs = list(newest.epochs)
            self._hits = newest.hits
        progress = self._folder.progress(newest, setting=self._setting)
        if progress is not None and self._is_of_this_epoch(progress):
            found = progress.state
            self._trained.load_sums(progress.sums)
            self.samples, self._seconds = progress.samples, progress.seconds
            self.sharing = progress.sharing
        if found is not None:
            self._trained.load(found.network, found.optimiser)

    def _require_fit(self, checkpoint: Checkpoint) -> None:
        own = self._checkpoint()
        require_fit(checkpoint.network, own.network)
        require_fit(checkpoint.optimiser, own.optimiser)

    def _is_of_this_epoch(self, progress: Progress) -> bool:
        """Whether the network fits and the epoch has a step that ends there."""
        if len(self.epochs) == self._plan.epochs:
            return False
        with suppress(CheckpointError):
            self._require_fit(progress.state)
            require_fit({"sums": progress.sums}, {"sums": self._trained.sums()})
            sizes = self._plan.epoch_batches(len(self.epochs) + 1)
            return progress.samples in accumulate(sizes)
        return False
