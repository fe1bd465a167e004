"""An exported network, read back and ready to use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition import checks
from fastrcaps_search.errors import CheckpointError, ExportedNetworkError, UsageError
from fastrcaps_search.training.export import network_of
from fastrcaps_search.training.network_record import (
    ONNX_FILE,
    RECORD_FILE,
    WEIGHTS_FILE,
    NetworkRecord,
)
from fastrcaps_search.training.pictures import as_batch
from fastrcaps_search.training.tensor_file import parsed_tensors, regular_bytes

MOST_RECORD_BYTES = 1024 * 1024
BATCH = 100
"""Images that are classified at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedNetwork:
    """A network that was exported, in evaluation mode.

    Images are whole numbers from 0 to 255 or floats from 0 to 1, 28x28 pixels, light on dark: one
    image [28, 28], or several [N, 28, 28] or [N, 1, 28, 28]; arrays, tensors or nested lists. All
    is multiplied in float32, whatever the precision of the training.

    Attributes:
        network: The network, on the CPU unless it was moved.
        record: What is known of it.
    """

    network: TrainableNetwork
    record: NetworkRecord

    @property
    def facts(self) -> dict[str, Any]:
        """The content of ``network.json``."""
        return self.record.to_dict()

    @property
    def classes(self) -> tuple[str, ...]:
        """What each class stands for."""
        return self.record.classes

    def predict(self, images: object) -> int | NDArray[np.int64]:
        """The class of one image, or the classes [N] of several.

        Raises:
            UsageError: They are no such images.
        """
        scores = self.scores(images)
        found = scores.argmax(axis=-1)
        return int(found) if scores.ndim == 1 else found

    def scores(self, images: object) -> NDArray[np.float32]:
        """Scores [10] of one image, or [N, 10]: capsule lengths, or LeNet5's logits.

        Raises:
            UsageError: They are no such images.
        """
        batch, is_single = as_batch(images)
        found = [self._scores(part) for part in batch.split(BATCH) if len(part)]
        scores = np.concatenate(found) if found else np.zeros((0, len(self.classes)), np.float32)
        return scores[0] if is_single else scores

    def reconstruct(self, images: object) -> NDArray[np.float32]:
        """What the decoder makes of the longest capsule: [28, 28] or [N, 28, 28] in [0, 1].

        Raises:
            UsageError: They are no such images, or the network has no decoder.
        """
        if not self.network.reconstructs:
            without = " without one" if self.record.architecture.has_capsules else ""
            raise UsageError(
                "the network must have a decoder to reconstruct images, "
                f"got {self.record.network}{without}"
            )
        batch, is_single = as_batch(images)
        found = [self._reconstructions(part) for part in batch.split(BATCH)]
        pictures = np.concatenate(found)
        return pictures[0] if is_single else pictures

    @torch.no_grad()
    def _scores(self, images: Tensor) -> NDArray[np.float32]:
        scores = self.network.eval().classify(images.to(self._device()))
        return np.asarray(scores.cpu().numpy(), dtype=np.float32)

    @torch.no_grad()
    def _reconstructions(self, images: Tensor) -> NDArray[np.float32]:
        if not len(images):
            return np.zeros(images.shape[0:1] + images.shape[2:], np.float32)
        pictures = self.network.eval().reconstruct(images.to(self._device()))
        return np.asarray(pictures.view(-1, *images.shape[2:]).cpu().numpy(), dtype=np.float32)

    def _device(self) -> torch.device:
        return next(self.network.parameters()).device


def load_network(path: str | Path) -> LoadedNetwork:
    """Read a folder that ``export`` has written.

    Args:
        path: The folder.

    Raises:
        ExportedNetworkError: It holds no exported network, or one that is not as it was written.
    """
    folder = Path(path)
    try:
        what = f"the {RECORD_FILE} of an exported network"
        content = regular_bytes(folder / RECORD_FILE, what=what, most=MOST_RECORD_BYTES)
        record = NetworkRecord.from_json(content)
        return LoadedNetwork(network_of(record, _weights(folder, record.files)), record)
    except (CheckpointError, ValueError) as error:
        # A decoder for a network that has none is a ValueError.
        raise ExportedNetworkError(f"{error}; export the network again") from error
    except ExportedNetworkError as error:
        raise ExportedNetworkError(f"{folder / RECORD_FILE}: {error}") from error


def _weights(folder: Path, files: Mapping[str, str]) -> dict[str, Tensor]:
    """The weights, after every file has been found to be as it was written."""
    if not {WEIGHTS_FILE} <= set(files) <= {WEIGHTS_FILE, ONNX_FILE}:
        raise ExportedNetworkError(
            f"files must name {WEIGHTS_FILE} and perhaps {ONNX_FILE}, "
            f"got {checks.shown(list(files))}"
        )
    contents = {}
    for name, expected in files.items():
        path = folder / name
        contents[name] = regular_bytes(path, what="the file of an exported network")
        if hashlib.sha256(contents[name]).hexdigest() != expected:
            raise CheckpointError(f"{path} must be as it was exported, got another checksum")
    return parsed_tensors(folder / WEIGHTS_FILE, contents[WEIGHTS_FILE])[0]
