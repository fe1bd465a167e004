"""An epoch that is left and gone on with in its middle: the same bits, its own seconds alone."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from fastrcaps_search.errors import DiskError, InterruptedRunError, SuspendedError
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.training import kernels as kernels_module
from fastrcaps_search.training import run as run_module
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.checkpoint_parts import Progress
from fastrcaps_search.training.policy import TrainingPlan
from fastrcaps_search.training.run import Hooks, Run
from fastrcaps_search.training.splits import Split, Splits
from tests.training.test_run import (
    ADABATCH,
    EVALUATION,
    FIXED,
    FULL,
    IMAGES,
    OWNER,
    REDUCED,
    STEP,
    Moved,
    MovedClock,
    MovedImages,
    MovedSplit,
    MovedStep,
    begin,
    plan,
    same,
    stored,
    timeless,
    weights,
)

pytestmark = pytest.mark.usefixtures("one_thread")

POLICIES: dict[str, dict[str, Any]] = {
    "constant": FIXED,
    "adabatch": {"lr_policy": "fixed", **ADABATCH},
    "warm_adabatch": {"lr_policy": "warm_adabatch", "adabatch_exponent": 1},
}
SAVE = 1e7


@pytest.fixture
def always_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch is saved whenever the run is to stop, however short it was."""
    monkeypatch.setattr(run_module, "WORTH_SECONDS", 0.0)


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch is saved after each of its steps."""
    monkeypatch.setattr(run_module, "SAVE_SECONDS", 0.0)


def folder_of(path: Path, *, claim: int = 1) -> CheckpointFolder:
    known = dict.fromkeys(range(1, 9), 1)
    return CheckpointFolder(path, owner=OWNER, claim=claim, known=known)


class Nth:
    """Asks to stop when it is asked for that time: after a step, or before an evaluation."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self) -> bool:
        self._left -= 1
        return self._left == 0


def left_after(
    steps: int, run_plan: TrainingPlan, splits: Splits, folder: CheckpointFolder
) -> Run:
    """A run that was stopped after so many steps of the epoch in which it began."""
    run = begin(
        run_plan, seed=3, splits=splits, folder=folder, hooks=Hooks(should_stop=Nth(steps))
    )
    with pytest.raises(InterruptedRunError):
        run.train()
    return run


def again(
    run_plan: TrainingPlan,
    splits: Splits,
    folder: CheckpointFolder,
    **hooks: Any,  # noqa: ANN401  # whatever Hooks has
) -> Run:
    """The run, opened where its checkpoints say."""
    return begin(run_plan, seed=3, splits=splits, folder=folder, hooks=Hooks(**hooks))


def progress_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if ".progress." in file.name)


def check_left_in_the_middle(run_plan: TrainingPlan, splits: Splits, path: Path) -> None:
    """Leave an epoch after an odd step and in its evaluation, two more within, and compare."""
    whole, parts = folder_of(path / "whole"), folder_of(path / "parts")
    uninterrupted = again(run_plan, splits, whole)
    expected = uninterrupted.train()
    sizes = {epoch: run_plan.epoch_batches(epoch) for epoch in (1, 2, 3)}
    of = {epoch: len(steps) for epoch, steps in sizes.items()}
    told: list[EpochMetrics] = []
    # How often it is asked before it stops, and the steps of which epoch are done then.
    for asked, epoch, steps in (
        (3, 1, 3),
        (of[1] - 3 + 1, 1, of[1]),
        (1 + 1, 2, 1),
        (of[2] - 1 + 1 + 1, 3, 1),
    ):
        run = again(run_plan, splits, parts, should_stop=Nth(asked), on_epoch=told.append)
        with pytest.raises(InterruptedRunError):
            run.train()
        opened = again(run_plan, splits, parts)
        for one in (run, opened):
            assert (len(one.epochs) + 1, one.samples) == (epoch, sum(sizes[epoch][:steps]))
    run = again(run_plan, splits, parts, on_epoch=told.append)
    result = run.train()
    assert timeless(run.epochs) == timeless(uninterrupted.epochs)
    assert timeless(told) == timeless(uninterrupted.epochs)
    assert same(weights(run), weights(uninterrupted))
    assert same(stored(parts).optimiser, stored(whole).optimiser)
    assert (result.best_epoch, result.hits) == (expected.best_epoch, expected.hits)
    assert same(parts.weights(result.best_epoch), whole.weights(result.best_epoch))
    assert progress_files(Path(str(parts.place))) == []


