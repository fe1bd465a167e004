"""Checkpoints: one pair of files per epoch, each complete or absent, none of them pickled.

``epoch-0003.weights.safetensors`` holds the network alone (the best epoch's stays for good);
``epoch-0003.state.safetensors`` the optimiser, and in its metadata the figures of all epochs so
far. There is no random state to keep: order and shifts of an epoch follow from seed and epoch.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from fastrcaps_search.errors import CheckpointError, DiskError
from fastrcaps_search.metrics import EpochMetrics, RunResult

FORMAT = "fastrcaps-checkpoint-1"
STATE_NAME = re.compile(r"epoch-(\d{4,})\.state\.safetensors")
WEIGHTS_NAME = re.compile(r"epoch-(\d{4,})\.weights\.safetensors")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run after an epoch.

    Attributes:
        network: State of the network by parameter name.
        optimiser: State of the optimiser: ``<quantity>.<parameter name>``.
        epochs: Figures of all epochs so far, in order.
    """

    network: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    epochs: tuple[EpochMetrics, ...]


class CheckpointFolder:
    """The checkpoints of one run.

    Args:
        path: Folder of the run; made when first written to.
        owner: What the checkpoints belong to (study, trial, run, seed, configuration). Files of
            another owner, left by a database that is no more, are not read.
    """

    def __init__(self, path: Path, *, owner: Mapping[str, str]) -> None:
        self.path = path
        self._owner = {"format": FORMAT, **owner}

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, then remove those that are no longer needed.

        Raises:
            DiskError: The disk is full or the folder cannot be written; the last good
                checkpoint stays.
        """
        epoch = checkpoint.epochs[-1].epoch
        figures = json.dumps([asdict(metrics) for metrics in checkpoint.epochs])
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _write(self._weights(epoch), save(checkpoint.network, dict(self._owner)))
            state = save(checkpoint.optimiser, {**self._owner, "epochs": figures})
            _write(self._state(epoch), state)
        except OSError as error:
            raise DiskError(
                f"{self.path}: a checkpoint must be written, got: {error.strerror}; free some "
                "space or mend the folder and run the same line again, the trial goes on"
            ) from error
        self._remove_old(checkpoint.epochs)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that can be read whole; ``None`` when there is none."""
        for epoch in sorted(self._epochs(STATE_NAME), reverse=True):
            with suppress(CheckpointError):
                return self._load(epoch)
        return None

    def weights(self, epoch: int) -> dict[str, Tensor]:
        """The network's weights after ``epoch``.

        Raises:
            CheckpointError: Missing, damaged or of another owner.
        """
        return _read(self._weights(epoch), self._owner)[0]

    def keep_only_weights(self, epoch: int) -> None:
        """Remove everything but the weights after ``epoch``: the run has ended."""
        for path in self._files():
            if path != self._weights(epoch):
                _remove(path)

    def remove(self) -> None:
        """Remove every checkpoint."""
        for path in self._files():
            _remove(path)

    def _load(self, epoch: int) -> Checkpoint:
        optimiser, metadata = _read(self._state(epoch), self._owner)
        try:
            epochs = tuple(EpochMetrics(**item) for item in json.loads(metadata["epochs"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self._state(epoch)} must hold figures of epochs") from error
        return Checkpoint(self.weights(epoch), optimiser, epochs)

    def _remove_old(self, epochs: Sequence[EpochMetrics]) -> None:
        """Keep this checkpoint, the one before, and the best weights as of either."""
        kept = {metrics.epoch for metrics in epochs[-2:]}
        best = {
            RunResult.from_epochs(some, parameters=0).best_epoch
            for some in (epochs, epochs[:-1])
            if some
        }
        for epoch in self._epochs(STATE_NAME) - kept:
            _remove(self._state(epoch))
        for epoch in self._epochs(WEIGHTS_NAME) - kept - best:
            _remove(self._weights(epoch))

    def _files(self) -> list[Path]:
        return list(self.path.glob("epoch-*")) if self.path.is_dir() else []

    def _epochs(self, name: re.Pattern[str]) -> set[int]:
        matches = (name.fullmatch(path.name) for path in self._files())
        return {int(match[1]) for match in matches if match}

    def _state(self, epoch: int) -> Path:
        return self.path / f"epoch-{epoch:04d}.state.safetensors"

    def _weights(self, epoch: int) -> Path:
        return self.path / f"epoch-{epoch:04d}.weights.safetensors"


def _remove(path: Path) -> None:
    """Remove a file that is no longer needed; one that cannot be removed only takes room."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    """Write a whole file or none: a temporary name, flushed to the disk, then renamed."""
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path, owner: Mapping[str, str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} must be a checkpoint, got: {error}") from error
    if any(metadata.get(key) != value for key, value in owner.items()):
        raise CheckpointError(f"{path} must belong to this run, got one of another")
    return {name: tensor.clone() for name, tensor in tensors.items()}, metadata
