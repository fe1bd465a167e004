"""Checkpoints: complete or absent, only one's own, never executed, no more than needed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import resource
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from fastrcaps_search.errors import CheckpointError, DiskError
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.checkpoint_parts import Checkpoint, require_fit

OWNER = {"study": "a1b2", "trial": "3", "run": "0", "seed": "7", "configuration": "abc"}
FIRST_CLAIM = dict.fromkeys(range(1, 11), 1)
"""Every epoch's checkpoint is the first claim's."""


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
        hits=bytes([0, epoch, 255]),
    )


def folder(
    path: Path,
    *,
    claim: int = 1,
    known: Mapping[int, int] = FIRST_CLAIM,
    owner: Mapping[str, str] = OWNER,
) -> CheckpointFolder:
    return CheckpointFolder(path / "run-0", owner=owner, claim=claim, known=known)


def file_of(path: Path, epoch: int, part: str, *, claim: int = 1) -> Path:
    return path / "run-0" / f"epoch-{epoch:04d}.claim-{claim}.{part}.safetensors"


def part_of(file: Path) -> Path:
    """The name under which a file is written before it is complete."""
    return file.with_name(f".{file.name}.0123abcd.part")


def names(path: Path) -> list[str]:
    """Names of the files, as ``3.weights.1``: epoch, part, claim."""
    found = []
    for file in (path / "run-0").iterdir():
        pieces = file.name.removeprefix("epoch-").removesuffix(".safetensors").split(".")
        if len(pieces) == 3:
            epoch, claim, part = pieces
            found.append(f"{int(epoch)}.{part}.{claim.removeprefix('claim-')}")
        else:
            found.append(file.name)
    return sorted(found)


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (path / "run-0").iterdir()}


def save_until(kept: CheckpointFolder, *accuracies: float, first: int = 1) -> None:
    """Save the checkpoints of successive epochs from ``first`` on."""
    for count in range(first, len(accuracies) + 1):
        kept.save(checkpoint(*accuracies[:count]))


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[key], right[key]) and left[key].dtype == right[key].dtype for key in left
    )


def assert_same(found: Checkpoint | None, expected: Checkpoint) -> None:
    assert found is not None
    assert (found.epochs, found.hits) == (expected.epochs, expected.hits)
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
    assert sorted(file.name for file in (tmp_path / "run-0").iterdir()) == [
        "epoch-0002.claim-1.state.safetensors",
        "epoch-0002.claim-1.weights.safetensors",
    ]


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
    before = contents(tmp_path)
    # 30 kB hold neither the weights (40 kB) nor the state.
    with largest_file(30_000), pytest.raises(DiskError) as caught:
        kept.save(checkpoint(0.5, 0.6, size=10_000))
    assert str(caught.value) == (
        f"a checkpoint must be writable at {kept.place}, got: File too large; the trial goes on "
        "without this checkpoint"
    )
    assert contents(tmp_path) == before
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
    before = contents(tmp_path)
    with largest_file(30_000), pytest.raises(DiskError):
        kept.save(second)
    # Not even the weights, which did fit, stay and take room.
    assert contents(tmp_path) == before
    assert_same(kept.newest(), checkpoint(0.5))
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


def test_after_a_checkpoint_that_was_not_saved_the_one_before_it_is_kept(tmp_path: Path) -> None:
    kept = folder(tmp_path, known={})
    save_until(kept, 0.9, 0.5)
    third = checkpoint(0.9, 0.5, 0.6, size=10_000)
    with largest_file(30_000), pytest.raises(DiskError):
        kept.save(third)
    kept.save(checkpoint(0.9, 0.5, 0.6, 0.95))
    assert names(tmp_path) == [
        "1.weights.1",
        "2.state.1",
        "2.weights.1",
        "4.state.1",
        "4.weights.1",
    ]
    file_of(tmp_path, 4, "state").write_bytes(b"")
    assert_same(folder(tmp_path).newest(), checkpoint(0.9, 0.5))


def test_owed_weights_are_written_with_the_next_checkpoint_or_neither(tmp_path: Path) -> None:
    kept = folder(tmp_path, known={})
    kept.save(checkpoint(0.5))
    before = contents(tmp_path)
    best = checkpoint(0.5, 0.9).network
    large = checkpoint(0.5, 0.9, 0.6, size=10_000)
    with largest_file(30_000), pytest.raises(DiskError):
        kept.save(large, owed={2: best})
    assert contents(tmp_path) == before
    kept.save(large, owed={2: best})
    assert equal(kept.weights(2), best)
    assert equal(folder(tmp_path).weights(2), best)
    assert_same(folder(tmp_path).newest(), large)


def test_weights_alone_can_be_saved_at_the_end(tmp_path: Path) -> None:
    kept = folder(tmp_path, known={})
    kept.save(checkpoint(0.5))
    before = contents(tmp_path)
    best = checkpoint(0.5, 0.9, size=10_000).network
    with largest_file(30_000), pytest.raises(DiskError) as caught:
        kept.save_weights(2, best)
    assert str(caught.value) == (
        f"the weights of the best epoch must be writable at {kept.place}, got: File too large; "
        "the trial ends with its values, but without this network"
    )
    assert contents(tmp_path) == before
    kept.save_weights(2, best)
    assert equal(kept.weights(2), best)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


def test_a_folder_that_cannot_be_made_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "run-0").write_text("a file, not a folder")
    with pytest.raises(DiskError, match=r"must be writable at .*, got: File exists; the"):
        folder(tmp_path).save(checkpoint(0.5))


@pytest.mark.parametrize("part", ["weights", "state"])
@pytest.mark.parametrize("kept_share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_newest_falls_back_to_the_one_before(
    tmp_path: Path, part: str, kept_share: float
) -> None:
    for accuracies in ([0.5], [0.5, 0.6], [0.5, 0.6, 0.7]):
        folder(tmp_path).save(checkpoint(*accuracies))
    file = file_of(tmp_path, 3, part)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept_share)])
    assert_same(folder(tmp_path).newest(), checkpoint(0.5, 0.6))


@pytest.mark.parametrize("part", ["weights", "state"])
def test_a_missing_half_falls_back_to_the_one_before(tmp_path: Path, part: str) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    folder(tmp_path).save(checkpoint(0.5, 0.6))
    file_of(tmp_path, 2, part).unlink()
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


@pytest.mark.parametrize("key", list(OWNER))
def test_checkpoints_of_another_owner_are_not_read(tmp_path: Path, key: str) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    assert folder(tmp_path, owner={**OWNER, key: "other"}).newest() is None
    other = folder(tmp_path, owner={**OWNER, key: "other"})
    with pytest.raises(CheckpointError, match=r"must belong to this run, got one of another$"):
        other.weights(1)
    # Saving over them makes them one's own.
    other.save(checkpoint(0.9))
    assert_same(other.newest(), checkpoint(0.9))
    assert folder(tmp_path).newest() is None


def test_a_tensor_file_without_a_mark_is_not_read(tmp_path: Path) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    save_file({"weight": torch.zeros(3)}, file_of(tmp_path, 1, "weights"))
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
        file_of(tmp_path, 2, part).write_bytes(content)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))
    with pytest.raises(
        CheckpointError, match=r"epoch-0002\.claim-1\.weights\.safetensors must be a"
    ):
        folder(tmp_path).weights(2)
    assert not marker.exists()
    # Proof that the file is what it seems.
    pickle.loads(pickle.dumps(hostile))
    assert marker.exists()


def resigned(content: bytes, **changed: str) -> bytes:
    """The file with other metadata and a checksum, worked out here, that fits them."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    metadata = {**header.pop("__metadata__"), **changed}
    del metadata["sha256"]
    tensors = {}
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    types = {"F32": torch.float32}
    for name, facts in sorted(header.items()):
        first, last = facts["data_offsets"]
        dtype = types[facts["dtype"]]
        digest.update(json.dumps([name, str(dtype), facts["shape"]]).encode())
        digest.update(content[end + first : end + last])
        data = bytearray(content[end + first : end + last])
        tensors[name] = torch.frombuffer(data, dtype=dtype).reshape(facts["shape"])
    return save(tensors, {**metadata, "sha256": digest.hexdigest()})


