"""The accuracy of an exported network, measured again as its training measured it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fastrcaps_search.definition import data_facts
from fastrcaps_search.definition.choices import DataSet, EvaluateOn
from fastrcaps_search.errors import UsageError
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.training.data_sets import Images, load_images
from fastrcaps_search.training.device import prepare, run_setting
from fastrcaps_search.training.evaluate import classes
from fastrcaps_search.training.exported import LoadedNetwork
from fastrcaps_search.training.kernels import choose_kernel
from fastrcaps_search.training.network_record import NetworkRecord
from fastrcaps_search.training.precision import use_precision
from fastrcaps_search.training.resources import cores
from fastrcaps_search.training.splits import Split
from fastrcaps_search.training.trainer import make_step


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """What a network made of a split.

    Attributes:
        data_set: The data set.
        split: Which split of it.
        images: uint8 [N, 28, 28].
        labels: int64 [N].
        predicted: Classes that the network found, int64 [N].
        stored: Accuracy on this split as it was exported; ``None`` where none was.
        setting: Where and how it was measured.
        is_same_setting: Whether that is where and how the network was trained.
    """

    data_set: DataSet
    split: EvaluateOn
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    stored: float | None
    setting: RunSetting
    is_same_setting: bool

    @property
    def accuracy(self) -> float:
        """Fraction of the images that are classified right."""
        return int((self.predicted == self.labels).sum()) / len(self.labels)

    @property
    def is_equal(self) -> bool | None:
        """Whether the accuracy is exactly the stored one; ``None`` where none was stored."""
        return None if self.stored is None else self.accuracy == self.stored

    @property
    def classes(self) -> tuple[str, ...]:
        """What each label stands for."""
        return data_facts.CLASS_NAMES[self.data_set]

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Images by class [10, 10]: rows true, columns predicted."""
        size = data_facts.CLASSES
        places = self.labels * size + self.predicted
        return np.bincount(places, minlength=size * size).reshape(size, size).astype(np.int64)


def usual_split(record: NetworkRecord, data_set: DataSet) -> EvaluateOn:
    """The split to measure unless another is named: the one whose accuracy is stored."""
    return record.evaluate_on if data_set is record.data_set else EvaluateOn.TEST


def measure(
    loaded: LoadedNetwork, *, data_set: DataSet, split: EvaluateOn, folder: Path | None
) -> Measurement:
    """Classify a split with the kernels, threads and batches that training evaluated with.

    Sets the threads of this process and how it rounds, as training does.

    Args:
        loaded: The network; it is moved to the kind of device that trained it where there is one.
        data_set: The data set.
        split: Which split of it.
        folder: Folder with image data, or ``None`` for the default one.

    Raises:
        UsageError: The network was trained on the split.
        DataError: Data missing, corrupt or short.
    """
    record = loaded.record
    _refuse_seen_images(record, data_set, split)
    has_card = record.setting.device == "cuda" and torch.cuda.is_available()
    threads = max(1, min(record.setting.threads, cores()))
    device = prepare("cuda" if has_card else "cpu", threads=threads)
    kernel = choose_kernel(
        device,
        network=record.network,
        precision=record.precision,
        stored=record.setting.kernel,
    )
    setting = run_setting(device, precision=str(record.precision), threads=threads, kernel=kernel)
    if has_card:
        # As after each epoch of training; the routing of the evaluation is never rounded.
        use_precision(loaded.network, record.precision, plain_routing=True)
    images, labels = _arrays(load_images(data_set, folder=folder), split)
    on_device = Split(
        torch.as_tensor(images).to(device), torch.as_tensor(labels).to(device=device)
    )
    predicted = classes(make_step(loaded.network.to(device), kernel=kernel), on_device)
    return Measurement(
        data_set=data_set,
        split=split,
        images=images,
        labels=labels,
        predicted=predicted.cpu().numpy(),
        stored=record.stored_accuracy(data_set, split),
        setting=setting,
        is_same_setting=setting == record.setting,
    )


def _refuse_seen_images(record: NetworkRecord, data_set: DataSet, split: EvaluateOn) -> None:
    trained_on_all = record.evaluate_on is EvaluateOn.TEST
    if data_set is record.data_set and split is EvaluateOn.VALIDATION and trained_on_all:
        raise UsageError(
            f"--split must be test, got {split}: {record.study} evaluates on the test set, and "
            "its networks may have been trained on these very images"
        )
    if record.data_set is DataSet.MNIST and data_set is DataSet.MNIST_MINI:
        raise UsageError(
            f"--data-set must not be {data_set} for a network of {record.data_set}, whose "
            "training images it is made of; leave it out"
        )


def _arrays(images: Images, split: EvaluateOn) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images uint8 [N, 28, 28] and labels int64 [N], in the order of training's splits."""
    if split is EvaluateOn.TEST:
        return images.test_images, images.test_labels.astype(np.int64)
    held_out = data_facts.validation_size(images.data_set)
    return images.train_images[-held_out:], images.train_labels[-held_out:].astype(np.int64)
