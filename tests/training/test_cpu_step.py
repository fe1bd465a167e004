"""The processor's step as the training loop uses it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fastrcaps_search.capsnet.cpu import step as module
from fastrcaps_search.capsnet.cpu.matmul import MatmulBackend
from fastrcaps_search.capsnet.cpu.step import CpuStep
from fastrcaps_search.capsnet.network import CapsNet
from fastrcaps_search.capsnet.trainable import TrainingStep
from fastrcaps_search.definition.choices import Decoder
from fastrcaps_search.definition.networks import Width
from fastrcaps_search.training.step import EagerStep

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = (3, 1, 16, 5)


@pytest.fixture
def network() -> CapsNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CapsNet(Width(channels=16, types=2), decoder=Decoder.FULL, weight_sharing=False)


def batch(size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(size)
    images = torch.rand(size, 1, 28, 28, generator=generator)
    return images, torch.randint(10, (size,), generator=generator)


def train(step: TrainingStep, sizes: tuple[int, ...] = SIZES) -> list[float]:
    for size in sizes:
        step(*batch(size), rate=1e-3)
    step.copy_to_module()
    return step.take_sums()


def weights(step: TrainingStep) -> dict[str, Tensor]:
    step.copy_to_module()
    return {name: tensor.clone() for name, tensor in step.network.state_dict().items()}


def equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    )


def written_out(network: CapsNet) -> CpuStep:
    return CpuStep(network, backend=MatmulBackend.MKL)


def test_it_trains_as_autograd_does(network: CapsNet) -> None:
    reference = EagerStep(copy.deepcopy(network))
    step = written_out(network)
    assert train(step) == pytest.approx(train(reference), rel=1e-5)
    assert step.take_sums() == [0.0] * 4
    wanted = weights(reference)
    for name, tensor in weights(step).items():
        assert (tensor - wanted[name]).norm() < 1e-4 * wanted[name].norm(), name


@pytest.mark.parametrize(("first", "second"), [(written_out, EagerStep), (EagerStep, written_out)])
def test_either_step_goes_on_from_the_others_state(
    network: CapsNet,
    first: Callable[[CapsNet], TrainingStep],
    second: Callable[[CapsNet], TrainingStep],
) -> None:
    one = first(copy.deepcopy(network))
    train(one)
    state = one.optimiser_state()
    other = second(network)
    other.load(weights(one), state)
    assert equal(other.optimiser_state(), state)
    assert equal(weights(other), weights(one))
    assert train(other) == pytest.approx(train(one), rel=1e-5)


@pytest.mark.parametrize("make", [written_out, EagerStep])
def test_a_decoder_of_no_weight_is_left_as_it_is(
    network: CapsNet, make: Callable[[CapsNet], TrainingStep]
) -> None:
    network.reconstruction_weight = 0.0
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    step = make(network)
    loss, classification, reconstruction, _ = train(step)
    assert (loss, reconstruction) == (classification, 0.0)
    for name, tensor in weights(step).items():
        assert torch.isfinite(tensor).all()
        assert torch.equal(tensor, before[name]) == name.startswith("decoder"), name


def test_without_a_decoder_it_trains_as_autograd_does() -> None:
    torch.manual_seed(0)
    bare = CapsNet(Width(channels=16, types=2), decoder=Decoder.NONE, weight_sharing=False)
    reference, step = EagerStep(copy.deepcopy(bare)), written_out(bare)
    sums = train(step)
    assert sums == pytest.approx(train(reference), rel=1e-5)
    assert (sums[0], sums[2]) == (sums[1], 0.0)
    wanted = weights(reference)
    for name, tensor in weights(step).items():
        assert (tensor - wanted[name]).norm() < 1e-4 * wanted[name].norm(), name


def test_going_on_from_a_state_gives_the_same_bits(network: CapsNet) -> None:
    whole = written_out(copy.deepcopy(network))
    train(whole, SIZES)
    state, stored = whole.optimiser_state(), weights(whole)
    train(whole, SIZES)
    resumed = written_out(network)
    resumed.load(stored, state)
    # Another order of batch sizes before, and a warm-up, change nothing.
    for size in (16, 2):
        resumed.warm_up(size)
    train(resumed, SIZES)
    assert equal(weights(resumed), weights(whole))
    assert equal(resumed.optimiser_state(), whole.optimiser_state())


def test_a_warm_up_leaves_no_trace(network: CapsNet) -> None:
    step = written_out(network)
    before, state = weights(step), step.optimiser_state()
    step.warm_up(4)
    assert equal(weights(step), before)
    assert equal(step.optimiser_state(), state)
    assert step.take_sums() == [0.0] * 4


def test_buffers_of_the_last_two_sizes_are_kept(network: CapsNet) -> None:
    step = written_out(network)
    train(step, (4, 3, 4, 2, 4))
    assert list(step._programs) == [2, 4]
    assert module.MOST_SIZES == 2


def test_the_networks_own_parameters_change_when_published(network: CapsNet) -> None:
    step = written_out(network)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    step(*batch(2), rate=1e-3)
    assert equal(dict(network.state_dict()), before)
    step.copy_to_module()
    after = network.state_dict()
    assert not any(torch.equal(after[name], tensor) for name, tensor in before.items())
