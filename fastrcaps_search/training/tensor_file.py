"""A file of tensors with a checksum, which is checked when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fastrcaps_search.disk import regular_bytes
from fastrcaps_search.errors import CheckpointError

CHECKSUM = "sha256"
# What safetensors, torch and json raise on headers and tensors that make no sense.
_UNREADABLE = (
    SafetensorError,
    AssertionError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a file.

    The metadata gets a checksum beside it (safetensors has none): SHA-256 of the metadata, and of
    name, type, shape and bytes of each tensor, in the order of names.
    """
    return save(dict(tensors), {**metadata, CHECKSUM: _checksum(tensors, metadata)})


def read_tensors(
    path: Path, *, what: str = "a checkpoint", links: bool = False
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file; what does not belong to it never runs nor waits.

    Args:
        path: The file.
        what: What it must be, for the message.
        links: Whether links are followed.

    Raises:
        CheckpointError: No regular file, none of ours, or not as it was written.
    """
    return tensors_of(regular_bytes(path, what=what, links=links), path, what=what)


def tensors_of(
    content: bytes, path: str | Path, *, what: str = "a checkpoint"
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file that was read from ``path``.

    Raises:
        CheckpointError: It is none of ours, or not as it was written.
    """
    try:
        tensors = load(content)
        # Safetensors, which gives the metadata of named files alone, has found the header sound.
        end = 8 + int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8:end]).get("__metadata__") or {}
    except _UNREADABLE as error:
        said = " ".join(str(error).split())
        raise CheckpointError(f"{path} must be {what}, got: {said}") from error
    if metadata.pop(CHECKSUM, None) != _checksum(tensors, metadata):
        raise CheckpointError(f"{path} must be as it was written, got another checksum")
    return tensors, metadata


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
