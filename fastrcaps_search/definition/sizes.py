"""Sizes of the networks: known before one is built."""

from __future__ import annotations

from typing import NamedTuple

from fastrcaps_search.definition.choices import Decoder, Network


class Width(NamedTuple):
    """Size of a CapsNet: channels of the first convolution, types of primary capsules."""

    channels: int
    types: int


WIDTHS = {
    Network.CAPSNET: Width(channels=256, types=32),  # Sabour et al. 2017, section 4
    Network.CAPSNET_NARROW: Width(channels=64, types=8),
}

LENET5_PARAMETERS = 61_706
"""6 x (5 x 5 + 1), 16 x (6 x 5 x 5 + 1), and layers of 400 to 120, 84 and 10, with biases."""
DECODER_INPUTS = {Decoder.FULL: 10 * 16, Decoder.REDUCED: 16}
"""Numbers that a decoder reads; without a decoder there is no such entry."""


def parameter_count(
    network: Network, *, decoder: Decoder | None, weight_sharing: bool | None
) -> int:
    """Number of parameters that training changes, as ``capsnet.network`` counts them.

    Args:
        network: Which one.
        decoder: What the decoder reads.
        weight_sharing: Whether class-capsule weights are shared by the 6 x 6 positions of a type.
    """
    if network is Network.LENET5:
        return LENET5_PARAMETERS
    channels, types = WIDTHS[network]
    first = channels * (9 * 9 + 1)
    primary = types * 8 * (channels * 9 * 9 + 1)
    matrices = types if weight_sharing else types * 6 * 6
    classes = matrices * 10 * 8 * 16 + 10 * 16
    inputs = None if decoder is None else DECODER_INPUTS.get(decoder)
    layers = () if inputs is None else ((inputs, 512), (512, 1024), (1024, 28 * 28))
    return first + primary + classes + sum((read + 1) * write for read, write in layers)