def test_the_checksum_is_what_its_description_says(tmp_path: Path) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    for part in ("weights", "state"):
        content = file_of(tmp_path, 1, part).read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        again = resigned(content)
        assert json.loads(again[8 : 8 + int.from_bytes(again[:8], "little")]) == json.loads(
            content[8:end]
        )


GOOD = json.dumps(
    [
        {
            "epoch": epoch,
            "batch_size": 2,
            "lr_start": 0.001,
            "lr_end": 0.001,
            "loss": 0.3,
            "classification_loss": 0.1,
            "reconstruction_loss": 0.2,
            "training_accuracy": 0.5,
            "accuracy": 0.5,
            "training_seconds": 1.0,
            "evaluation_seconds": 0.25,
            "steps": 10,
            "samples": 100,
        }
        for epoch in (1, 2)
    ]
)


def test_figures_of_the_right_form_are_read(tmp_path: Path) -> None:
    """The base of the next test: all that is wrong there is the one change."""
    save_until(folder(tmp_path), 0.5, 0.6)
    file = file_of(tmp_path, 2, "state")
    file.write_bytes(resigned(file.read_bytes(), epochs=GOOD))
    found = folder(tmp_path).newest()
    assert found is not None
    assert [(m.epoch, m.loss, m.steps) for m in found.epochs] == [(1, 0.3, 10), (2, 0.3, 10)]


