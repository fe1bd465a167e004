"""Exports made of others, and exports that were tampered with."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.export.loader import LoadedNetwork, load_network
from fastrcaps_search.export.writer import write_network
from fastrcaps_search.training.tensor_file import read_tensors, tensor_bytes


def without_decoder(loaded: LoadedNetwork, folder: Path) -> LoadedNetwork:
    """A trained network as if it had been trained without its decoder, written and read back."""
    weights = {
        name: tensor
        for name, tensor in loaded.network.state_dict().items()
        if not name.startswith("decoder.")
    }
    card = replace(
        loaded.card,
        parameters=replace(loaded.card.parameters, decoder=Decoder.NONE),
        learned_parameters=sum(tensor.numel() for tensor in weights.values()),
    )
    write_network(card, weights, folder=folder)
    return load_network(folder)


def sign(folder: Path) -> None:
    """Make the weights' checksums those of what the folder holds now."""
    path = folder / "weights.safetensors"
    weights, files = read_tensors(path)
    for name in files.keys() - {"format"}:
        files[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_bytes(tensor_bytes(weights, files))
