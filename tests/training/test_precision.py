"""Precision as settings: what is rounded, what is not, and only there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fastrcaps_search.capsnet.layers import Convolution
from fastrcaps_search.capsnet.lenet import LeNet5
from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.capsnet.trainable import TrainableNetwork
from fastrcaps_search.definition.choices import Decoder, Precision
from fastrcaps_search.training.step import rounding, use_precision


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """The settings of the process are put back after each test."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark
    yield
    cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark = before


def narrow() -> TrainableNetwork:
    torch.manual_seed(0)
    return build_network("capsnet-narrow", decoder=Decoder.REDUCED, weight_sharing=True).train()


@pytest.mark.parametrize(
    ("precision", "plain_routing", "convolutions", "products"),
    [
        (Precision.FP32, False, False, False),
        (Precision.TF32, False, True, True),
        (Precision.TF32, True, True, False),
        (Precision.BF16, False, False, True),
        (Precision.BF16, True, False, False),
    ],
)
def test_factors_are_rounded_where_the_precision_says_so(
    precision: Precision, plain_routing: bool, convolutions: bool, products: bool
) -> None:
    network = narrow()
    use_precision(network, precision, plain_routing=plain_routing)
    assert torch.backends.cudnn.allow_tf32 is convolutions
    assert torch.backends.cuda.matmul.allow_tf32 is products
    rounded = [m.rounded for m in network.modules() if isinstance(m, Convolution)]
    assert rounded == [precision is Precision.BF16] * 2


def test_bfloat16_is_for_training_alone_and_leaves_weights_and_gradients_in_float32() -> None:
    network = narrow()
    images, labels = torch.rand(4, 1, 28, 28), torch.tensor([3, 1, 4, 1])
    exact = network.loss(images, labels).total
    exact.backward()
    expected = [p.grad.clone() for p in network.parameters() if p.grad is not None]
    outside = network.eval().classify(images)
    network.train().zero_grad()
    use_precision(network, Precision.BF16)
    rounded = network.loss(images, labels).total
    rounded.backward()
    assert rounded.dtype is torch.float32
    assert rounded.item() != exact.item()
    assert rounded.item() == pytest.approx(exact.item(), rel=1e-3)
    for p, before in zip(network.parameters(), expected, strict=True):
        assert p.grad is not None
        assert p.grad.dtype is torch.float32
        assert (p.grad - before).norm() <= 0.05 * before.norm()
    assert torch.equal(network.eval().classify(images), outside)


def test_a_float64_network_stays_in_float64() -> None:
    network = narrow().double()
    capsules = network.classify(torch.rand(1, 1, 28, 28, dtype=torch.float64))
    assert capsules.dtype is torch.float64


@pytest.mark.parametrize("precision", list(Precision))
def test_lenet_is_rounded_by_torch(precision: Precision) -> None:
    network = LeNet5()
    with rounding(network, precision):
        logits = network(torch.zeros(2, 1, 28, 28))
    assert logits.dtype is (torch.bfloat16 if precision is Precision.BF16 else torch.float32)
    with rounding(narrow(), precision):
        assert not torch.is_autocast_enabled("cpu")
