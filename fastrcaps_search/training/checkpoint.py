"""Checkpoints: one pair of files per epoch, each complete or absent, none of them pickled.

``epoch-0003.claim-2.weights.safetensors`` holds the network alone (the best epoch's stays for
good); ``epoch-0003.claim-2.state.safetensors`` the optimiser, and in its metadata the figures of
all epochs so far and the hits of the best one. There is no random state to keep: order and shifts
of an epoch follow from seed and epoch. The claim is the fencing token of the trial's holder that
wrote the file: one that has lost its trial without knowing it writes under names that nobody
reads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from torch import Tensor

from fastrcaps_search.disk import FULL, disk_errors, remove_file, replace_file
from fastrcaps_search.errors import CheckpointError, DiskError
from fastrcaps_search.metrics import EpochMetrics, RunResult
from fastrcaps_search.training.tensor_file import read_tensors, tensor_bytes

FORMAT = "fastrcaps-checkpoint-3"
FILE_NAME = re.compile(
    r"\.?epoch-\d{4,}\.claim-(\d+)\.(?:weights|state)\.safetensors(?:\.[0-9a-f]{8}\.part)?"
)
GOES_ON_WITHOUT = "the trial goes on without this checkpoint"
GOES_ON = (
    "free some space or fix the folder and run the same line again, the trial goes on from its "
    "last good checkpoint"
)
ENDS_WITHOUT = "the trial ends with its values, but without this network"


class Part(StrEnum):
    """The two files of a checkpoint."""

    WEIGHTS = "weights"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run after an epoch.

    Attributes:
        network: State of the network by parameter name.
        optimiser: State of the optimiser: ``<quantity>.<parameter name>``.
        epochs: Figures of all epochs so far, in order.
        hits: Which evaluation images the best of them has right, as in ``RunResult``.
    """

    network: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    epochs: tuple[EpochMetrics, ...]
    hits: bytes = b""


