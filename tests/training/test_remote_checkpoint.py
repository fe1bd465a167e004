"""Checkpoints in object storage: the same promises as on a disk, on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from fastrcaps_search import object_storage
from fastrcaps_search.errors import CheckpointError, DiskError
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.object_storage import RemoteFolder
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.checkpoint_parts import Checkpoint

if TYPE_CHECKING:
    from tests.s3 import S3Server

OWNER = {"study": "a1b2", "trial": "3"}


def checkpoint(epochs: int) -> Checkpoint:
    """After so many epochs, each better than the one before; its numbers are their number."""
    values = torch.full((1000,), float(epochs))
    figures = tuple(
        EpochMetrics(e, 16, 1e-3, 1e-3, 0.3, 0.1, 0.2, 0.5, e / 10, 1.0, 0.1, 4, 64)
        for e in range(1, epochs + 1)
    )
    return Checkpoint({"weight": values}, {"exp_avg.weight": values * 2}, figures, b"\x01")


def opened(url: str, *, claim: int = 1, known: dict[int, int] | None = None) -> CheckpointFolder:
    return CheckpointFolder(RemoteFolder(url), owner=OWNER, claim=claim, known=known)


def saved(url: str, epochs: int) -> CheckpointFolder:
    """The checkpoints after so many epochs."""
    folder = opened(url)
    for epoch in range(1, epochs + 1):
        folder.save(checkpoint(epoch))
    return folder


def object_of(url: str, epoch: int, part: str, claim: int = 1) -> str:
    return f"{url}/epoch-{epoch:04d}.claim-{claim}.{part}.safetensors"


def newest(folder: CheckpointFolder) -> int | None:
    found = folder.newest()
    if found is None:
        return None
    (value,) = found.network["weight"].unique().tolist()
    assert (len(found.epochs), found.hits) == (value, b"\x01")
    return int(value)


def test_another_machine_goes_on_and_no_more_is_kept_than_needed(s3_url: str) -> None:
    saved(s3_url, 4)
    assert sorted(RemoteFolder(s3_url).names()) == [
        f"epoch-000{epoch}.claim-1.{part}.safetensors"
        for epoch in (3, 4)
        for part in ("state", "weights")
    ]
    # The row of the last epoch was not stored any more; its checkpoint counts all the same.
    other = opened(s3_url, claim=2, known=dict.fromkeys(range(1, 5), 1))
    assert newest(other) == 4
    other.adopt(4)
    other.save(checkpoint(5))
    assert newest(opened(s3_url, claim=3, known={4: 2, 5: 2})) == 5
    # What the lost holder writes now, nobody reads, and it removes nothing of others.
    opened(s3_url, known={4: 1}).save(checkpoint(6))
    assert newest(opened(s3_url, claim=3, known={4: 2, 5: 2, 6: 2})) == 5
    other.keep_only_weights(5)
    assert object_of("", 5, "weights", 2).strip("/") in RemoteFolder(s3_url).names()
    other.remove()
    assert RemoteFolder(s3_url).names() == []


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("part", ["weights", "state"])
def test_a_damaged_object_is_found_and_the_checkpoint_before_used(
    part: str, damage: str, s3_url: str, s3_server: S3Server
) -> None:
    saved(s3_url, 3)
    files, path = s3_server.files(), object_of(s3_url, 3, part)
    content = bytearray(files.cat_file(path))
    content[-5] ^= 1
    if damage == "gone":
        files.rm_file(path)
    else:
        files.pipe_file(path, bytes(content if damage == "flipped" else content[:-100]))
    folder = opened(s3_url, claim=2, known=dict.fromkeys(range(1, 4), 1))
    assert newest(folder) == 2
    if part == "weights":
        with pytest.raises(CheckpointError):
            opened(s3_url, known={3: 1}).weights(3)


def test_an_outage_costs_a_checkpoint_and_no_take_over_begins_again_for_it(
    s3_url: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(s3_url, 2)
    monkeypatch.setattr(object_storage, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(object_storage, "CONTENT_SECONDS", 1.0)
    s3_server.suspend()
    try:
        with pytest.raises(DiskError) as caught:
            folder.save(checkpoint(3))
        assert str(caught.value) == (
            f"a checkpoint must be writable at {s3_url}, got: no answer in time; the trial goes "
            "on without this checkpoint"
        )
        with pytest.raises(
            DiskError, match=r"must be readable at .* run the same line again once"
        ):
            opened(s3_url, claim=2, known={1: 1, 2: 1}).newest()
        # Nothing that must end with the run, ends it.
        folder.keep_only_weights(2)
    finally:
        s3_server.resume()
    monkeypatch.undo()
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    assert newest(folder) == 2
    folder.save(checkpoint(4), owed={3: checkpoint(3).network})
    assert newest(folder) == 4
    assert folder.weights(3)["weight"][0] == 3