@pytest.mark.usefixtures("always_worth")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_that_is_left_in_the_middle_of_epochs_equals_an_uninterrupted_one(
    policy: str, mini_splits: Splits, tmp_path: Path
) -> None:
    check_left_in_the_middle(plan(POLICIES[policy]), mini_splits, tmp_path)


@pytest.mark.usefixtures("always_worth")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("network", [FULL, REDUCED], ids=["full", "reduced-shared"])
def test_a_capsule_network_that_is_left_in_the_middle_of_epochs_equals_an_uninterrupted_one(
    network: dict[str, Any], policy: str, mini_splits: Splits, tmp_path: Path
) -> None:
    # Three batches of 8 and a short one.
    few = Split(mini_splits.training.images[:27], mini_splits.training.labels[:27])
    parameters = {**POLICIES[policy], **network}
    narrow = plan(parameters, network="capsnet-narrow", train_images=27, batch_size=8)
    check_left_in_the_middle(narrow, replace(mini_splits, training=few), tmp_path)


def test_an_epoch_of_less_than_a_minute_is_not_saved(mini_splits: Splits, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run")
    left_after(3, plan(), mini_splits, folder)
    assert not Path(str(folder.place)).exists()
    assert again(plan(), mini_splits, folder).samples == 0


@pytest.mark.usefixtures("every_step")
def test_an_epoch_is_saved_every_few_minutes_and_one_file_is_kept(
    mini_splits: Splits, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "run")
    found: list[tuple[list[str], int]] = []

    def look() -> bool:
        if Path(str(folder.place)).exists():
            found.append(
                (
                    progress_files(Path(str(folder.place))),
                    again(plan(), mini_splits, folder).samples,
                )
            )
        return False

    again(plan(epochs=1), mini_splits, folder, should_stop=look).train()
    # Asked after each step, before it is saved, and in the evaluation.
    name = ["epoch-0001.claim-1.progress.safetensors"]
    assert found == [(name, samples) for samples in (16, 32, 48, 64)]
    assert progress_files(Path(str(folder.place))) == []


KILLED = """
import sys
from pathlib import Path
import torch
# Behind the package: as it is installed, that is what is tested.
sys.path.append(sys.argv[2])
from tests.training.conftest import mini_splits
from tests.training.test_progress import again, folder_of, plan, run_module
torch.set_num_threads(1)
run_module.SAVE_SECONDS = run_module.PROGRESS_SECONDS = 0.0
told = lambda epoch, images, per_second: print(epoch, images, flush=True)
folder = folder_of(Path(sys.argv[1]))
again(plan(batch_size=1), mini_splits.__wrapped__(), folder, on_progress=told).train()
"""


def test_a_killed_process_loses_what_it_trained_since_the_last_save(
    mini_splits: Splits, tmp_path: Path
) -> None:
    run_plan = plan(batch_size=1)
    home = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run"), home]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = itertools.takewhile(lambda line: line != "2 9\n", process.stdout)
        assert sum(1 for _ in lines) == 64 + 8
        process.kill()
    folder = folder_of(tmp_path / "run", claim=2)
    run = again(run_plan, mini_splits, folder)
    assert len(run.epochs) == 1
    # Each step was told after it had been saved; the process was ahead of its reader.
    assert 9 <= run.samples < 64
    whole = again(run_plan, mini_splits, folder_of(tmp_path / "whole"))
    whole.train()
    run.train()
    assert timeless(run.epochs) == timeless(whole.epochs)
    assert same(weights(run), weights(whole))


@pytest.fixture
def left(always_worth: None, mini_splits: Splits, tmp_path: Path) -> CheckpointFolder:
    """The checkpoints of a run that was left three steps into its second epoch."""
    folder = folder_of(tmp_path / "run")
    run = left_after(4 + 1 + 3, plan(), mini_splits, folder)
    assert (len(run.epochs), run.samples) == (1, 48)
    return folder


def progress_of(folder: CheckpointFolder, run: Run) -> Progress | None:
    return folder.progress(folder.newest(), setting=run._setting)


def test_an_epoch_that_was_begun_under_another_setting_begins_again(
    left: CheckpointFolder, mini_splits: Splits
) -> None:
    run = again(plan(), mini_splits, left)
    assert run.samples == 48
    torch.set_num_threads(2)
    other = again(plan(), mini_splits, left)
    torch.set_num_threads(1)
    assert (len(other.epochs), other.samples) == (1, 0)
    for change in (
        {"device": "cuda"},
        {"device_name": "CPU other"},
        {"torch_version": "2.6"},
        {"precision": "bf16"},
        {"threads": 2},
        {"kernel": "eager-1-mkl"},
    ):
        setting = replace(run._setting, **change)
        assert left.progress(left.newest(), setting=setting) is None
    assert progress_of(left, run) is not None


def test_workers_that_shared_the_device_before_count_with_the_epoch(
    always_worth: None, mini_splits: Splits, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "run")
    run = again(plan(), mini_splits, folder, should_stop=Nth(3), sharing=lambda: 2)
    with pytest.raises(InterruptedRunError):
        run.train()
    assert again(plan(), mini_splits, folder).sharing == 2


def test_a_damaged_file_means_that_the_epoch_begins_again(
    left: CheckpointFolder, mini_splits: Splits, tmp_path: Path
) -> None:
    (name,) = progress_files(Path(str(left.place)))
    file = Path(str(left.place)) / name
    content = file.read_bytes()
    for damaged in (b"", content[: len(content) // 2], content[:-1] + bytes([content[-1] ^ 1])):
        file.write_bytes(damaged)
        run = again(plan(), mini_splits, left)
        assert (len(run.epochs), run.samples) == (1, 0)
    run.train()
    whole = again(plan(), mini_splits, folder_of(tmp_path / "whole"))
    whole.train()
    assert timeless(run.epochs) == timeless(whole.epochs)
    assert same(weights(run), weights(whole))


def test_only_what_continues_the_very_same_epochs_is_read(
    left: CheckpointFolder, mini_splits: Splits, tmp_path: Path
) -> None:
    run = again(plan(), mini_splits, left)
    newest = stored(left)
    assert left.progress(newest, setting=run._setting) is not None
    (first,) = newest.epochs
    # The same epoch, trained another time.
    other = replace(newest, epochs=(replace(first, training_seconds=1.5),))
    assert left.progress(other, setting=run._setting) is None
    assert left.progress(None, setting=run._setting) is None
    # Another run's.
    stranger = CheckpointFolder(Path(str(left.place)), owner={**OWNER, "trial": "1"}, known={1: 1})
    assert stranger.progress(newest, setting=run._setting) is None


def test_steps_that_do_not_end_there_or_another_network_are_not_gone_on_with(
    left: CheckpointFolder, mini_splits: Splits
) -> None:
    run = again(plan(), mini_splits, left)
    found = progress_of(left, run)
    assert found is not None
    state = found.state
    for spoiled in (
        replace(found, samples=47),
        replace(found, samples=80),
        replace(found, sums=torch.zeros(3, dtype=torch.float64)),
        replace(found, state=replace(state, network={})),
        replace(found, state=replace(state, optimiser=dict(list(state.optimiser.items())[1:]))),
    ):
        left.save_progress(spoiled)
        assert again(plan(), mini_splits, left).samples == 0
    left.save_progress(found)
    assert again(plan(), mini_splits, left).samples == 48
    # The run may have been shorter all along.
    assert again(plan(epochs=1), mini_splits, left).samples == 0


def test_a_later_claim_goes_on_and_removes_what_it_has_replaced(
    left: CheckpointFolder, mini_splits: Splits
) -> None:
    second, third = (folder_of(Path(str(left.place)), claim=claim) for claim in (2, 3))
    half = Path(str(left.place)) / ".epoch-0002.claim-1.progress.safetensors.0123abcd.part"
    half.write_bytes(b"half")
    run = left_after(1, plan(), mini_splits, third)
    assert run.samples == 64
    assert progress_files(Path(str(left.place))) == ["epoch-0002.claim-3.progress.safetensors"]
    # What a later claim has written is not seen by those that have lost the run.
    assert again(plan(), mini_splits, second).samples == 0
    left_after(2, plan(), mini_splits, second)
    assert progress_files(Path(str(left.place))) == [
        "epoch-0002.claim-2.progress.safetensors",
        "epoch-0002.claim-3.progress.safetensors",
    ]
    again(plan(), mini_splits, third).train()
    assert progress_files(Path(str(left.place))) == []


def test_an_epoch_goes_on_from_before_its_suspension(
    every_step: None, mini_splits: Splits, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "run")
    asked = count(1)
    # Before the first epoch, before each save after its steps 1 to 3.
    run = again(plan(), mini_splits, folder, was_suspended=lambda: next(asked) == 4)
    with pytest.raises(SuspendedError, match="suspended during epoch 1"):
        run.train()
    resumed = again(plan(), mini_splits, folder)
    assert resumed.samples == 32
    resumed.train()
    whole = again(plan(), mini_splits, folder_of(tmp_path / "whole"))
    whole.train()
    assert timeless(resumed.epochs) == timeless(whole.epochs)


@pytest.mark.usefixtures("always_worth")
def test_what_contains_a_suspension_is_not_saved(mini_splits: Splits, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run")
    hooks = {"should_stop": Nth(3), "was_suspended": lambda: True}
    with pytest.raises(InterruptedRunError):
        again(plan(), mini_splits, folder, **hooks).train()
    assert not Path(str(folder.place)).exists()


@pytest.mark.usefixtures("every_step")
def test_a_disk_that_refuses_costs_no_trial(mini_splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file, not a folder")
    unsaved: list[tuple[int, str]] = []

    def note(epoch: int, error: DiskError) -> None:
        unsaved.append((epoch, str(error)))

    run = again(plan(epochs=1), mini_splits, folder_of(tmp_path / "run"), on_unsaved=note)
    run.train()
    reason = f"a checkpoint must be writable at {tmp_path / 'run'}, got: File exists; the trial "
    # Four steps and the epoch itself; then the weights of the best.
    assert unsaved[:5] == [(1, f"{reason}goes on without this checkpoint")] * 5
    assert len(unsaved) == 6


@pytest.mark.usefixtures("every_step")
def test_the_middle_of_an_epoch_gives_way_to_its_end(
    mini_splits: Splits, mount_disk: Callable[[int], Path]
) -> None:
    disk = mount_disk(8)
    folder = folder_of(disk / "run")
    unsaved: list[int] = []

    def fill() -> bool:
        # Once the last step is saved: the next to be written is the checkpoint of the epoch.
        if Path(str(folder.place)).exists() and again(plan(), mini_splits, folder).samples == 64:
            space = os.statvfs(disk)
            # LeNet's weights (247 kB) fit beside all that is there, its state (494 kB) does not.
            (disk / "filler").write_bytes(bytes(space.f_bavail * space.f_frsize - 400_000))
        return False

    run = again(
        plan(epochs=1),
        mini_splits,
        folder,
        should_stop=fill,
        on_unsaved=lambda epoch, error: unsaved.append(epoch),
    )
    run.train()
    assert (disk / "filler").exists()
    assert unsaved == []
    assert stored(folder).epochs == tuple(run.epochs)


class MovedFolder(CheckpointFolder):
    def save_progress(self, progress: Progress) -> None:
        Moved.now += SAVE
        super().save_progress(progress)


@pytest.mark.usefixtures("every_step")
def test_the_seconds_of_all_parts_count_and_those_of_saving_do_not(
    mini_splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Moved, "now", 0.0)
    monkeypatch.setattr(run_module, "Clock", MovedClock)
    monkeypatch.setattr(kernels_module, "EpochImages", MovedImages)
    monkeypatch.setattr(kernels_module, "make_step", lambda network, **_: MovedStep(network))
    slow = MovedSplit(mini_splits.evaluation.images, mini_splits.evaluation.labels)
    splits = replace(mini_splits, evaluation=slow)
    folder = MovedFolder(tmp_path, owner=OWNER)
    # The third step is not saved: the run hears of the stop before, and it is not worth it.
    left_after(3, plan(epochs=1), splits, folder)
    run = again(plan(epochs=1), splits, folder)
    assert run.samples == 32
    run.train()
    # Its images are drawn again.
    assert run.epochs[0].training_seconds == pytest.approx(4 * STEP + 2 * IMAGES)
    assert run.epochs[0].evaluation_seconds == EVALUATION
    assert Moved.now > 4 * SAVE
