"""Runs on real digits: the same bits again, interrupted or not; honest seconds; divergence."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import (
    CheckpointError,
    DiskError,
    DivergedError,
    InterruptedRunError,
)
from fastrcaps_search.metrics import EpochMetrics, RunResult
from fastrcaps_search.training import kernels as kernels_module
from fastrcaps_search.training import run as run_module
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.checkpoint_parts import Checkpoint
from fastrcaps_search.training.device import Clock
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.policy import TrainingPlan, training_plan
from fastrcaps_search.training.run import Hooks, Run
from fastrcaps_search.training.splits import EpochImages, Split, Splits, classes
from fastrcaps_search.training.step import EagerStep

pytestmark = pytest.mark.usefixtures("one_thread")

OWNER = {"study": "s", "trial": "0"}
CONSTANT = {"batch_policy": "constant"}
ADABATCH = {"batch_policy": "adabatch", "adabatch_exponent": 1}
FULL = {"decoder": "full", "weight_sharing": False}
REDUCED = {"decoder": "reduced", "weight_sharing": True}
LR_POLICIES = [
    "fixed",
    "exponential_decay",
    "one_cycle",
    "warm_restarts",
    "polynomial_restarts",
]
POLICIES: list[dict[str, Any]] = [
    *({"lr_policy": policy, **batch} for policy in LR_POLICIES for batch in (CONSTANT, ADABATCH)),
    {"lr_policy": "warm_adabatch", "adabatch_exponent": 1},
]
FIXED: dict[str, Any] = {"lr_policy": "fixed", **CONSTANT}


def begin(run_plan: TrainingPlan, *, splits: Splits, **others: object) -> Run:
    """A run with the fastest kernels of the device."""
    return Run(run_plan, splits=splits, kernel=kernel_of(run_plan, splits), **others)  # type: ignore[arg-type]


def kernel_of(run_plan: TrainingPlan, splits: Splits) -> str:
    device = splits.training.labels.device
    return choose_kernel(device, network=run_plan.network, precision=run_plan.precision)


def plan(parameters: dict[str, Any] = FIXED, **study: object) -> TrainingPlan:
    """Three epochs of 64 images in batches of 16, boundaries 1 and 2, LeNet5."""
    values = {
        "name": "s",
        "network": "lenet5",
        "data_set": "mnist-mini",
        "train_images": 64,
        "epochs": 3,
        "boundaries": [1, 2],
    }
    definition = StudyDefinition.from_dict({**values, **study})
    return training_plan(definition, TrialParameters.from_dict(parameters))


def timeless(epochs: Sequence[EpochMetrics]) -> list[EpochMetrics]:
    """Figures without seconds, which differ from one run to the next."""
    return [replace(e, training_seconds=0.0, evaluation_seconds=0.0) for e in epochs]


def weights(run: Run) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in run.network.state_dict().items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Whether two states are equal bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def stored(folder: CheckpointFolder) -> Checkpoint:
    found = folder.newest()
    assert found is not None
    return found


class StopsIn:
    """Asks to stop before the step of that number (from 1) of an epoch.

    It is asked after each step, and before the one batch of each evaluation.
    """

    def __init__(self, run_plan: TrainingPlan, *, first_epoch: int, epoch: int, step: int) -> None:
        whole = (len(run_plan.epoch_batches(e)) + 1 for e in range(first_epoch, epoch))
        self._left = sum(whole) + step

    def __call__(self) -> bool:
        self._left -= 1
        return self._left == 0


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(mini_splits: Splits) -> None:
    runs = [begin(plan(), seed=seed, splits=mini_splits) for seed in (3, 3, 4)]
    starts = [weights(run) for run in runs]
    results = [run.train() for run in runs]
    first, again, other = runs
    assert same(starts[0], starts[1])
    assert same(weights(first), weights(again))
    assert timeless(first.epochs) == timeless(again.epochs)
    assert results[0].accuracy == results[1].accuracy
    assert results[0].best_epoch == results[1].best_epoch
    assert not same(starts[0], starts[2])
    assert not same(weights(first), weights(other))
    assert [e.loss for e in first.epochs] != [e.loss for e in other.epochs]
    assert not same(starts[0], weights(first))


def test_trials_of_equal_seeds_start_from_the_same_weights(mini_splits: Splits) -> None:
    one_cycle = {"lr_policy": "one_cycle", **ADABATCH}
    runs = [
        begin(plan(parameters), seed=3, splits=mini_splits) for parameters in (FIXED, one_cycle)
    ]
    assert same(weights(runs[0]), weights(runs[1]))


def check_interruptions(run_plan: TrainingPlan, splits: Splits, folder: Path) -> None:
    """Stop in the middle of epochs 1, 2 and 3, go on each time in a new run, and compare."""
    whole = CheckpointFolder(folder / "whole", owner=OWNER)
    uninterrupted = begin(run_plan, seed=3, splits=splits, folder=whole)
    expected = uninterrupted.train()
    parts = CheckpointFolder(folder / "parts", owner=OWNER)
    told: list[EpochMetrics] = []
    for epoch in (1, 2, 3):
        half = max(len(run_plan.epoch_batches(epoch)) // 2, 2)
        stop = StopsIn(run_plan, first_epoch=max(epoch - 1, 1), epoch=epoch, step=half)
        hooks = Hooks(on_epoch=told.append, should_stop=stop)
        interrupted = begin(run_plan, seed=3, splits=splits, folder=parts, hooks=hooks)
        assert len(interrupted.epochs) == max(epoch - 2, 0)
        with pytest.raises(InterruptedRunError) as caught:
            interrupted.train()
        assert caught.value.exit_code == 130
        assert len(interrupted.epochs) == epoch - 1
    hooks = Hooks(on_epoch=told.append)
    resumed = begin(run_plan, seed=3, splits=splits, folder=parts, hooks=hooks)
    result = resumed.train()
    assert timeless(resumed.epochs) == timeless(uninterrupted.epochs)
    assert same(weights(resumed), weights(uninterrupted))
    assert same(stored(parts).network, stored(whole).network)
    assert same(stored(parts).optimiser, stored(whole).optimiser)
    assert (result.accuracy, result.best_epoch) == (expected.accuracy, expected.best_epoch)
    assert result.hits == expected.hits == hits_of(resumed, parts, result, splits)
    assert same(parts.weights(result.best_epoch), whole.weights(result.best_epoch))
    # Every epoch is told once, by the run that trained it to its end.
    assert [metrics.epoch for metrics in told] == [1, 2, 3]
    assert tuple(told) == stored(parts).epochs


def hits_of(run: Run, folder: CheckpointFolder, result: RunResult, splits: Splits) -> bytes:
    """Which images the stored weights have right, measured again; as many as the accuracy says."""
    run._trained.load(folder.weights(result.best_epoch), run._trained.optimiser_state())
    evaluation = splits.evaluation
    right = classes(run._trained, evaluation) == evaluation.labels
    assert result.hits is not None
    bits = np.unpackbits(np.frombuffer(result.hits, np.uint8))
    assert int(bits.sum()) / len(evaluation) == result.accuracy
    assert bits[: len(evaluation)].tolist() == right.int().tolist()
    assert not bits[len(evaluation) :].any()
    return result.hits


def test_hits_are_those_of_a_best_epoch_before_the_stop(
    undisturbed: Undisturbed, mini_splits: Splits, tmp_path: Path
) -> None:
    best, folder = undisturbed.best, CheckpointFolder(tmp_path / "run", owner=OWNER)

    def opened(hooks: Hooks) -> Run:
        return undisturbed.again(mini_splits, folder=folder, hooks=hooks)

    stop = StopsIn(undisturbed.plan, first_epoch=1, epoch=best + 2, step=2)
    with pytest.raises(InterruptedRunError):
        opened(Hooks(should_stop=stop)).train()
    resumed = opened(Hooks())
    assert len(resumed.epochs) == best + 1
    result = resumed.train()
    assert result.best_epoch == best
    expected = undisturbed.run.result().hits
    assert result.hits == expected == hits_of(resumed, folder, result, mini_splits)


@pytest.mark.parametrize(
    "parameters", POLICIES, ids=lambda values: "-".join(str(value) for value in values.values())
)
def test_an_interrupted_run_equals_an_uninterrupted_one(
    parameters: dict[str, Any], mini_splits: Splits, tmp_path: Path
) -> None:
    check_interruptions(plan(parameters), mini_splits, tmp_path)


@pytest.mark.parametrize(
    "parameters",
    [
        {**FIXED, **FULL},
        {"lr_policy": "warm_adabatch", "adabatch_exponent": 3, **REDUCED},
        {**FIXED, **FULL, "decoder": "none"},
        {**FIXED, **FULL, "reconstruction_weight": 0.0},
    ],
    ids=["fixed-full", "warm_adabatch-reduced-shared", "fixed-none", "fixed-full-0"],
)
def test_an_interrupted_capsule_network_equals_an_uninterrupted_one(
    parameters: dict[str, Any], mini_splits: Splits, tmp_path: Path
) -> None:
    few = Split(mini_splits.training.images[:24], mini_splits.training.labels[:24])
    splits = replace(mini_splits, training=few)
    narrow = plan(parameters, network="capsnet-narrow", train_images=24)
    check_interruptions(narrow, splits, tmp_path)


def test_the_figures_of_a_run_without_a_decoder(mini_splits: Splits) -> None:
    few = Split(mini_splits.training.images[:24], mini_splits.training.labels[:24])
    bare = {**FIXED, **FULL, "decoder": "none"}
    narrow = plan(bare, network="capsnet-narrow", train_images=24, epochs=1)
    run = begin(narrow, seed=3, splits=replace(mini_splits, training=few))
    # Counted by hand in tests/capsnet/test_network.py.
    assert run.train().parameters == 705_888
    assert run.epochs[0].reconstruction_loss == 0.0
    assert run.epochs[0].loss == run.epochs[0].classification_loss > 0


def test_a_run_takes_its_reconstruction_weight_from_the_plan(mini_splits: Splits) -> None:
    few = Split(mini_splits.training.images[:24], mini_splits.training.labels[:24])
    losses = []
    for weight in (0.0005, 0.005):
        # One step, so that both see the same weights.
        narrow = plan(
            {**FIXED, **FULL},
            network="capsnet-narrow",
            train_images=24,
            batch_size=24,
            epochs=1,
            reconstruction_weight=weight,
        )
        run = begin(narrow, seed=3, splits=replace(mini_splits, training=few))
        run.train()
        losses.append(run.epochs[0])
    assert losses[1].reconstruction_loss == pytest.approx(10 * losses[0].reconstruction_loss)
    assert losses[1].classification_loss == losses[0].classification_loss


def test_a_finished_run_is_not_trained_again(mini_splits: Splits, tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "run", owner=OWNER)
    result = begin(plan(), seed=3, splits=mini_splits, folder=folder).train()
    told: list[EpochMetrics] = []
    again = begin(
        plan(), seed=3, splits=mini_splits, folder=folder, hooks=Hooks(on_epoch=told.append)
    )
    assert again.train() == result
    assert told == []


def test_a_checkpoint_is_complete_before_the_epoch_is_told(
    mini_splits: Splits, tmp_path: Path
) -> None:
    folder = CheckpointFolder(tmp_path / "run", owner=OWNER)
    found = []

    def look(metrics: EpochMetrics) -> None:
        found.append(stored(folder).epochs[-1] == metrics)

    begin(plan(), seed=3, splits=mini_splits, folder=folder, hooks=Hooks(on_epoch=look)).train()
    assert found == [True, True, True]


def test_a_checkpoint_of_another_network_is_refused_in_one_line(
    mini_splits: Splits, tmp_path: Path
) -> None:
    folder = CheckpointFolder(tmp_path / "run", owner=OWNER)
    begin(plan(epochs=1), seed=3, splits=mini_splits, folder=folder).train()
    other = plan({**FIXED, **FULL}, network="capsnet-narrow")
    with pytest.raises(CheckpointError) as caught:
        begin(other, seed=3, splits=mini_splits, folder=folder)
    assert str(caught.value) == (
        "the checkpoint must fit the network: class_capsules.bias must be "
        "torch.float32 [10, 16], got none"
    )


def without(tensors: dict[str, Tensor], name: str) -> None:
    del tensors[name]


def doubled(tensors: dict[str, Tensor], name: str) -> None:
    tensors[name] = tensors[name].double()


def flattened(tensors: dict[str, Tensor], name: str) -> None:
    tensors[name] = tensors[name].reshape(-1)


@pytest.mark.parametrize("spoil", [without, doubled, flattened])
@pytest.mark.parametrize(
    ("network", "parameters", "name"),
    [
        ("lenet5", FIXED, "linear3.weight"),
        ("capsnet-narrow", {**FIXED, **FULL}, "class_capsules.weight"),
    ],
    ids=["lenet5", "capsnet-narrow"],
)
@pytest.mark.parametrize("part", ["network", "optimiser"])
def test_a_checkpoint_that_does_not_fit_is_refused(
    part: str,
    network: str,
    parameters: dict[str, Any],
    name: str,
    spoil: Callable[[dict[str, Tensor], str], None],
    mini_splits: Splits,
    tmp_path: Path,
) -> None:
    folder = CheckpointFolder(tmp_path / "run", owner=OWNER)
    run_plan = plan(parameters, network=network)
    run = begin(run_plan, seed=3, splits=mini_splits)
    state = {name: tensor.contiguous() for name, tensor in weights(run).items()}
    saved = Checkpoint(state, run._trained.optimiser_state(), (epoch_of(1, 0.5, 1.0),))
    folder.save(saved)
    assert len(begin(run_plan, seed=3, splits=mini_splits, folder=folder).epochs) == 1
    if part == "network":
        spoil(saved.network, name)
    else:
        spoil(saved.optimiser, f"exp_avg.{name}")
    folder.save(saved)
    with pytest.raises(CheckpointError, match=rf"^the checkpoint must fit the network: .*{name}"):
        begin(run_plan, seed=3, splits=mini_splits, folder=folder)


@pytest.fixture
def small_disk(mount_disk: Callable[[int], Path]) -> Path:
    """A file system of 8 MiB; three checkpoints of LeNet5 with their averages have 2.2 MB."""
    return mount_disk(8)


class FullDisk:
    """Fills a disk after one epoch and frees it after another, as hooks of a run.

    Attributes:
        unsaved: Epochs whose checkpoint could not be written.
        reasons: What was said of each.
    """

    def __init__(self, disk: Path, *, after: int, until: int | None, leave_bytes: int = 0) -> None:
        self._filler = disk / "filler"
        self._after, self._until = after, until
        self._leave_bytes = leave_bytes
        self.unsaved: list[int] = []
        self.reasons: list[str] = []
        self.hooks = Hooks(on_epoch=self._on_epoch, on_unsaved=self._on_unsaved)

    def _on_epoch(self, metrics: EpochMetrics) -> None:
        if metrics.epoch == self._after:
            space = os.statvfs(self._filler.parent)
            free = space.f_bavail * space.f_frsize
            self._filler.write_bytes(bytes(free - self._leave_bytes))
        if metrics.epoch == self._until:
            self.free()

    def _on_unsaved(self, epoch: int, error: DiskError) -> None:
        self.unsaved.append(epoch)
        self.reasons.append(str(error))

    def free(self) -> None:
        self._filler.unlink()


class Undisturbed(NamedTuple):
    """A plan, and what a run of it gives without a disturbance.

    Attributes:
        best: Its best epoch, neither the first nor one of the last two.
    """

    plan: TrainingPlan
    seed: int
    run: Run
    best: int
    weights: dict[str, Tensor]

    def again(self, splits: Splits, **others: object) -> Run:
        """Another run of the plan, with the same seed."""
        return begin(self.plan, seed=self.seed, splits=splits, **others)


@pytest.fixture
def undisturbed(one_thread: None, mini_splits: Splits, tmp_path: Path) -> Undisturbed:
    run_plan = plan(epochs=6, lr_max=5e-3)
    for seed in range(20):
        folder = CheckpointFolder(tmp_path / f"whole-{seed}", owner=OWNER)
        run = begin(run_plan, seed=seed, splits=mini_splits, folder=folder)
        best = run.train().best_epoch
        if 2 <= best <= 4:
            return Undisturbed(run_plan, seed, run, best, folder.weights(best))
    raise AssertionError("no seed has its best epoch in the middle")


@pytest.mark.parametrize(
    ("epochs_long", "leave_bytes"),
    [
        (1, 0),
        (2, 0),
        # The weights (247 kB) fit, the state (494 kB) does not.
        (2, 400_000),
    ],
)
def test_a_disk_that_is_full_for_a_while_costs_nothing(
    epochs_long: int,
    leave_bytes: int,
    undisturbed: Undisturbed,
    mini_splits: Splits,
    small_disk: Path,
) -> None:
    best = undisturbed.best
    disk = FullDisk(
        small_disk, after=best - 1, until=best - 1 + epochs_long, leave_bytes=leave_bytes
    )
    folder = CheckpointFolder(small_disk / "run", owner=OWNER)
    run = undisturbed.again(mini_splits, folder=folder, hooks=disk.hooks)
    result = run.train()

    assert disk.unsaved == list(range(best, best + epochs_long))
    assert timeless(run.epochs) == timeless(undisturbed.run.epochs)
    assert result.best_epoch == best
    assert same(folder.weights(best), undisturbed.weights)
    assert same(weights(run), weights(undisturbed.run))
    assert timeless(stored(folder).epochs) == timeless(run.epochs)
    assert not list(Path(str(folder.place)).glob("*.part"))


def test_on_a_disk_that_is_full_to_the_end_earlier_checkpoints_give_way_to_the_network(
    undisturbed: Undisturbed, mini_splits: Splits, small_disk: Path
) -> None:
    best = undisturbed.best
    disk = FullDisk(small_disk, after=best - 1, until=None)
    folder = CheckpointFolder(small_disk / "run", owner=OWNER)
    run = undisturbed.again(mini_splits, folder=folder, hooks=disk.hooks)
    result = run.train()
    # It trained to its end, telling every epoch.
    assert (result.best_epoch, run.is_kept) == (best, True)
    assert disk.unsaved == list(range(best, 7))
    assert timeless(run.epochs) == timeless(undisturbed.run.epochs)
    assert same(folder.weights(best), undisturbed.weights)
    (only,) = Path(str(folder.place)).iterdir()
    assert only.name == f"epoch-{best:04d}.claim-1.weights.safetensors"


def test_a_disk_without_room_for_the_network_costs_no_result(
    undisturbed: Undisturbed, mini_splits: Splits, small_disk: Path
) -> None:
    disk = FullDisk(small_disk, after=0, until=None)
    space = os.statvfs(small_disk)
    (small_disk / "full").write_bytes(bytes(space.f_bavail * space.f_frsize - 200_000))
    folder = CheckpointFolder(small_disk / "run", owner=OWNER)
    run = undisturbed.again(mini_splits, folder=folder, hooks=disk.hooks)
    result = run.train()
    assert (result.best_epoch, run.is_kept) == (undisturbed.best, False)
    assert timeless(run.epochs) == timeless(undisturbed.run.epochs)
    assert disk.unsaved == [*range(1, 7), undisturbed.best]
    got = f"must be writable at {folder.place}, got: No space left on device; the trial"
    assert set(disk.reasons[:-1]) == {f"a checkpoint {got} goes on without this checkpoint"}
    assert disk.reasons[-1] == (
        f"the weights of the best epoch {got} ends with its values, but without this network"
    )
    assert list(Path(str(folder.place)).iterdir()) == []


@pytest.mark.parametrize("leave_bytes", [0, 400_000])
def test_the_best_weights_are_written_at_the_end_at_the_latest(
    leave_bytes: int, undisturbed: Undisturbed, mini_splits: Splits, small_disk: Path
) -> None:
    """With no room, freed after the last epoch; and with room for the weights alone."""
    best = undisturbed.best
    until = 6 if leave_bytes == 0 else None
    disk = FullDisk(small_disk, after=best - 1, until=until, leave_bytes=leave_bytes)
    folder = CheckpointFolder(small_disk / "run", owner=OWNER)
    run = undisturbed.again(mini_splits, folder=folder, hooks=disk.hooks)
    assert run.train().best_epoch == best
    assert run.is_kept
    assert disk.unsaved == list(range(best, 7))
    assert same(folder.weights(best), undisturbed.weights)
    folder.keep_only_weights(best)
    (only,) = Path(str(folder.place)).iterdir()
    assert only.name == f"epoch-{best:04d}.claim-1.weights.safetensors"


class NotedFolder(CheckpointFolder):
    """Notes which epochs' weights are owed with each checkpoint."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, owner=OWNER)
        self.owed: list[list[int]] = []

    def save(
        self, checkpoint: Checkpoint, *, owed: Mapping[int, Mapping[str, Tensor]] | None = None
    ) -> None:
        self.owed.append(list(owed or {}))
        super().save(checkpoint, owed=owed)


