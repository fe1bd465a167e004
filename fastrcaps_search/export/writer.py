"""Writes an exported network: a folder, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import CapsNet, build_network
from fastrcaps_search.disk import disk_errors, flush_folder, reason, replace_file, temporary_name
from fastrcaps_search.errors import UsageError
from fastrcaps_search.export.model_card import (
    FORMAT,
    ONNX_FILE,
    RECORD_FILE,
    WEIGHTS_FILE,
    ModelCard,
)
from fastrcaps_search.export.onnx_model import onnx_bytes
from fastrcaps_search.training.checkpoint import require_fit
from fastrcaps_search.training.tensor_file import tensor_bytes

Weights = Mapping[str, Tensor]
"""Weights by torch's names."""


def require_free(folder: Path) -> None:
    """Make sure that a network can be exported to a folder without touching anything.

    Raises:
        UsageError: Something is there that is not an empty folder.
    """
    try:
        if not os.path.lexists(folder):
            return
        found = "a file"
        if folder.is_dir():
            # It is replaced as a whole, under the feet of whoever stands in it.
            is_here = folder.samefile(Path.cwd())
            found = "the working directory" if is_here else "a folder with files in it"
            if not is_here and not any(folder.iterdir()):
                return
    except OSError as error:
        found = reason(error)
    raise UsageError(
        f"--out must be a new or an empty folder, got {folder}, which is {found}; name another"
    )


def torch_version() -> str:
    """Version of torch."""
    return str(torch.__version__)


def network_of(record: ModelCard, weights: Weights) -> CapsNet | LeNet5:
    """The network of a record with these weights, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: The weights are those of another network.
    """
    # The first weights, soon overwritten, must not use up the caller's random numbers.
    with torch.random.fork_rng(devices=[]):
        network = build_network(
            record.network,
            decoder=record.params.decoder,
            weight_sharing=record.params.weight_sharing,
            routing_gradient=record.routing_gradient,
        )
    require_fit(weights, network.state_dict())
    network.load_state_dict(weights)
    return network.eval()


def write_network(record: ModelCard, weights: Weights, *, folder: Path, onnx: bool) -> ModelCard:
    """Write the folder of an exported network.

    Args:
        record: What is known of it; ``files`` is filled in here.
        weights: Its weights by torch's names.
        folder: New or empty, as :func:`require_free` makes sure; folders above it are made.
        onnx: Whether to write ``network.onnx`` too.

    Returns:
        The record as it was written.

    Raises:
        UsageError: A package is missing.
        CheckpointError: The weights do not fit the record.
        DiskError: The folder cannot be written; nothing of it stays.
    """
    network = network_of(record, weights)
    extra = {ONNX_FILE: onnx_bytes(network)} if onnx else {}
    place = Path(os.path.realpath(folder))
    made = [parent for parent in place.parents if not parent.exists()]
    temporary = temporary_name(place)
    try:
        with disk_errors("the network", folder):
            written = _fill(temporary, record, weights, extra)
            temporary.replace(place)
            flush_folder(place.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise
    return written


def _fill(
    folder: Path,
    record: ModelCard,
    weights: Weights,
    extra: Mapping[str, bytes],
) -> ModelCard:
    origin = {"study": record.study, "trial": str(record.trial), "run": str(record.run)}
    contents = {WEIGHTS_FILE: tensor_bytes(weights, {"format": FORMAT, **origin}), **extra}
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    written = replace(record, files=files)
    text = json.dumps(written.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    for name, content in {**contents, RECORD_FILE: f"{text}\n".encode()}.items():
        replace_file(folder / name, content)
    return written