@pytest.mark.parametrize(
    "figures",
    [
        "",
        "[",
        "3",
        "null",
        "[]",
        '["a"]',
        "[null, null]",
        '[{"epoch": 1}]',
        '{"a": 1}',
        "[" * 100_000,
        GOOD.replace('"loss": 0.3', '"loss": NaN', 1),
        GOOD.replace('"loss": 0.3', '"loss": Infinity', 1),
        GOOD.replace('"accuracy": 0.5', '"accuracy": 1e999', 1),
        GOOD.replace('"loss": 0.3', '"loss": "0.3"', 1),
        GOOD.replace('"loss": 0.3', '"loss": true', 1),
        GOOD.replace('"loss": 0.3', '"loss": null', 1),
        GOOD.replace('"steps": 10', '"steps": 10.0', 1),
        GOOD.replace('"steps": 10', '"steps": [10]', 1),
        GOOD.replace('"steps": 10', '"more": 1, "steps": 10', 1),
        GOOD.replace('"steps": 10', '"steps": ' + "9" * 5_000, 1),
        GOOD.replace('"epoch": 1', '"epoch": 0'),
        GOOD.replace('"epoch": 2', '"epoch": 3'),
        GOOD.replace('"epoch": 2', '"epoch": 1'),
    ],
    ids=lambda figures: f"{zlib.crc32(figures.encode()):x}",
)
def test_damaged_figures_are_no_checkpoint(tmp_path: Path, figures: str) -> None:
    assert figures != GOOD
    save_until(folder(tmp_path), 0.5, 0.6)
    file = file_of(tmp_path, 2, "state")
    file.write_bytes(resigned(file.read_bytes(), epochs=figures))
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


@pytest.mark.parametrize("part", ["weights", "state"])
def test_any_flipped_byte_is_noticed(tmp_path: Path, part: str) -> None:
    save_until(folder(tmp_path), 0.5, 0.6)
    file = file_of(tmp_path, 2, part)
    content = file.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        assert_same(folder(tmp_path).newest(), checkpoint(0.5))
    file.write_bytes(content)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5, 0.6))


def test_a_flipped_byte_of_a_tensor_is_named_as_such(tmp_path: Path) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    file = file_of(tmp_path, 1, "weights")
    content = bytearray(file.read_bytes())
    content[-1] ^= 0x80
    file.write_bytes(content)
    # Safetensors itself sees nothing wrong with it.
    assert load_file(file)["weight"].shape == (8,)
    with pytest.raises(CheckpointError) as caught:
        folder(tmp_path).weights(1)
    assert str(caught.value) == f"{file} must be as it was written, got another checksum"


def with_header(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor_of(dtype: str, shape: list[Any], size: int) -> bytes:
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    return with_header({"weight": entry}, bytes(size))


@pytest.mark.parametrize("part", ["weights", "state"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        bytes(8),
        bytes(100_000),
        b"\xff" * 8,
        b"\xff" * 1_000,
        (1 << 62).to_bytes(8, "little") + b"{}",
        (99_000_000).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{}",
        (4).to_bytes(8, "little") + b"null",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
        with_header({"__metadata__": {"format": 3}}),
        with_header({"__metadata__": None}),
        with_header({"__metadata__": ["format"]}),
        with_header({"weight": None}),
        with_header({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}),
        with_header({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, bytes(4)),
        tensor_of("F99", [8], 32),
        tensor_of("F32", [9], 32),
        tensor_of("F32", [-8], 32),
        tensor_of("F32", [8.5], 32),
        tensor_of("F32", [1 << 62, 1 << 62], 32),
        tensor_of("F32", [1 << 62, 0], 0),
        tensor_of("F4", [8], 4),
        tensor_of("F64", [4], 32),
    ],
    ids=lambda content: f"{zlib.crc32(content):x}",
)
def test_bytes_that_are_no_checkpoint(tmp_path: Path, part: str, content: bytes) -> None:
    save_until(folder(tmp_path), 0.5, 0.6)
    file = file_of(tmp_path, 2, part)
    file.write_bytes(content)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))
    if part == "weights":
        with pytest.raises(CheckpointError) as caught:
            folder(tmp_path).weights(2)
        assert str(caught.value).startswith(f"{file} must ")
        assert len(str(caught.value).splitlines()) == 1