def test_only_the_best_weights_are_owed(mini_splits: Splits, small_disk: Path) -> None:
    """One network at most is kept in memory, and none that a better one has replaced."""
    space = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(space.f_bavail * space.f_frsize))
    folder = NotedFolder(small_disk / "run")
    run = begin(plan(epochs=6, lr_max=2e-3), seed=3, splits=mini_splits, folder=folder)
    run.train()
    assert not run.is_kept
    best = [
        RunResult.from_epochs(run.epochs[:end], parameters=0).best_epoch for end in range(1, 7)
    ]
    assert len(set(best)) > 1
    before = [None, *best[:-1]]
    # What became the best with this very checkpoint is in it.
    assert folder.owed == [
        [now] if now == earlier else [] for now, earlier in zip(best, before, strict=True)
    ]


def plain_training(
    network: torch.nn.Module, split: Split, rates: Sequence[float]
) -> list[tuple[float, float]]:
    """Adam over the whole split at once, written out: loss and accuracy before each step."""
    first = [torch.zeros_like(p) for p in network.parameters()]
    second = [torch.zeros_like(p) for p in network.parameters()]
    images, labels = split.images[:, None] / 255, split.labels
    seen = []
    for step, rate in enumerate(rates, start=1):
        logits = network(images)
        loss = F.cross_entropy(logits, labels)
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        right = (logits.argmax(1) == labels).float().mean()
        seen.append((loss.item(), right.item()))
        for p, g, m, v in zip(network.parameters(), gradients, first, second, strict=True):
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            hat = (v / (1 - 0.999**step)).sqrt() + 1e-8
            p.data -= rate * (m / (1 - 0.9**step)) / hat
    return seen


