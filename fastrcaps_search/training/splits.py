"""Images on the device: training, evaluation and test splits, drawn, shifted, classified there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fastrcaps_search.capsnet.trainable import TrainedNetwork
from fastrcaps_search.data.data_set import IMAGE_SIDE as SIDE
from fastrcaps_search.data.data_set import Images
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.seeds import derive_seed
from fastrcaps_search.training.device import prepare

LARGEST_SHIFT = 2
PADDED = SIDE + 2 * LARGEST_SHIFT
BATCH = {"cpu": 100, "cuda": 500}
"""Images that are classified at a time, by kind of device."""


@dataclass(frozen=True, slots=True)
class Split:
    """Images of one split.

    Attributes:
        images: uint8 [N, 28, 28].
        labels: int64 [N].
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Successive batches in order: float32 [B, 1, 28, 28] in [0, 1] and int64 [B]."""
        for start in range(0, len(self), size):
            images = self.images[start : start + size, None].float().div_(255.0)
            yield images, self.labels[start : start + size]


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits of a study on one device.

    Attributes:
        training: Seen by the optimiser.
        evaluation: Gives the accuracy after each epoch.
        test: Read once for the front of a search; the same as ``evaluation`` in a study that
            follows the paper's protocol.
    """

    training: Split
    evaluation: Split
    test: Split


def make_splits(definition: StudyDefinition, images: Images, *, device: torch.device) -> Splits:
    """Split the data set as the study says and move it to the device."""

    def split(pictures: object, labels: object) -> Split:
        return Split(
            torch.as_tensor(pictures, dtype=torch.uint8).to(device),
            torch.as_tensor(labels).to(device=device, dtype=torch.int64),
        )

    test = split(images.test_images, images.test_labels)
    used = definition.split_size
    training = split(images.train_images[:used], images.train_labels[:used])
    if definition.evaluate_on is EvaluateOn.TEST:
        return Splits(training=training, evaluation=test, test=test)
    held_out = definition.data_set.validation_size
    evaluation = split(images.train_images[-held_out:], images.train_labels[-held_out:])
    return Splits(training=training, evaluation=evaluation, test=test)


def stage(
    definition: StudyDefinition, *, device: str, threads: int, folder: Path | None
) -> Splits:
    """The study's splits on the device.

    Args:
        definition: The study.
        device: ``cpu``, ``cuda`` or ``cuda:1``.
        threads: Threads of torch in this process.
        folder: Folder with image data, or the default one.

    Raises:
        DataError: Data missing, corrupt or short.
    """
    place = prepare(device, threads=threads)
    images = definition.data_set.load(folder=folder)
    return make_splits(definition, images, device=place)


def hits(
    trained: TrainedNetwork, split: Split, *, look: Callable[[], object] = lambda: None
) -> Tensor:
    """Which images of a split the network, as it is now, classifies right: bool [N].

    Args:
        trained: The network.
        split: The split, on its device.
        look: Called before each batch; what it raises ends the classification.
    """
    return classes(trained, split, look=look) == split.labels


def classes(
    trained: TrainedNetwork, split: Split, *, look: Callable[[], object] = lambda: None
) -> Tensor:
    """Classes int64 [N] of the images of a split; arguments as for :func:`hits`."""

    def images() -> Iterator[Tensor]:
        for batch, _ in split.batches(BATCH[split.labels.device.type]):
            look()
            yield batch

    return trained.classes(images())


class EpochImages:
    """The batches of training epochs: permuted, gathered, shifted, all on the device.

    The order and the shifts of an epoch depend on the run's seed and the epoch alone, not on the
    batch size nor on earlier epochs: trials with equal seeds see the same images in the same
    order, and a resumed run needs no random state but these two numbers.

    Args:
        split: The training split.
        seed: Seed of the run.
        shifts: Whether to shift each image by up to 2 pixels each way, zero-padded.

    Attributes:
        device: Where the split is and the batches are made.
    """

    def __init__(self, split: Split, *, seed: int, shifts: bool) -> None:
        self.device = device = split.labels.device
        self._seed = seed
        self._shifts = shifts
        self._labels = split.labels
        padding = [LARGEST_SHIFT] * 4
        self._padded = torch.nn.functional.pad(split.images, padding).reshape(-1)
        rows = torch.arange(SIDE, device=device)
        self._window = (rows[:, None] * PADDED + rows[None, :]).reshape(1, -1)

    def epoch(
        self, epoch: int, sizes: Sequence[int], *, first: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of ``epoch`` (from 1) with these sizes, without the ``first`` of them.

        Yields:
            float32 [B, 1, 28, 28] in [0, 1] and int64 labels [B].
        """
        order, corners = self.draw(epoch)
        start = sum(sizes[:first])
        for size in sizes[first:]:
            end = start + size
            yield self.batch(order[start:end], corners[start:end])
            start = end

    def batch(self, chosen: Tensor, corners: Tensor) -> tuple[Tensor, Tensor]:
        """Images float32 [B, 1, 28, 28] and labels int64 [B] of places in what ``draw`` gave.

        Args:
            chosen: int64 [B], numbers of images.
            corners: int64 [B], where their windows begin.
        """
        images = self._padded[corners[:, None] + self._window].float().div_(255.0)
        return images.view(-1, 1, SIDE, SIDE), self._labels[chosen]

    def draw(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Permutation [N] of the split, and where the shifted window of each image begins [N]."""
        count = self._labels.shape[0]
        device = self._labels.device
        generator = torch.Generator(device=device).manual_seed(derive_seed(self._seed, epoch))
        order = torch.randperm(count, generator=generator, device=device)
        if self._shifts:
            high = 2 * LARGEST_SHIFT + 1
            moved = torch.randint(high, (count, 2), generator=generator, device=device)
        else:
            moved = torch.full((count, 2), LARGEST_SHIFT, device=device)
        corners = order * PADDED**2 + moved[:, 0] * PADDED + moved[:, 1]
        return order, corners
