"""Checkpoints: complete or absent, only one's own, never executed, no more than needed."""

from __future__ import annotations

import io
import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from fastrcaps_search.errors import CheckpointError, DiskError
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.training.checkpoint import (
    Checkpoint,
    CheckpointFolder,
)

OWNER = {"study": "a1b2", "trial": "3", "run": "0", "seed": "7", "configuration": "abc"}


def metrics(epoch: int, accuracy: float) -> EpochMetrics:
    return EpochMetrics(
        epoch=epoch,
        batch_size=2**epoch,
        lr_start=1e-3,
        lr_end=1e-4 / 3,
        loss=0.1 + 0.2,
        classification_loss=0.1,
        reconstruction_loss=0.2,
        training_accuracy=0.5,
        accuracy=accuracy,
        training_seconds=1 / epoch,
        evaluation_seconds=0.25,
        steps=10 * epoch,
        samples=100,
    )


def checkpoint(*accuracies: float, size: int = 8) -> Checkpoint:
    """A checkpoint after as many epochs as accuracies, all its numbers equal to their number."""
    epoch = len(accuracies)
    filled = torch.full((size,), float(epoch))
    return Checkpoint(
        network={"weight": filled, "bias": torch.tensor([epoch / 3], dtype=torch.float32)},
        optimiser={"exp_avg.weight": filled * 2, "step.weight": torch.tensor(float(epoch))},
        epochs=tuple(metrics(e, a) for e, a in enumerate(accuracies, start=1)),
    )


def folder(path: Path, **changed: str) -> CheckpointFolder:
    return CheckpointFolder(path / "run-0", owner={**OWNER, **changed})


def names(path: Path) -> list[str]:
    return sorted(file.name.replace(".safetensors", "") for file in (path / "run-0").iterdir())


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[key], right[key]) and left[key].dtype == right[key].dtype for key in left
    )


def assert_same(found: Checkpoint | None, expected: Checkpoint) -> None:
    assert found is not None
    assert found.epochs == expected.epochs
    assert equal(found.network, expected.network)
    assert equal(found.optimiser, expected.optimiser)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond ``size`` bytes, as on a disk that is nearly full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    saved = checkpoint(0.5, 0.6)
    folder(tmp_path).save(saved)
    assert_same(folder(tmp_path).newest(), saved)
    assert equal(folder(tmp_path).weights(2), saved.network)
    assert names(tmp_path) == ["epoch-0002.state", "epoch-0002.weights"]


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert folder(tmp_path).newest() is None
    (tmp_path / "run-0").mkdir()
    assert folder(tmp_path).newest() is None
    with pytest.raises(CheckpointError):
        folder(tmp_path).weights(1)
    folder(tmp_path).keep_only_weights(1)
    folder(tmp_path).remove()


def test_what_is_read_does_not_change_with_its_file(tmp_path: Path) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    found = folder(tmp_path).newest()
    for file in (tmp_path / "run-0").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    assert_same(found, checkpoint(0.5))


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    kept = folder(tmp_path)
    kept.save(checkpoint(0.5, size=10_000))
    before = names(tmp_path)
    # 30 kB hold neither the weights (40 kB) nor the state.
    with largest_file(30_000), pytest.raises(DiskError) as caught:
        kept.save(checkpoint(0.5, 0.6, size=10_000))
    assert str(caught.value) == (
        f"{kept.path}: a checkpoint must be written, got: File too large; free some space or "
        "mend the folder and run the same line again, the trial goes on"
    )
    assert names(tmp_path) == before
    assert_same(folder(tmp_path).newest(), checkpoint(0.5, size=10_000))
    kept.save(checkpoint(0.5, 0.6, size=10_000))
    assert_same(folder(tmp_path).newest(), checkpoint(0.5, 0.6, size=10_000))


def test_a_disk_that_is_full_after_the_weights_leaves_the_last_good_checkpoint(
    tmp_path: Path,
) -> None:
    kept = folder(tmp_path)
    kept.save(checkpoint(0.5))
    second = checkpoint(0.5, 0.6)
    second.optimiser["exp_avg.weight"] = torch.zeros(10_000)
    with largest_file(30_000), pytest.raises(DiskError):
        kept.save(second)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


def test_a_folder_that_cannot_be_made_is_a_space_error(tmp_path: Path) -> None:
    (tmp_path / "run-0").write_text("a file, not a folder")
    with pytest.raises(DiskError, match="a checkpoint must be written, got: File exists; free"):
        folder(tmp_path).save(checkpoint(0.5))


@pytest.mark.parametrize("part", ["weights", "state"])
@pytest.mark.parametrize("kept_share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_newest_falls_back_to_the_one_before(
    tmp_path: Path, part: str, kept_share: float
) -> None:
    for accuracies in ([0.5], [0.5, 0.6], [0.5, 0.6, 0.7]):
        folder(tmp_path).save(checkpoint(*accuracies))
    file = tmp_path / "run-0" / f"epoch-0003.{part}.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept_share)])
    assert_same(folder(tmp_path).newest(), checkpoint(0.5, 0.6))


@pytest.mark.parametrize("part", ["weights", "state"])
def test_a_missing_half_falls_back_to_the_one_before(tmp_path: Path, part: str) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    folder(tmp_path).save(checkpoint(0.5, 0.6))
    (tmp_path / "run-0" / f"epoch-0002.{part}.safetensors").unlink()
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


