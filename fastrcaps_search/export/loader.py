"""An exported network, read back and ready to use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition import checks
from fastrcaps_search.disk import regular_bytes
from fastrcaps_search.errors import (
    CheckpointError,
    DefinitionError,
    ExportedNetworkError,
    UsageError,
)
from fastrcaps_search.export.images import as_batch
from fastrcaps_search.export.model_card import (
    CARD_FILE,
    FORMAT,
    ONNX_FILE,
    WEIGHTS_FILE,
    ModelCard,
)
from fastrcaps_search.training.run import trained_network
from fastrcaps_search.training.tensor_file import read_tensors
from fastrcaps_search.typed import path_of

EXPORTED = "a file of an exported network"
BATCH = 100
"""Images that are classified at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedNetwork:
    """A network that was exported, in evaluation mode.

    Images are whole numbers from 0 to 255 or floats from 0 to 1, 28x28 pixels, light on dark: one
    image [28, 28], or several [N, 28, 28] or [N, 1, 28, 28]; arrays, tensors or nested lists. All
    is multiplied in float32, whatever the precision of the training. Images that are unlike those
    that the network was trained on, dark on light or black, are classified with a warning.

    Attributes:
        network: The network, on the CPU unless it was moved.
        card: What is known of it.
    """

    network: TrainableNetwork
    card: ModelCard

    @property
    def facts(self) -> dict[str, Any]:
        """The content of ``network.json``."""
        return self.card.to_dict()

    @property
    def classes(self) -> tuple[str, ...]:
        """What each class stands for."""
        return self.card.classes

    def predict(self, images: object) -> int | NDArray[np.int64]:
        """The class of one image, or the classes [N] of several.

        Raises:
            UsageError: They are no such images.
        """
        found = self._each(images, self.network.classify).argmax(axis=-1)
        return int(found) if found.ndim == 0 else found

    def scores(self, images: object) -> NDArray[np.float32]:
        """Scores [10] of one image, or [N, 10]: capsule lengths, or LeNet5's logits.

        Raises:
            UsageError: They are no such images.
        """
        return self._each(images, self.network.classify)

    def reconstruct(self, images: object) -> NDArray[np.float32]:
        """What the decoder makes of the longest capsule: [28, 28] or [N, 28, 28] in [0, 1].

        Raises:
            UsageError: They are no such images, or the network has no decoder.
        """
        if not self.network.reconstructs:
            has_one = self.card.definition.architecture.has_capsules
            without = " without one" if has_one else ""
            raise UsageError(
                "the network must have a decoder to reconstruct images, "
                f"got {self.card.definition.network}{without}"
            )
        return self._each(
            images, lambda batch: self.network.reconstruct(batch).view(-1, *batch.shape[2:])
        )

    @torch.no_grad()
    def _each(self, images: object, function: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
        """What a function makes of the images, and of one image without the first dimension."""
        batch, is_single = as_batch(images, like=self.card.definition.data_set)
        self.network.eval()
        device = next(self.network.parameters()).device
        # None at all take the shape from one that is dropped.
        filled = batch if len(batch) else batch.new_zeros(1, *batch.shape[1:])
        found = torch.cat([function(part.to(device)) for part in filled.split(BATCH)])
        values = np.asarray(found[: len(batch)].cpu().numpy(), dtype=np.float32)
        return values[0] if is_single else values


def load_network(path: str | Path) -> LoadedNetwork:
    """Read a folder that ``export`` has written.

    Its files may be links, as in the caches and mounts of other programs; checksums guard them.

    Args:
        path: The folder.

    Raises:
        ExportedNetworkError: It holds no exported network, or one that is not as it was written.
    """
    folder = path_of(path)
    try:
        weights, files = read_tensors(folder / WEIGHTS_FILE, what=EXPORTED, links=True)
        card = ModelCard.from_json(_card(folder, files))
        return LoadedNetwork(trained_network(card.definition, card.parameters, weights), card)
    except (CheckpointError, ValueError) as error:
        # A decoder for a network that has none is a ValueError.
        raise ExportedNetworkError(f"{error}; export the network again") from error
    except DefinitionError as error:
        raise ExportedNetworkError(
            f"{folder / CARD_FILE}: {error}; export the network again"
        ) from error


def _card(folder: Path, files: Mapping[str, str]) -> bytes:
    """The content of the card, after each file beside the weights was found as it was written."""
    if files.get("format") != FORMAT or CARD_FILE not in files:
        raise CheckpointError(
            f"the format of {folder / WEIGHTS_FILE} must be {FORMAT}, got "
            f"{checks.shown(files.get('format'))}; the release that wrote it reads it"
        )
    contents = {}
    for name in {CARD_FILE, ONNX_FILE} & files.keys():
        contents[name] = regular_bytes(folder / name, what=EXPORTED, links=True)
        if hashlib.sha256(contents[name]).hexdigest() != files[name]:
            raise CheckpointError(
                f"{folder / name} must be as it was written, got another checksum"
            )
    return contents[CARD_FILE]
