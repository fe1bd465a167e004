"""Writes an exported network: a folder, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.errors import DiskError, UsageError
from fastrcaps_search.training.checkpoint import require_fit
from fastrcaps_search.training.network_record import (
    FORMAT,
    ONNX_FILE,
    RECORD_FILE,
    WEIGHTS_FILE,
    NetworkRecord,
)
from fastrcaps_search.training.onnx_file import onnx_bytes
from fastrcaps_search.training.tensor_file import flush_folder, reason, write_tensors

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


def network_of(record: NetworkRecord, weights: Weights) -> TrainableNetwork:
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


def write_network(
    record: NetworkRecord, weights: Weights, *, folder: Path, onnx: bool
) -> NetworkRecord:
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
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        temporary.mkdir(parents=True)
        written = _fill(temporary, record, weights, extra)
        temporary.replace(place)
        flush_folder(place.parent)
    except BaseException as error:
        _undo(temporary, made)
        if isinstance(error, OSError):
            raise _refusal(folder, error) from error
        raise
    return written


def _fill(
    folder: Path,
    record: NetworkRecord,
    weights: Weights,
    extra: Mapping[str, bytes],
) -> NetworkRecord:
    path = folder / WEIGHTS_FILE
    origin = {"study": record.study, "trial": str(record.trial), "run": str(record.run)}
    write_tensors(path, weights, {"format": FORMAT, **origin})
    files = {WEIGHTS_FILE: hashlib.sha256(path.read_bytes()).hexdigest()}
    for name, content in extra.items():
        _write(folder / name, content)
        files[name] = hashlib.sha256(content).hexdigest()
    written = replace(record, files=files)
    text = json.dumps(written.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    _write(folder / RECORD_FILE, f"{text}\n".encode())
    flush_folder(folder)
    return written


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _undo(temporary: Path, made: list[Path]) -> None:
    """Remove what was begun, and the folders that were made for it."""
    shutil.rmtree(temporary, ignore_errors=True)
    for parent in made:
        with suppress(OSError):
            parent.rmdir()


def _refusal(folder: Path, error: OSError) -> DiskError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return DiskError(
        f"the network must be writable to {folder}, got: {reason(error)}; "
        f"{'free space there or ' if full else ''}name another folder"
    )