def link_to_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def link_to_a_good_file(file: Path) -> None:
    file.symlink_to(file.with_name(file.name.replace("epoch-0002", "epoch-0001")))


def sparse(file: Path) -> None:
    """A file that says it holds 4 TB."""
    with file.open("wb") as stream:
        stream.truncate(1 << 42)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", ["weights", "state"])
@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (link_to_zeros, "got: a symbolic link"),
        (link_to_a_good_file, "got: a symbolic link"),
        (os.mkfifo, "got: no regular file"),
        (Path.mkdir, "got: Is a directory"),
        (sparse, "got: 4398046511104 bytes"),
    ],
)
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, part: str, plant: Callable[[Path], None], said: str
) -> None:
    save_until(folder(tmp_path), 0.5, 0.6)
    file = file_of(tmp_path, 2, part)
    file.unlink()
    plant(file)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))
    if part == "weights":
        with pytest.raises(CheckpointError) as caught:
            folder(tmp_path).weights(2)
        assert str(caught.value) == f"{file} must be a checkpoint, {said}"
    # Neither do they stand in the way of the next checkpoints.
    save_until(folder(tmp_path), 0.5, 0.6, 0.7, first=3)
    assert_same(folder(tmp_path).newest(), checkpoint(0.5, 0.6, 0.7))


def test_weights_of_another_epoch_are_not_read(tmp_path: Path) -> None:
    save_until(folder(tmp_path), 0.5, 0.6)
    file_of(tmp_path, 2, "weights").write_bytes(file_of(tmp_path, 1, "weights").read_bytes())
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))


def test_a_checkpoint_without_its_best_weights_does_not_count(tmp_path: Path) -> None:
    save_until(folder(tmp_path), 0.9, 0.5, 0.6)
    file_of(tmp_path, 1, "weights").write_bytes(b"")
    assert folder(tmp_path).newest() is None


def test_what_could_not_be_read_does_not_count_later(tmp_path: Path) -> None:
    kept = folder(tmp_path)
    save_until(kept, 0.5, 0.6)
    file = file_of(tmp_path, 2, "state")
    content = file.read_bytes()
    file.write_bytes(b"")
    assert_same(kept.newest(), checkpoint(0.5))
    file.write_bytes(content)
    assert_same(kept.newest(), checkpoint(0.5))


FITTING = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"weight": torch.zeros(3, 2)},
            "weight must be torch.float32 [2, 3], got torch.float32 [3, 2]",
        ),
        ({"bias": torch.zeros(())}, "bias must be torch.float32 [2], got torch.float32 []"),
        (
            {"bias": torch.zeros(2).double()},
            "bias must be torch.float32 [2], got torch.float64 [2]",
        ),
        ({"bias": torch.zeros(2).int()}, "bias must be torch.float32 [2], got torch.int32 [2]"),
        ({"more": torch.zeros(1)}, "more must be none, got torch.float32 [1]"),
    ],
)
def test_tensors_that_do_not_fit(changed: dict[str, Tensor], said: str) -> None:
    require_fit({**FITTING}, FITTING)
    with pytest.raises(CheckpointError) as caught:
        require_fit({**FITTING, **changed}, FITTING)
    assert str(caught.value) == f"the checkpoint must fit the network: {said}"


def test_a_missing_tensor_does_not_fit() -> None:
    with pytest.raises(CheckpointError, match=r"bias must be torch.float32 \[2\], got none$"):
        require_fit({"weight": FITTING["weight"]}, FITTING)


# Claims. Claim 1 has done epochs 1 and 2 with rows, then lost its trial to claim 2, unknowingly.
TWO_ROWS = {1: 1, 2: 1}


