"""The accuracy of an exported network, measured again as its training measured it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fastrcaps_search.data.data_set import CLASSES, DataSet
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import UsageError
from fastrcaps_search.export.loader import LoadedNetwork
from fastrcaps_search.export.model_card import ModelCard
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.training.device import prepare, run_setting
from fastrcaps_search.training.kernels import classifier_of
from fastrcaps_search.training.resources import granted_cores
from fastrcaps_search.training.splits import Split, classes


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """What a network made of a split.

    Attributes:
        card: The network's.
        data_set: The data set.
        split: Which split of it.
        images: uint8 [N, 28, 28].
        labels: int64 [N].
        predicted: Classes that the network found, int64 [N].
        setting: Where and how it was measured.
    """

    card: ModelCard
    data_set: DataSet
    split: EvaluateOn
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    setting: RunSetting

    @property
    def accuracy(self) -> float:
        """Fraction of the images that are classified right."""
        return int((self.predicted == self.labels).sum()) / len(self.labels)

    @property
    def stored(self) -> float | None:
        """Accuracy on this split as it was exported; ``None`` where none was."""
        card = self.card
        if self.data_set != card.definition.data_set:
            return None
        is_evaluation = self.split is card.definition.evaluate_on
        return card.accuracy if is_evaluation else card.test_accuracy

    @property
    def is_equal(self) -> bool | None:
        """Whether the accuracy is exactly the stored one; ``None`` where none was stored."""
        return None if self.stored is None else self.accuracy == self.stored

    @property
    def is_same_setting(self) -> bool:
        """Whether it was measured where and how the network was trained."""
        return self.setting == self.card.setting

    @property
    def classes(self) -> tuple[str, ...]:
        """What each label stands for."""
        return self.data_set.class_names

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Images by class [10, 10]: rows true, columns predicted."""
        places = self.labels * CLASSES + self.predicted
        counts = np.bincount(places, minlength=CLASSES * CLASSES)
        return counts.reshape(CLASSES, CLASSES).astype(np.int64)


def measure(
    loaded: LoadedNetwork,
    *,
    data_set: DataSet | None = None,
    split: EvaluateOn | None = None,
    folder: Path | None,
) -> Measurement:
    """Classify a split with the kernels, threads and batches that training evaluated with.

    Sets the threads of this process and how it rounds, as training does.

    Args:
        loaded: The network; it is moved to the kind of device that trained it where there is one.
        data_set: The data set; ``None`` for the one that it was trained on.
        split: Which split of it; ``None`` for the one that its study evaluates on, of another
            data set the test set.
        folder: Folder with image data, or ``None`` for the default one.

    Raises:
        UsageError: The network was trained on images of the split.
        DataError: Data missing, corrupt or short.
    """
    card, trained, definition = loaded.card, loaded.card.setting, loaded.card.definition
    data_set = data_set or definition.data_set
    if split is None:
        is_own = data_set == definition.data_set
        split = definition.evaluate_on if is_own else EvaluateOn.TEST
    _refuse_seen_images(definition, data_set, split)
    has_card = trained.device == "cuda" and torch.cuda.is_available()
    threads = max(1, min(trained.threads, granted_cores().amount))
    device = prepare("cuda" if has_card else "cpu", threads=threads)
    classifier, kernel = classifier_of(
        loaded.network, device, definition=definition, stored=trained.kernel
    )
    images, labels = _arrays(data_set, split, folder)
    on_device = Split(torch.as_tensor(images).to(device), torch.as_tensor(labels).to(device))
    return Measurement(
        card=card,
        data_set=data_set,
        split=split,
        images=images,
        labels=labels,
        predicted=classes(classifier, on_device).cpu().numpy(),
        setting=run_setting(
            device, precision=str(definition.precision), threads=threads, kernel=kernel
        ),
    )


def _refuse_seen_images(definition: StudyDefinition, data_set: DataSet, split: EvaluateOn) -> None:
    own = definition.data_set
    trained_on_all = definition.evaluate_on is EvaluateOn.TEST
    if data_set == own and split is EvaluateOn.VALIDATION and trained_on_all:
        raise UsageError(
            f"--split must be test, got {split}: {definition.name} evaluates on the test set, and "
            "its networks may have been trained on these very images"
        )
    # Not the other way round: it has no image of that set's validation split or test set.
    if data_set.drawn_from == own.name:
        raise UsageError(
            f"--data-set must not be {data_set} with its {split.images} for a network of {own}, "
            "which may have been trained on some of these images; leave it out"
        )


def _arrays(
    data_set: DataSet, split: EvaluateOn, folder: Path | None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images uint8 [N, 28, 28] and labels int64 [N], in the order of training's splits."""
    images = data_set.load(folder=folder)
    if split is EvaluateOn.TEST:
        return images.test_images, images.test_labels.astype(np.int64)
    held_out = data_set.validation_size
    return images.train_images[-held_out:], images.train_labels[-held_out:].astype(np.int64)