def test_training_is_adam_at_the_rates_of_the_schedule(mini_splits: Splits) -> None:
    one_cycle = plan(
        {"lr_policy": "one_cycle", **CONSTANT}, batch_size=64, shifts=False, lr_max=1e-2
    )
    run = begin(one_cycle, seed=3, splits=mini_splits)
    twin = LeNet5()
    twin.load_state_dict(run.network.state_dict())
    run.train()
    # Steps at 0, 64 and 128 of 192 samples; the peak is at 86.4.
    rates = [1e-4, 1e-4 + 9.9e-3 * 64 / 86.4, 1e-2 - 9.9e-3 * 41.6 / 86.4]
    seen = plain_training(twin, mini_splits.training, rates)
    for epoch, rate, (loss, right) in zip(run.epochs, rates, seen, strict=True):
        assert epoch.lr_start == epoch.lr_end == pytest.approx(rate)
        assert epoch.loss == pytest.approx(loss, rel=1e-5)
        assert epoch.classification_loss == epoch.loss
        assert epoch.reconstruction_loss == 0.0
        assert epoch.training_accuracy == pytest.approx(right)
    for ours, theirs in zip(run.network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_figures_of_an_epoch(mini_splits: Splits) -> None:
    parameters = {"lr_policy": "polynomial_restarts", "batch_policy": "adabatch"}
    run = begin(
        plan({**parameters, "adabatch_exponent": 3}, train_images=60),
        seed=3,
        splits=replace(
            mini_splits,
            training=Split(mini_splits.training.images[:60], mini_splits.training.labels[:60]),
        ),
    )
    run.train()
    assert [e.epoch for e in run.epochs] == [1, 2, 3]
    assert [e.batch_size for e in run.epochs] == [1, 8, 16]
    assert [e.steps for e in run.epochs] == [60, 8, 4]
    assert [e.samples for e in run.epochs] == [60, 60, 60]
    assert [e.lr_start for e in run.epochs] == [1e-3, 1e-3, 1e-3]
    # The last steps begin at 59, 56 and 48 of 60 samples: 1e-4 + 9e-4 * (1, 4, 12 of 60)^2.
    assert [e.lr_end for e in run.epochs] == pytest.approx([1.0025e-4, 1.04e-4, 1.36e-4])
    for epoch in run.epochs:
        right = epoch.accuracy * 40
        assert right == pytest.approx(round(right))
        assert epoch.training_seconds > 0.0
        assert epoch.evaluation_seconds > 0.0


def test_learning_takes_place(mini_splits: Splits) -> None:
    run = begin(plan(epochs=20, lr_max=2e-3), seed=3, splits=mini_splits)
    result = run.train()
    assert run.epochs[-1].loss < run.epochs[0].loss / 2
    assert result.accuracy > 0.4  # of ten classes, from 64 images
    assert result.parameters == 61_706


def epoch_of(number: int, accuracy: float, seconds: float) -> EpochMetrics:
    return EpochMetrics(
        number, 16, 1e-3, 1e-3, 1.0, 1.0, 0.0, 0.5, accuracy, seconds, 100.0, 4, 64
    )


@pytest.mark.parametrize(
    ("accuracies", "best", "seconds"),
    [
        ([0.5, 0.9, 0.9, 0.7], 2, 3.0),
        ([0.9, 0.9], 1, 1.0),
        ([0.1, 0.2, 0.3, 0.4], 4, 15.0),
        ([0.0, 0.0], 1, 1.0),
        ([0.7], 1, 1.0),
    ],
)
def test_the_best_epoch_is_the_earliest_and_seconds_count_up_to_it(
    accuracies: list[float], best: int, seconds: float
) -> None:
    # Epochs of 1, 2, 4 and 8 seconds.
    epochs = [epoch_of(e, a, 2.0 ** (e - 1)) for e, a in enumerate(accuracies, start=1)]
    assert RunResult.from_epochs(epochs, parameters=7) == RunResult(
        accuracy=max(accuracies), training_seconds=seconds, parameters=7, best_epoch=best
    )


def test_no_epochs_have_no_values() -> None:
    with pytest.raises(ValueError, match="empty"):
        RunResult.from_epochs([], parameters=7)


# A clock that only moves when something is done, each thing by an amount of its own.
IMAGES, STEP, WARM_UP, EVALUATION, SAVE, HOOK = 1e-3, 1.0, 1e3, 1e5, 1e7, 1e9


class Moved:
    """The time, in seconds."""

    now = 0.0


class MovedClock(Clock):
    def _now(self) -> float:
        return Moved.now


class MovedImages(EpochImages):
    def epoch(
        self, epoch: int, sizes: Sequence[int], *, first: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        Moved.now += IMAGES
        yield from super().epoch(epoch, sizes, first=first)


class MovedStep(EagerStep):
    def warm_up(self, size: int) -> None:
        Moved.now += WARM_UP

    def __call__(self, images: Tensor, labels: Tensor, *, rate: float) -> None:
        Moved.now += STEP


class MovedSplit(Split):
    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        Moved.now += EVALUATION
        yield from super().batches(size)


class MovedFolder(CheckpointFolder):
    def save(
        self, checkpoint: Checkpoint, *, owed: Mapping[int, Mapping[str, Tensor]] | None = None
    ) -> None:
        Moved.now += SAVE


def move(_: object) -> None:
    Moved.now += HOOK


def test_training_seconds_are_those_of_drawing_and_stepping_alone(
    mini_splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Moved, "now", 0.0)
    monkeypatch.setattr(run_module, "Clock", MovedClock)
    monkeypatch.setattr(kernels_module, "EpochImages", MovedImages)
    monkeypatch.setattr(kernels_module, "make_step", lambda network, **_: MovedStep(network))
    slow = MovedSplit(mini_splits.evaluation.images, mini_splits.evaluation.labels)
    run = begin(
        plan({"lr_policy": "fixed", **ADABATCH}),
        seed=3,
        splits=replace(mini_splits, evaluation=slow),
        folder=MovedFolder(tmp_path, owner=OWNER),
        hooks=Hooks(on_epoch=move),
    )
    result = run.train()
    # 64 images in batches of 1, 2 and 4.
    expected = [64 * STEP + IMAGES, 32 * STEP + IMAGES, 16 * STEP + IMAGES]
    assert [e.training_seconds for e in run.epochs] == pytest.approx(expected)
    assert [e.evaluation_seconds for e in run.epochs] == [EVALUATION] * 3
    # Nothing was learned, so the first epoch is the best one.
    assert result.best_epoch == 1
    assert result.training_seconds == pytest.approx(expected[0])
    # All those things took place.
    assert Moved.now > 3 * (WARM_UP + EVALUATION + SAVE + HOOK)


def test_a_warm_up_changes_nothing(mini_splits: Splits) -> None:
    run = begin(plan(), seed=3, splits=mini_splits)
    step = EagerStep(run.network)
    before = weights(run)
    step.warm_up(16)
    assert same(weights(run), before)
    assert all(not tensor.any() for tensor in step.optimiser_state().values())
    assert step.take_sums() == [0.0] * 4
    assert all(parameter.grad is None for parameter in run.network.parameters())


def spoil_lenet(network: TrainableNetwork, value: float) -> None:
    assert isinstance(network, LeNet5)
    network.linear3.bias.data[0] = value


def spoil_capsules(network: TrainableNetwork, value: float) -> None:
    assert isinstance(network, CapsNet)
    next(network.class_capsules.parameters()).data.view(-1)[0] = value


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("network", "parameters", "spoil"),
    [("lenet5", FIXED, spoil_lenet), ("capsnet-narrow", {**FIXED, **FULL}, spoil_capsules)],
    ids=["lenet5", "capsnet-narrow"],
)
def test_a_diverged_run_says_when_and_stores_nothing_of_that_epoch(
    network: str,
    parameters: dict[str, Any],
    spoil: Callable[[TrainableNetwork, float], None],
    value: float,
    mini_splits: Splits,
    tmp_path: Path,
) -> None:
    folder = CheckpointFolder(tmp_path / "run", owner=OWNER)
    told: list[int] = []

    def on_epoch(metrics: EpochMetrics) -> None:
        told.append(metrics.epoch)
        spoil(run.network, value)
        # The step may hold weights of its own.
        trained = run._trained
        trained.load(dict(run.network.state_dict()), trained.optimiser_state())

    few = Split(mini_splits.training.images[:16], mini_splits.training.labels[:16])
    run = begin(
        plan(parameters, network=network, train_images=16),
        seed=3,
        splits=replace(mini_splits, training=few),
        folder=folder,
        hooks=Hooks(on_epoch=on_epoch),
    )
    with pytest.raises(DivergedError, match=r"^diverged at epoch 2$") as caught:
        run.train()
    assert caught.value.epoch == 2
    assert told == [1]
    assert [e.epoch for e in run.epochs] == [1]
    assert [e.epoch for e in stored(folder).epochs] == [1]


def test_a_run_that_diverges_at_once_stores_nothing(mini_splits: Splits, tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "run", owner=OWNER)
    run = begin(plan(), seed=3, splits=mini_splits, folder=folder)
    spoil_lenet(run.network, float("nan"))
    with pytest.raises(DivergedError, match=r"^diverged at epoch 1$"):
        run.train()
    assert run.epochs == []
    assert not Path(str(folder.place)).exists()


def test_a_run_leaves_every_global_generator_as_it_was(mini_splits: Splits) -> None:
    numpy_state, python_state = str(np.random.get_state(legacy=False)), random.getstate()
    with torch.random.fork_rng(devices=[]):
        # A state of its own: that of a run with this seed is where an earlier test would leave it.
        torch.default_generator.manual_seed(12_345)
        torch_state = torch.get_rng_state()
        begin(plan(epochs=1), seed=3, splits=mini_splits).train()
        assert torch.equal(torch.get_rng_state(), torch_state)
    assert str(np.random.get_state(legacy=False)) == numpy_state
    assert random.getstate() == python_state


def test_a_run_does_not_depend_on_the_global_generator(mini_splits: Splits) -> None:
    first = begin(plan(epochs=1), seed=3, splits=mini_splits)
    first.train()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(99)
        other = begin(plan(epochs=1), seed=3, splits=mini_splits)
        torch.rand(7)
        other.train()
    assert same(weights(first), weights(other))


def test_progress_is_told_now_and_then(
    mini_splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "PROGRESS_SECONDS", 0.0)
    told: list[tuple[int, int, float]] = []
    hooks = Hooks(on_progress=lambda *facts: told.append(facts))
    begin(plan(epochs=2), seed=3, splits=mini_splits, hooks=hooks).train()
    done = [(epoch, images) for epoch, images, _ in told]
    assert done == [(epoch, images) for epoch in (1, 2) for images in (16, 32, 48, 64)]
    assert all(per_second > 0 for *_, per_second in told)


@pytest.mark.gpu
def test_a_run_on_a_card_leaves_its_generator_as_it_was(mini_splits: Splits) -> None:
    device = torch.device("cuda")

    def moved(split: Split) -> Split:
        return Split(split.images.to(device), split.labels.to(device))

    splits = Splits(
        moved(mini_splits.training), moved(mini_splits.evaluation), moved(mini_splits.test)
    )
    before = torch.cuda.get_rng_state()
    run = begin(plan(epochs=2), seed=3, splits=splits)
    on_cpu = begin(plan(epochs=2), seed=3, splits=mini_splits)
    assert same({k: v.cpu() for k, v in weights(run).items()}, weights(on_cpu))
    run.train()
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert all(epoch.is_finite for epoch in run.epochs)