def test_only_the_known_claims_checkpoint_of_an_epoch_is_read(tmp_path: Path) -> None:
    save_until(folder(tmp_path, known={}), 0.5, 0.6, 0.7)
    folder(tmp_path, claim=2, known=TWO_ROWS).save(checkpoint(0.5, 0.6, 0.1))
    assert_same(folder(tmp_path, known={**TWO_ROWS, 3: 2}).newest(), checkpoint(0.5, 0.6, 0.1))
    assert folder(tmp_path, known={1: 2, 2: 2}).newest() is None
    assert folder(tmp_path, known={}).newest() is None
    with pytest.raises(CheckpointError) as caught:
        folder(tmp_path, known={}).weights(3)
    assert str(caught.value) == (
        f"{tmp_path / 'run-0'}: the claim that stored epoch 3 must be known, got none"
    )


def test_a_woken_holder_neither_harms_the_next_ones_files_nor_is_read(tmp_path: Path) -> None:
    woken = folder(tmp_path, claim=1, known={})
    save_until(woken, 0.5, 0.6)
    holder = folder(tmp_path, claim=2, known=TWO_ROWS)
    assert_same(holder.newest(), checkpoint(0.5, 0.6))
    save_until(holder, 0.5, 0.6, 0.1, 0.2, first=3)
    before = {name: data for name, data in contents(tmp_path).items() if "claim-2" in name}
    assert len(before) == 4

    # It saves the epoch that it was in, with other figures.
    woken.save(checkpoint(0.5, 0.6, 0.8))
    assert_same(holder.newest(), checkpoint(0.5, 0.6, 0.1, 0.2))
    # No row of its would be taken from here on; whatever it may do, these files stay.
    save_until(woken, 0.5, 0.6, 0.8, 0.9, 0.95, first=4)
    woken.keep_only_weights(5)
    assert names(tmp_path) == [
        "3.state.2",
        "3.weights.2",
        "4.state.2",
        "4.weights.2",
        "5.weights.1",
    ]
    woken.remove()
    assert contents(tmp_path) == before


def test_a_woken_holder_leaves_what_the_next_one_still_needs(tmp_path: Path) -> None:
    """It was halted while it saved epoch 3; the next holder goes on from epoch 2, best is 1."""
    woken = folder(tmp_path, claim=1, known={})
    save_until(woken, 0.9, 0.6)
    holder = folder(tmp_path, claim=2, known=TWO_ROWS)
    holder.save(checkpoint(0.9, 0.6, 0.3))
    woken.save(checkpoint(0.9, 0.6, 0.95))
    assert_same(holder.newest(), checkpoint(0.9, 0.6, 0.3))
    assert holder.weights(1)["weight"].tolist() == [1.0] * 8
    file_of(tmp_path, 3, "state", claim=2).unlink()
    assert_same(holder.newest(), checkpoint(0.9, 0.6))


def test_the_next_holder_removes_what_earlier_ones_left(tmp_path: Path) -> None:
    save_until(folder(tmp_path, claim=1, known={}), 0.9, 0.6, 0.7)
    holder = folder(tmp_path, claim=2, known=TWO_ROWS)
    holder.save(checkpoint(0.9, 0.6, 0.3))
    # Epoch 2 and the best weights, of epoch 1, are the first claim's still; its epoch 3 is not.
    assert names(tmp_path) == [
        "1.weights.1",
        "2.state.1",
        "2.weights.1",
        "3.state.2",
        "3.weights.2",
    ]
    holder.save(checkpoint(0.9, 0.6, 0.3, 0.4))
    assert names(tmp_path) == [
        "1.weights.1",
        "3.state.2",
        "3.weights.2",
        "4.state.2",
        "4.weights.2",
    ]
    holder.keep_only_weights(1)
    assert names(tmp_path) == ["1.weights.1"]
    assert holder.weights(1)["weight"].tolist() == [1.0] * 8