class CheckpointFolder:
    """The checkpoints of one run, as the holder of one claim sees them.

    Args:
        path: Folder of the run; made when first written to.
        owner: What the checkpoints belong to (study, trial, run, seed, configuration). Files of
            another owner, left by a database that is no more, are not read.
        claim: Claim under which files are written. Those of later claims are never touched.
        known: The claim whose checkpoint counts, by epoch; no others are read.
    """

    def __init__(
        self,
        path: Path,
        *,
        owner: Mapping[str, str],
        claim: int = 1,
        known: Mapping[int, int] | None = None,
    ) -> None:
        self.path = path
        self._owner = {"format": FORMAT, **owner}
        self._claim = claim
        self._known = dict(known or {})

    def save(
        self, checkpoint: Checkpoint, *, owed: Mapping[int, Mapping[str, Tensor]] | None = None
    ) -> None:
        """Write a checkpoint, then remove those that are no longer needed.

        Args:
            checkpoint: The run after its last epoch.
            owed: Weights by epoch that are written first: without them the checkpoint would
                stand for a run whose best network is lost.

        Raises:
            DiskError: The disk is full or the folder cannot be written. Nothing of this
                checkpoint stays, and every earlier one does.
        """
        epoch = checkpoint.epochs[-1].epoch
        networks = {**(owed or {}), epoch: checkpoint.network}
        figures = json.dumps([asdict(metrics) for metrics in checkpoint.epochs])
        more = {"epochs": figures, "hits": checkpoint.hits.hex()}
        # What a killed process left half written: the room may be needed.
        self._remove_but({path for path in self._files() if path.suffix != ".part"})
        try:
            with disk_errors("a checkpoint", self.path, advice=GOES_ON_WITHOUT):
                for each, network in networks.items():
                    self._write(Part.WEIGHTS, each, network)
                self._write(Part.STATE, epoch, checkpoint.optimiser, **more)
        except DiskError:
            # Half a checkpoint would only take room.
            for each in networks:
                for part in Part:
                    remove_file(self._own(each, part))
            raise
        self._known = {e: claim for e, claim in self._known.items() if e < epoch}
        self._known |= dict.fromkeys(networks, self._claim)
        self._remove_old(checkpoint.epochs)

    def save_weights(self, epoch: int, network: Mapping[str, Tensor]) -> None:
        """Write the weights after ``epoch`` alone, of a run that ends without a last checkpoint.

        Where there is no room, its earlier checkpoints, needed no more, give way.

        Raises:
            DiskError: They cannot be written.
        """
        with disk_errors("the weights of the best epoch", self.path, advice=ENDS_WITHOUT):
            try:
                self._write(Part.WEIGHTS, epoch, network)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self._remove_but(set())
                self._write(Part.WEIGHTS, epoch, network)
        self._known[epoch] = self._claim

    def adopt(self, epoch: int) -> None:
        """Make an earlier claim's checkpoint of ``epoch`` one's own, before its row says so.

        Raises:
            DiskError: The folder cannot be written.
        """
        with disk_errors("a checkpoint", self.path, advice=GOES_ON):
            for part in Part:
                with suppress(FileNotFoundError):
                    self._path(epoch, part).replace(self._own(epoch, part))
        self._known[epoch] = self._claim

    def newest(self) -> Checkpoint | None:
        """The newest known checkpoint that can be read whole; ``None`` when there is none."""
        for epoch in sorted(self._known, reverse=True):
            try:
                return self._load(epoch)
            except CheckpointError:
                # The run goes on from before it: it must not count when asked again, even if
                # its writer, an earlier holder, completes it meanwhile.
                del self._known[epoch]
        return None

    def weights(self, epoch: int) -> dict[str, Tensor]:
        """The network's weights after ``epoch``.

        Raises:
            CheckpointError: Unknown, missing, damaged or of another owner.
        """
        return self._read(Part.WEIGHTS, epoch)[0]

    def keep_only_weights(self, epoch: int) -> None:
        """Remove everything but the weights after ``epoch``: the run has ended."""
        self._remove_but({self._path(epoch, Part.WEIGHTS)})

    def remove(self) -> None:
        """Remove every checkpoint of this claim and of earlier ones."""
        self._known = {}
        self._remove_but(set())

    def _load(self, epoch: int) -> Checkpoint:
        optimiser, metadata = self._read(Part.STATE, epoch)
        try:
            epochs = tuple(map(EpochMetrics.from_dict, json.loads(metadata["epochs"])))
            if [metrics.epoch for metrics in epochs] != list(range(1, epoch + 1)):
                raise ValueError("epochs are missing")
            hits = bytes.fromhex(metadata["hits"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            path = self._path(epoch, Part.STATE)
            raise CheckpointError(f"{path} must hold figures of epochs, got: {error}") from error
        best = _best(epochs)
        if best != epoch:
            # Going on from here would end in a run without its network.
            self.weights(best)
        return Checkpoint(self.weights(epoch), optimiser, epochs, hits)

    def _remove_old(self, epochs: Sequence[EpochMetrics]) -> None:
        """Keep this checkpoint, the last good one before, and the best weights as of either."""
        kept: set[Path] = set()
        for end in sorted(self._known)[-2:]:
            kept |= {self._path(end, part) for part in Part}
            kept.add(self._path(_best(epochs[:end]), Part.WEIGHTS))
        self._remove_but(kept)

    def _remove_but(self, kept: set[Path]) -> None:
        for path in self._files():
            if path not in kept:
                remove_file(path)

    def _files(self) -> Iterator[Path]:
        """Files of this claim and of earlier ones."""
        try:
            names = os.listdir(self.path)  # noqa: PTH208  # iterdir raises outside of this block
        except OSError:
            return
        for name in names:
            match = FILE_NAME.fullmatch(name)
            if match and int(match[1]) <= self._claim:
                yield self.path / name

    def _path(self, epoch: int, part: Part) -> Path:
        """Where the checkpoint that counts is, or would be."""
        claim = self._known.get(epoch, self._claim)
        return self.path / f"epoch-{epoch:04d}.claim-{claim}.{part}.safetensors"

    def _own(self, epoch: int, part: Part) -> Path:
        return self.path / f"epoch-{epoch:04d}.claim-{self._claim}.{part}.safetensors"

    def _write(
        self, part: Part, epoch: int, tensors: Mapping[str, Tensor], **metadata: str
    ) -> None:
        marks = {**self._owner, "epoch": str(epoch)}
        replace_file(self._own(epoch, part), tensor_bytes(tensors, {**marks, **metadata}))

    def _read(self, part: Part, epoch: int) -> tuple[dict[str, Tensor], dict[str, str]]:
        if epoch not in self._known:
            raise CheckpointError(
                f"{self.path}: the claim that stored epoch {epoch} must be known, got none"
            )
        path = self._path(epoch, part)
        tensors, metadata = read_tensors(path)
        marks = {**self._owner, "epoch": str(epoch)}
        if any(metadata.get(key) != value for key, value in marks.items()):
            raise CheckpointError(f"{path} must belong to this run, got one of another")
        return tensors, metadata


def _best(epochs: Sequence[EpochMetrics]) -> int:
    return RunResult.from_epochs(epochs, parameters=0).best_epoch


def require_fit(found: Mapping[str, Tensor], network: Mapping[str, Tensor]) -> None:
    """Make sure that read tensors have the names, shapes and types of those in ``network``.

    Raises:
        CheckpointError: They differ.
    """
    for name in sorted(found.keys() | network.keys()):
        got, expected = (
            f"{tensors[name].dtype} {list(tensors[name].shape)}" if name in tensors else "none"
            for tensors in (found, network)
        )
        if got != expected:
            raise CheckpointError(
                f"the checkpoint must fit the network: {name} must be {expected}, got {got}"
            )
