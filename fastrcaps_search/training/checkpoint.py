"""Checkpoints of a run: one pair of files per epoch, each complete or absent.

The claim in a file's name is the fencing token of the trial's holder that wrote it: one that has
lost its trial without knowing it writes under names that nobody reads. A file from the middle of
an epoch counts for whoever goes on from the very epochs whose figures it repeats, whatever claim
wrote it. What they hold is in :mod:`fastrcaps_search.training.checkpoint_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from fastrcaps_search.disk import FULL, disk_errors
from fastrcaps_search.errors import CheckpointError, DiskError, FastrcapsError
from fastrcaps_search.folders import Folder, LocalFolder
from fastrcaps_search.metrics import EpochMetrics, RunSetting
from fastrcaps_search.training.checkpoint_parts import (
    FILE_NAME,
    FORMAT,
    PARTS,
    Checkpoint,
    Part,
    Progress,
    best_epoch,
    file_name,
    is_progress,
    progress_content,
    progress_marks,
    read_progress,
    read_state,
    state_metadata,
)
from fastrcaps_search.training.tensor_file import tensor_bytes, tensors_of

GOES_ON_WITHOUT = "the trial goes on without this checkpoint"
GOES_ON = (
    "free some space or fix the folder and run the same line again, the trial goes on from its "
    "last good checkpoint"
)
ENDS_WITHOUT = "the trial ends with its values, but without this network"


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

        def write() -> None:
            for each, network in networks.items():
                self._write(Part.WEIGHTS, each, network)
            self._write(Part.STATE, epoch, checkpoint.optimiser, **state_metadata(checkpoint))

        try:
            with disk_errors("a checkpoint", str(self.place), advice=GOES_ON_WITHOUT):
                files = self._without_half_written()
                kept = [name for name in files if not is_progress(name)]
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
        epoch = len(progress.state.epochs) + 1
        tensors, metadata = progress_content(progress)
        with disk_errors("a checkpoint", str(self.place), advice=GOES_ON_WITHOUT):
            files = self._without_half_written()
            self._write(Part.PROGRESS, epoch, tensors, **metadata)
            own = self._own(epoch, Part.PROGRESS)
            self.place.remove(name for name in files if is_progress(name) and name != own)

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

    def fetch(self, place: Folder) -> bool:
        """Copy here what counts and is in another place alone; whether there was anything.

        What cannot be read there is left; what was changed on the way is found when it is read.

        Raises:
            DiskError: It cannot be written here.
        """
        counting = {self._path(epoch, part) for epoch in self._known for part in PARTS}
        there: list[str] = []
        with suppress(FastrcapsError, OSError):
            there = [name for name in self._files(place) if name in counting or is_progress(name)]
        fetched = False
        with disk_errors("a checkpoint", str(self.place), advice=GOES_ON):
            for name in {*there} - {*self._files()} if there else ():
                try:
                    content = place.read(name)
                except CheckpointError:
                    continue
                except DiskError:
                    # It would not give the others either, a minute each.
                    break
                self.place.write(name, content)
                fetched = True
        return fetched

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
        epochs = () if before is None else before.epochs
        marks, epoch = progress_marks(epochs, setting), len(epochs) + 1
        found = []
        for name in filter(is_progress, self._files()):
            with suppress(CheckpointError, KeyError, ValueError):
                found.append(
                    read_progress(*self._read_file(name, epoch, **marks), before, setting)
                )
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
            epochs, hits = read_state(metadata, epoch)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            path = f"{self.place}/{self._path(epoch, Part.STATE)}"
            raise CheckpointError(f"{path} must hold figures of epochs, got: {error}") from error
        best = best_epoch(epochs)
        if best != epoch:
            # Going on from here would end in a run without its network.
            self.weights(best)
        return Checkpoint(self.weights(epoch), optimiser, epochs, hits)

    def _remove_old(self, epochs: Sequence[EpochMetrics]) -> None:
        """Keep this checkpoint, the last good one before, and the best weights as of either."""
        kept: set[str] = set()
        for end in sorted(self._known)[-2:]:
            kept |= {self._path(end, part) for part in PARTS}
            kept.add(self._path(best_epoch(epochs[:end]), Part.WEIGHTS))
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

    def _files(self, place: Folder | None = None) -> Iterator[str]:
        """Names of the files of this claim and of earlier ones, here or in another place."""
        for name in (place or self.place).names():
            match = FILE_NAME.fullmatch(name)
            if match and int(match[1]) <= self._claim:
                yield name

    def _path(self, epoch: int, part: Part) -> str:
        """Name of the checkpoint that counts, where it is there."""
        return file_name(epoch, self._known.get(epoch, self._claim), part)

    def _own(self, epoch: int, part: Part) -> str:
        return file_name(epoch, self._claim, part)

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
