"""Exports made of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.export.loader import LoadedNetwork, load_network
from fastrcaps_search.export.writer import write_network


def without_decoder(loaded: LoadedNetwork, folder: Path) -> LoadedNetwork:
    """A trained network as if it had been trained without its decoder, written and read back."""
    weights = {
        name: tensor
        for name, tensor in loaded.network.state_dict().items()
        if not name.startswith("decoder.")
    }
    record = replace(
        loaded.record,
        params=replace(loaded.record.params, decoder=Decoder.NONE),
        learned_parameters=sum(tensor.numel() for tensor in weights.values()),
    )
    write_network(record, weights, folder=folder, onnx=False)
    return load_network(folder)
