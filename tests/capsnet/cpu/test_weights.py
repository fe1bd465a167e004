"""Layouts of weights and of Adam's averages."""

from __future__ import annotations

import copy

import pytest
import torch

from fastrcaps_search.capsnet.cpu.weights import (
    ALIGNMENT,
    PHASES,
    PRIMARY,
    TAPS,
    Buffers,
    Weights,
    pack_taps,
    unpack_taps,
)
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.networks import Width


@pytest.fixture
def built() -> CapsNet:
    return CapsNet(Width(channels=12, types=2), decoder=Decoder.REDUCED, weight_sharing=True)


def test_taps_are_grouped_by_parity_of_column_then_row() -> None:
    assert sorted(TAPS) == list(range(81))
    groups = [(tap // 9 % 2, tap % 9 % 2) for tap in TAPS]
    assert groups == [PHASES[0]] * 25 + [PHASES[1]] * 20 + [PHASES[2]] * 20 + [PHASES[3]] * 16
    assert PHASES == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_packed_taps_hold_each_number_once() -> None:
    weight = torch.arange(5.0 * 3 * 81).view(5, 3, 9, 9)
    taps = pack_taps(weight)
    assert taps.shape == (81, 3, 5)
    assert taps.is_contiguous()
    for place, tap in enumerate(TAPS):
        assert torch.equal(taps[place], weight[:, :, tap // 9, tap % 9].t())
    assert torch.equal(unpack_taps(taps), weight)


def test_publish_gives_back_what_was_read(built: CapsNet) -> None:
    other = CapsNet(Width(channels=12, types=2), decoder=Decoder.REDUCED, weight_sharing=True)
    weights = Weights(built)
    with torch.no_grad():
        for mine, theirs in zip(built.parameters(), other.parameters(), strict=True):
            mine.copy_(theirs)
    weights.copy_from_module()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.zero_()
    weights.copy_to_module()
    for mine, theirs in zip(built.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.is_contiguous()


def test_every_parameter_begins_on_a_cache_line(built: CapsNet) -> None:
    weights = Weights(built)
    names = [name for name, _ in built.named_parameters()]
    assert all(weights.start(name) % ALIGNMENT == 0 for name in names)
    assert weights[PRIMARY].data_ptr() == weights.values[weights.start(PRIMARY) :].data_ptr()


def test_gradients_of_neighbours_lie_as_their_parameters_do(built: CapsNet) -> None:
    buffers = Buffers(torch.float32)
    weights = Weights(built)
    names = "convolution.weight", "convolution.bias"
    (weight, bias), update = weights.gradients(buffers, "gradients", *names)
    assert weight.shape == (12, 1, 9, 9)
    assert bias.shape == (12,)
    # 972 and a gap of 4, 12 and a gap of 4.
    assert bias.storage_offset() == weights.start("convolution.bias") == 976
    assert weight.untyped_storage().nbytes() == 4 * 992
    before = weights.values.clone()
    weight.fill_(1.0)
    bias.fill_(-1.0)
    weights.begin_step(0.5)
    update()
    # The first step of Adam has the length of the rate.
    moved = weights.values - before
    assert torch.allclose(moved[:972], torch.tensor(-0.5))
    assert torch.allclose(moved[976:988], torch.tensor(0.5))
    assert not moved[972:976].any()
    assert not moved[988:].any()


def test_the_optimisers_state_goes_round(built: CapsNet) -> None:
    weights = Weights(built)
    generator = torch.Generator().manual_seed(0)
    for flat in (weights.exp_avg, weights.exp_avg_sq):
        flat.copy_(torch.rand(flat.shape, generator=generator))
    weights.step.fill_(7)
    state = weights.optimiser_state()
    assert all(
        state[f"exp_avg.{name}"].shape == parameter.shape
        for name, parameter in built.named_parameters()
    )
    assert len(state) == 3 * len(list(built.parameters()))
    fresh = Weights(copy.deepcopy(built))
    fresh.load_optimiser(state)
    again = fresh.optimiser_state()
    assert all(torch.equal(again[key], value) for key, value in state.items())
    assert fresh.step == 7