@pytest.mark.parametrize("key", list(OWNER))
def test_checkpoints_of_another_owner_are_not_read(tmp_path: Path, key: str) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    other = folder(tmp_path, **{key: "other"})
    assert other.newest() is None
    with pytest.raises(CheckpointError, match=r"must belong to this run, got one of another$"):
        other.weights(1)
    # Saving over them makes them one's own.
    other.save(checkpoint(0.9))
    assert_same(other.newest(), checkpoint(0.9))
    assert folder(tmp_path).newest() is None


def test_a_tensor_file_without_a_mark_is_not_read(tmp_path: Path) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    save_file({"weight": torch.zeros(3)}, tmp_path / "run-0" / "epoch-0001.weights.safetensors")
    assert folder(tmp_path).newest() is None


class Hostile:
    """Creates a file when unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self._marker,))


def zipped(hostile: Hostile) -> bytes:
    """The same in the zip file that torch.save writes."""
    content = io.BytesIO()
    torch.save({"weight": hostile}, content)
    return content.getvalue()


@pytest.mark.parametrize("as_zip", [False, True])
def test_a_pickle_in_the_place_of_a_checkpoint_is_refused_unopened(
    tmp_path: Path, as_zip: bool
) -> None:
    marker = tmp_path / "executed"
    hostile = Hostile(marker)
    content = zipped(hostile) if as_zip else pickle.dumps(hostile)
    folder(tmp_path).save(checkpoint(0.5))
    for part in ("weights", "state"):
        (tmp_path / "run-0" / f"epoch-0002.{part}.safetensors").write_bytes(content)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))
    with pytest.raises(CheckpointError, match=r"epoch-0002\.weights\.safetensors must be a che"):
        folder(tmp_path).weights(2)
    assert not marker.exists()
    # Proof that the file is what it seems.
    pickle.loads(pickle.dumps(hostile))
    assert marker.exists()


@pytest.mark.parametrize("figures", ["", "[", "3", '["a"]', '[{"epoch": 1}]', '{"a": 1}'])
def test_damaged_figures_are_no_checkpoint(tmp_path: Path, figures: str) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    save_file(
        checkpoint(0.5, 0.6).optimiser,
        tmp_path / "run-0" / "epoch-0002.state.safetensors",
        {"format": "fastrcaps-checkpoint-1", **OWNER, "epochs": figures},
    )
    weights = (tmp_path / "run-0" / "epoch-0001.weights.safetensors").read_bytes()
    (tmp_path / "run-0" / "epoch-0002.weights.safetensors").write_bytes(weights)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


# Accuracies of the epochs, then the epochs whose weights stay: the last two, the best, and the
# best as of the epoch before, to which a damaged newest checkpoint falls back.
KEPT = [
    ([0.5], [1]),
    ([0.5, 0.6], [1, 2]),
    ([0.9, 0.6, 0.7], [1, 2, 3]),
    ([0.5, 0.6, 0.7], [2, 3]),
    ([0.9, 0.6, 0.7, 0.8], [1, 3, 4]),
    ([0.9, 0.6, 0.7, 0.8, 0.95], [1, 4, 5]),
    ([0.9, 0.6, 0.7, 0.8, 0.95, 0.5], [5, 6]),
    ([0.5, 0.9, 0.6, 0.9, 0.7, 0.6], [2, 5, 6]),  # the earliest on ties
]


@pytest.mark.parametrize(("accuracies", "weights"), KEPT)
def test_no_more_is_kept_than_needed(
    tmp_path: Path, accuracies: list[float], weights: list[int]
) -> None:
    for count in range(1, len(accuracies) + 1):
        folder(tmp_path).save(checkpoint(*accuracies[:count]))
    last = len(accuracies)
    states = [epoch for epoch in (last - 1, last) if epoch]
    expected = [f"epoch-{epoch:04d}.state" for epoch in states]
    expected += [f"epoch-{epoch:04d}.weights" for epoch in weights]
    assert names(tmp_path) == sorted(expected)
    for epoch in weights:
        kept = folder(tmp_path).weights(epoch)
        assert kept["weight"].tolist() == [float(epoch)] * 8


def test_epochs_beyond_9999(tmp_path: Path) -> None:
    for epoch in (9_999, 10_000):
        plain = checkpoint(0.5)
        saved = Checkpoint(plain.network, plain.optimiser, (metrics(epoch, 0.5),))
        folder(tmp_path).save(saved)
    found = folder(tmp_path).newest()
    assert found is not None
    assert found.epochs[-1].epoch == 10_000


def test_when_a_run_has_ended_its_best_weights_stay_alone(tmp_path: Path) -> None:
    for accuracies in ([0.5], [0.5, 0.9], [0.5, 0.9, 0.6]):
        folder(tmp_path).save(checkpoint(*accuracies))
    (tmp_path / "run-0" / "epoch-0003.state.safetensors.part").write_bytes(b"half")
    (tmp_path / "run-0" / "notes.txt").write_text("not ours")
    folder(tmp_path).keep_only_weights(2)
    assert names(tmp_path) == ["epoch-0002.weights", "notes.txt"]
    assert folder(tmp_path).weights(2)["weight"].tolist() == [2.0] * 8
    folder(tmp_path).remove()
    assert names(tmp_path) == ["notes.txt"]


def test_what_a_killed_process_left_half_written_is_not_read(tmp_path: Path) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    content = (tmp_path / "run-0" / "epoch-0001.state.safetensors").read_bytes()
    (tmp_path / "run-0" / "epoch-0002.state.safetensors.part").write_bytes(content[:50])
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))
    folder(tmp_path).save(checkpoint(0.5, 0.6))
    assert not any(name.endswith(".part") for name in names(tmp_path))
