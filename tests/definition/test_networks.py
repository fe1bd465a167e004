"""Sizes of networks that are computed, against those that are built."""

from __future__ import annotations

import itertools

import pytest

from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.capsnet.network import learned_parameters as counted
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.networks import NETWORKS


@pytest.mark.parametrize(
    ("network", "decoder", "sharing"),
    [
        *itertools.product(("capsnet", "capsnet-narrow"), tuple(Decoder), (False, True)),
        ("lenet5", None, None),
    ],
)
def test_computed_sizes_are_those_of_the_networks(
    network: str, decoder: Decoder | None, sharing: bool | None
) -> None:
    built = build_network(network, decoder=decoder, weight_sharing=sharing)
    expected = counted(built)
    assert NETWORKS[network].parameters(decoder, sharing) == expected
