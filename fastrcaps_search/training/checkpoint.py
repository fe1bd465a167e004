"""Checkpoints: one pair of files per epoch, each complete or absent, none of them pickled.

``epoch-0003.claim-2.weights.safetensors`` holds the network alone (the best epoch's stays for
good); ``epoch-0003.claim-2.state.safetensors`` the optimiser, and in its metadata the figures of
all epochs so far and the hits of the best one. There is no random state to keep: order and shifts
of an epoch follow from seed and epoch. The claim is the fencing token of the trial's holder that
wrote the file: one that has lost its trial without knowing it writes under names that nobody
reads.

``epoch-0004.claim-2.progress.safetensors`` holds all of this in one file, from the middle of epoch
4. It counts for whoever goes on from the very epochs whose figures, seconds included, it repeats,
whatever claim wrote it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from torch import Tensor

from fastrcaps_search.disk import FULL, disk_errors
from fastrcaps_search.errors import CheckpointError, DiskError
from fastrcaps_search.folders import Folder, LocalFolder
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.training.tensor_file import tensor_bytes, tensors_of

FORMAT = "fastrcaps-checkpoint-3"
FILE_NAME = re.compile(
    r"\.?epoch-\d{4,}\.claim-(\d+)\.(?:weights|state|progress)\.safetensors"
    r"(?:\.[0-9a-f]{8}\.part)?"
)
GOES_ON_WITHOUT = "the trial goes on without this checkpoint"
GOES_ON = (
    "free some space or fix the folder and run the same line again, the trial goes on from its "
    "last good checkpoint"
)
ENDS_WITHOUT = "the trial ends with its values, but without this network"


class Part(StrEnum):
    """What a file holds."""

    WEIGHTS = "weights"
    STATE = "state"
    PROGRESS = "progress"


PARTS = (Part.WEIGHTS, Part.STATE)
"""The two files of a checkpoint."""


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


@dataclass(frozen=True, slots=True)
class Progress:
    """A run within an epoch.

    Attributes:
        state: Network and optimiser as they are, with the figures of the epochs before.
        sums: What ``TrainedNetwork.sums`` gave.
        samples: Images of the epoch that are trained.
        seconds: For which they were trained, none of it suspended.
        sharing: Workers that shared the device meanwhile.
        setting: Where.
    """

    state: Checkpoint
    sums: Tensor
    samples: int
    seconds: float
    sharing: int
    setting: RunSetting


class CheckpointFolder:
    """The checkpoints of one run, as the holder of one claim sees them.

    Args:
        place: Folder of the run, on a disk (as a path too) or in object storage.
        owner: What the checkpoints belong to (study, trial, run, seed, configuration). Files of
            another owner, left by a database that is no more, are not read.
        claim: Claim under which files are written. Those of later claims are never touched.
        known: The claim whose checkpoint counts, by epoch; no others are read.
    """

    def __init__(
        self,
        place: Folder | Path,
        *,
        owner: Mapping[str, str],
        claim: int = 1,
        known: Mapping[int, int] | None = None,
    ) -> None:
        self.place: Folder = LocalFolder(place) if isinstance(place, Path) else place
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
        more = {"epochs": _figures(checkpoint.epochs), "hits": checkpoint.hits.hex()}

        def write() -> None:
            for each, network in networks.items():
                self._write(Part.WEIGHTS, each, network)
            self._write(Part.STATE, epoch, checkpoint.optimiser, **more)

        try:
            with disk_errors("a checkpoint", str(self.place), advice=GOES_ON_WITHOUT):
                files = self._without_half_written()
                kept = [name for name in files if not _is_progress(name)]
                self._write_in_room(write, kept=kept)
        except DiskError:
            # Half a checkpoint would only take room. What object storage is asked in an outage it
            # may do later, to the weights that are written next under the same name.
            if isinstance(self.place, LocalFolder):
                self.place.remove([self._own(each, part) for each in networks for part in PARTS])
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
        with disk_errors("the weights of the best epoch", str(self.place), advice=ENDS_WITHOUT):
            self._write_in_room(lambda: self._write(Part.WEIGHTS, epoch, network), kept=set())
        self._known[epoch] = self._claim

    def save_progress(self, progress: Progress) -> None:
        """Write how far the epoch in progress has come, then remove what was written of it before.

        Raises:
            DiskError: It cannot be written. What was written before stays.
        """
        state = progress.state
        epoch = len(state.epochs) + 1
        tensors = {
            "sums": progress.sums,
            **{f"network.{name}": tensor for name, tensor in state.network.items()},
            **{f"optimiser.{name}": tensor for name, tensor in state.optimiser.items()},
        }
        with disk_errors("a checkpoint", str(self.place), advice=GOES_ON_WITHOUT):
            files = self._without_half_written()
            self._write(
                Part.PROGRESS,
                epoch,
                tensors,
                epochs=_figures(state.epochs),
                setting=_text(progress.setting),
                samples=str(progress.samples),
                seconds=repr(progress.seconds),
                sharing=str(progress.sharing),
            )
            own = self._own(epoch, Part.PROGRESS)
            self.place.remove(name for name in files if _is_progress(name) and name != own)

    def adopt(self, epoch: int) -> None:
        """Make an earlier claim's checkpoint of ``epoch`` one's own, before its row says so.

        Raises:
            DiskError: The folder cannot be written.
        """
        with disk_errors("a checkpoint", str(self.place), advice=GOES_ON):
            for part in PARTS:
                with suppress(FileNotFoundError):
                    self.place.rename(self._path(epoch, part), self._own(epoch, part))
        self._known[epoch] = self._claim

    def newest(self) -> Checkpoint | None:
        """The newest known checkpoint that can be read whole; ``None`` when there is none.

        Raises:
            DiskError: Object storage does not say.
        """
        for epoch in sorted(self._known, reverse=True):
            try:
                return self._load(epoch)
            except CheckpointError:
                # The run goes on from before it: it must not count when asked again, even if
                # its writer, an earlier holder, completes it meanwhile.
                del self._known[epoch]
        return None

    def progress(self, before: Checkpoint | None, *, setting: RunSetting) -> Progress | None:
        """How far the epoch after a checkpoint had come.

        Args:
            before: What :meth:`newest` gave.
            setting: Where the run is to go on. What was trained elsewhere is left alone: the
                seconds of an epoch are those of one device.

        Returns:
            ``None`` where nothing that can be read whole continues this very checkpoint.
        """
        epochs, hits = ((), b"") if before is None else (before.epochs, before.hits)
        marks = {"epochs": _figures(epochs), "setting": _text(setting)}
        epoch = len(epochs) + 1
        found = []
        for name in filter(_is_progress, self._files()):
            with suppress(CheckpointError, KeyError, ValueError):
                tensors, metadata = self._read_file(name, epoch, **marks)
                state = Checkpoint(
                    _prefixed("network.", tensors), _prefixed("optimiser.", tensors), epochs, hits
                )
                samples, sharing = int(metadata["samples"]), int(metadata["sharing"])
                seconds = float(metadata["seconds"])
                if samples >= 0 and sharing >= 1 and 0.0 <= seconds < math.inf:
                    sums = tensors["sums"]
                    found.append(Progress(state, sums, samples, seconds, sharing, setting))
        return max(found, key=lambda one: one.samples, default=None)

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
            path = f"{self.place}/{self._path(epoch, Part.STATE)}"
            raise CheckpointError(f"{path} must hold figures of epochs, got: {error}") from error
        best = _best(epochs)
        if best != epoch:
            # Going on from here would end in a run without its network.
            self.weights(best)
        return Checkpoint(self.weights(epoch), optimiser, epochs, hits)

    def _remove_old(self, epochs: Sequence[EpochMetrics]) -> None:
        """Keep this checkpoint, the last good one before, and the best weights as of either."""
        kept: set[str] = set()
        for end in sorted(self._known)[-2:]:
            kept |= {self._path(end, part) for part in PARTS}
            kept.add(self._path(_best(epochs[:end]), Part.WEIGHTS))
        self._remove_but(kept)

    def _write_in_room(self, write: Callable[[], None], *, kept: Collection[str]) -> None:
        """Write; where there is no room, all files that are not to be kept give way."""
        try:
            write()
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._remove_but(kept)
            write()

    def _without_half_written(self) -> list[str]:
        """The files, after what a killed process left half written is removed for its room."""
        files = list(self._files())
        self.place.remove(name for name in files if name.endswith(".part"))
        return files

    def _remove_but(self, kept: Collection[str]) -> None:
        with suppress(OSError):
            self.place.remove([name for name in self._files() if name not in kept])

    def _files(self) -> Iterator[str]:
        """Names of the files of this claim and of earlier ones."""
        for name in self.place.names():
            match = FILE_NAME.fullmatch(name)
            if match and int(match[1]) <= self._claim:
                yield name

    def _path(self, epoch: int, part: Part) -> str:
        """Name of the checkpoint that counts, where it is there."""
        claim = self._known.get(epoch, self._claim)
        return f"epoch-{epoch:04d}.claim-{claim}.{part}.safetensors"

    def _own(self, epoch: int, part: Part) -> str:
        return f"epoch-{epoch:04d}.claim-{self._claim}.{part}.safetensors"

    def _write(
        self, part: Part, epoch: int, tensors: Mapping[str, Tensor], **metadata: str
    ) -> None:
        marks = {**self._owner, "epoch": str(epoch)}
        self.place.write(self._own(epoch, part), tensor_bytes(tensors, {**marks, **metadata}))

    def _read(self, part: Part, epoch: int) -> tuple[dict[str, Tensor], dict[str, str]]:
        if epoch not in self._known:
            raise CheckpointError(
                f"{self.place}: the claim that stored epoch {epoch} must be known, got none"
            )
        return self._read_file(self._path(epoch, part), epoch)

    def _read_file(
        self, name: str, epoch: int, **more: str
    ) -> tuple[dict[str, Tensor], dict[str, str]]:
        path = f"{self.place}/{name}"
        tensors, metadata = tensors_of(self.place.read(name), path)
        marks = {**self._owner, "epoch": str(epoch), **more}
        if any(metadata.get(key) != value for key, value in marks.items()):
            raise CheckpointError(f"{path} must belong to this run, got one of another")
        return tensors, metadata


def _figures(epochs: Sequence[EpochMetrics]) -> str:
    return json.dumps([asdict(metrics) for metrics in epochs])


def _is_progress(name: str) -> bool:
    """Whether a file was written in the middle of an epoch."""
    return name.endswith(f".{Part.PROGRESS}.safetensors")


def _text(setting: RunSetting) -> str:
    return json.dumps(asdict(setting), sort_keys=True)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


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