def test_the_checkpoint_of_the_holder_before_is_gone_on_from_and_taken_over(
    tmp_path: Path,
) -> None:
    """Claim 2 died between the checkpoint of epoch 3 and its row; claim 1 left another one."""
    save_until(folder(tmp_path, claim=1, known={}), 0.5, 0.6, 0.1)
    third = checkpoint(0.5, 0.6, 0.9)
    folder(tmp_path, claim=2, known=TWO_ROWS).save(third)
    holder = folder(tmp_path, claim=3, known={**TWO_ROWS, 3: 2})
    assert_same(holder.newest(), third)
    holder.adopt(3)
    # From now on its row may say that claim 3 has stored it.
    assert_same(holder.newest(), third)
    assert_same(folder(tmp_path, claim=4, known={**TWO_ROWS, 3: 3, 4: 3}).newest(), third)
    assert [name for name in names(tmp_path) if name.startswith("3")] == [
        "3.state.3",
        "3.weights.3",
    ]
    holder.adopt(3)
    holder.save(checkpoint(0.5, 0.6, 0.9, 0.7))
    assert names(tmp_path) == ["3.state.3", "3.weights.3", "4.state.3", "4.weights.3"]


def test_half_taken_over_is_gone_on_from_before(tmp_path: Path) -> None:
    save_until(folder(tmp_path, claim=1, known={}), 0.5, 0.6)
    file_of(tmp_path, 2, "weights").rename(file_of(tmp_path, 2, "weights", claim=2))
    assert_same(folder(tmp_path, claim=3, known={1: 1, 2: 2}).newest(), checkpoint(0.5))


def test_files_are_for_those_whom_the_umask_allows(tmp_path: Path) -> None:
    script = """if True:
        import os, sys, torch
        from pathlib import Path
        from fastrcaps_search.metrics import EpochMetrics
        from fastrcaps_search.training.checkpoint import CheckpointFolder
        from fastrcaps_search.training.checkpoint_parts import Checkpoint
        os.umask(0o027)
        weight = {"weight": torch.zeros(3)}
        epochs = (EpochMetrics(1, 1, *[0.5] * 9, 1, 1),)
        CheckpointFolder(Path(sys.argv[1]), owner={}).save(Checkpoint(weight, weight, epochs))
    """
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "trial/run-0")], check=True)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "trial").rglob("*")
    }
    assert modes == {
        "run-0": 0o750,
        "epoch-0001.claim-1.state.safetensors": 0o640,
        "epoch-0001.claim-1.weights.safetensors": 0o640,
    }
    assert stat.S_IMODE((tmp_path / "trial").stat().st_mode) == 0o750


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
    expected = [f"{epoch}.state.1" for epoch in states]
    expected += [f"{epoch}.weights.1" for epoch in weights]
    assert names(tmp_path) == sorted(expected)
    for epoch in weights:
        kept = folder(tmp_path).weights(epoch)
        assert kept["weight"].tolist() == [float(epoch)] * 8


def test_epochs_beyond_9999(tmp_path: Path) -> None:
    kept = folder(tmp_path, known={})
    plain = checkpoint(0.5)
    epochs = tuple(metrics(epoch, 0.5) for epoch in range(1, 10_001))
    kept.save(plain)
    for last in (9_999, 10_000):
        kept.save(Checkpoint(plain.network, plain.optimiser, epochs[:last]))
    assert "10000.state.1" in names(tmp_path)
    assert_same(kept.newest(), Checkpoint(plain.network, plain.optimiser, epochs))


def test_when_a_run_has_ended_its_best_weights_stay_alone(tmp_path: Path) -> None:
    for accuracies in ([0.5], [0.5, 0.9], [0.5, 0.9, 0.6]):
        folder(tmp_path).save(checkpoint(*accuracies))
    part_of(file_of(tmp_path, 3, "state")).write_bytes(b"half")
    (tmp_path / "run-0" / "notes.txt").write_text("not ours")
    folder(tmp_path).keep_only_weights(2)
    assert names(tmp_path) == ["2.weights.1", "notes.txt"]
    assert folder(tmp_path).weights(2)["weight"].tolist() == [2.0] * 8
    folder(tmp_path).remove()
    assert names(tmp_path) == ["notes.txt"]


def test_what_a_killed_process_left_half_written_is_not_read(tmp_path: Path) -> None:
    folder(tmp_path).save(checkpoint(0.5))
    content = file_of(tmp_path, 1, "state").read_bytes()
    half = part_of(file_of(tmp_path, 2, "state"))
    half.write_bytes(content[:50])
    assert_same(folder(tmp_path).newest(), checkpoint(0.5))
    # Its room is given back even where the next checkpoint cannot be written.
    with largest_file(0), pytest.raises(DiskError):
        folder(tmp_path).save(checkpoint(0.5, 0.6))
    assert not half.exists()
