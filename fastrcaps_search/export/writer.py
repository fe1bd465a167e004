"""Writes a trained network as a folder: whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from fastrcaps_search.disk import disk_errors, flush_folder, reason, replace_file, temporary_name
from fastrcaps_search.errors import UsageError
from fastrcaps_search.export.model_card import (
    CARD_FILE,
    FORMAT,
    ONNX_FILE,
    WEIGHTS_FILE,
    ModelCard,
)
from fastrcaps_search.export.onnx_model import onnx_bytes
from fastrcaps_search.export.trained import trained_network
from fastrcaps_search.training.tensor_file import tensor_bytes

Weights = Mapping[str, Tensor]
"""Weights by torch's names."""


def require_free(folder: Path) -> None:
    """Make sure that a network can be exported to a folder without touching anything.

    Raises:
        UsageError: Something is there that is not an empty folder.
    """
    try:
        # It is replaced as a whole, under the feet of whoever stands in it.
        if folder.is_dir() and folder.samefile(Path.cwd()):
            found = "the working directory"
        elif folder.is_dir() and any(folder.iterdir()):
            found = "a folder with files in it"
        elif folder.is_dir() or not os.path.lexists(folder):
            return
        else:
            found = "a file"
    except OSError as error:
        found = reason(error)
    raise UsageError(
        f"--out must be a new or an empty folder, got {folder}, which is {found}; name another"
    )


def write_network(card: ModelCard, weights: Weights, *, folder: Path, onnx: bool) -> None:
    """Write the folder of a trained network.

    The weights carry a checksum of themselves and of the files beside them.

    Args:
        card: What is known of it.
        weights: Its weights by torch's names.
        folder: New or empty, as :func:`require_free` makes sure; folders above it are made.
        onnx: Whether to write ``network.onnx`` too.

    Raises:
        UsageError: A package is missing.
        CheckpointError: The weights do not fit the card.
        DiskError: The folder cannot be written; nothing of it stays.
    """
    network = trained_network(card.definition, card.parameters, weights)
    text = json.dumps(card.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    contents = {CARD_FILE: f"{text}\n".encode()}
    if onnx:
        contents[ONNX_FILE] = onnx_bytes(network)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    contents[WEIGHTS_FILE] = tensor_bytes(weights, {"format": FORMAT, **sums})
    with disk_errors("the network", folder):
        _write_folder(Path(os.path.realpath(folder)), contents)


def _write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files under a temporary name of the folder, then rename it."""
    made = [parent for parent in folder.parents if not parent.exists()]
    temporary = temporary_name(folder)
    try:
        for name, content in contents.items():
            replace_file(temporary / name, content)
        temporary.replace(folder)
        flush_folder(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise
