"""The eager step against torch's own optimiser."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.training.kernels import make_step
from fastrcaps_search.training.step import EagerStep

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def network() -> LeNet5:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LeNet5()


def test_lenet5_trains_as_with_torchs_adam(network: LeNet5) -> None:
    reference = copy.deepcopy(network).double()
    optimiser = torch.optim.Adam(reference.parameters(), foreach=False)
    step = make_step(network, kernel="eager-2-mkl")
    assert isinstance(step, EagerStep)
    generator = torch.Generator().manual_seed(1)
    for number, size in enumerate((4, 1, 16, 1)):
        images = torch.rand(size, 1, 28, 28, generator=generator)
        labels = torch.randint(10, (size,), generator=generator)
        optimiser.param_groups[0]["lr"] = 1e-3 * (number + 1)
        optimiser.zero_grad()
        reference.loss(images.double(), labels).total.backward()
        optimiser.step()
        step(images, labels, rate=1e-3 * (number + 1))
    state = step.optimiser_state()
    wanted = dict(reference.named_parameters())
    for name, parameter in network.named_parameters():
        assert (parameter - wanted[name]).norm() < 1e-4 * wanted[name].norm(), name
        average = optimiser.state[wanted[name]]["exp_avg"]
        got = state[f"exp_avg.{name}"]
        assert (got - average).norm() < 1e-4 * average.norm(), name
        assert got.is_contiguous()


@pytest.mark.parametrize("given", [torch.contiguous_format, torch.channels_last])
def test_gradients_of_another_memory_order_reach_the_right_weights(
    network: LeNet5, given: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = copy.deepcopy(network)
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([3, 5])
    EagerStep(network)(images, labels, rate=1e-2)
    plain = torch.autograd.grad

    def turned(loss: Tensor, parameters: list[Tensor]) -> list[Tensor]:
        found = plain(loss, parameters)
        return [g.contiguous(memory_format=given) if g.dim() == 4 else g for g in found]

    monkeypatch.setattr(torch.autograd, "grad", turned)
    step = EagerStep(other.to(memory_format=torch.channels_last))
    step(images, labels, rate=1e-2)
    for mine, theirs in zip(other.parameters(), network.parameters(), strict=True):
        assert (mine - theirs).norm() < 1e-5 * theirs.norm()
