"""The Fourier form of the convolutions against torch's own, values and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fastrcaps_search.capsnet.convolution import Kernel, choose_kernel
from fastrcaps_search.capsnet.fourier import features_by_position, fourier_convolution
from fastrcaps_search.capsnet.layers import PrimaryCapsules
from fastrcaps_search.capsnet.network import build_network
from fastrcaps_search.definition.choices import Decoder, Network


def by_position(x: Tensor) -> Tensor:
    """[4, 100, B, C] of [B, C, 20, 20]: rows and columns split into (10 positions, parity)."""
    B, C, _, _ = x.shape
    return x.view(B, C, 10, 2, 10, 2).permute(3, 5, 2, 4, 0, 1).reshape(4, 100, B, C)


def relative(got: Tensor, expected: Tensor) -> float:
    return float((got.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-13), (torch.float32, 3e-6)])
@pytest.mark.parametrize(
    ("batch", "channels", "outputs"), [(1, 3, 5), (7, 64, 64), (16, 64, 64), (3, 256, 256)]
)
def test_equals_torch_in_value_and_gradient(
    batch: int, channels: int, outputs: int, dtype: torch.dtype, limit: float
) -> None:
    torch.manual_seed(0)
    x = torch.randn(batch, channels, 20, 20, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(outputs, channels, 9, 9, dtype=torch.float64, requires_grad=True)
    expected = F.conv2d(x, weight, stride=2)
    gradient = torch.randn_like(expected)
    x_low = x.detach().to(dtype).requires_grad_()
    weight_low = weight.detach().to(dtype).requires_grad_()
    y = fourier_convolution(by_position(x_low), weight_low)
    assert y.shape == (36, outputs, batch)
    y = y.view(6, 6, outputs, batch).permute(3, 2, 0, 1)
    assert relative(y.detach(), expected.detach()) < limit
    got = torch.autograd.grad(y, (x_low, weight_low), gradient.to(dtype))
    wanted = torch.autograd.grad(expected, (x, weight), gradient)
    for g, w in zip(got, wanted, strict=True):
        assert relative(g, w) < limit
    assert got[1].is_contiguous()


def test_gradient_equals_finite_differences() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 100, 1, 1, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 1, 9, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fourier_convolution, (x, weight), fast_mode=True)


def test_every_output_of_a_sample_with_nan_is_nan_and_no_other() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 2, 20, 20)
    x[1, 0, 0, 0] = torch.nan
    y = fourier_convolution(by_position(x), torch.randn(4, 2, 9, 9))
    assert y[:, :, 1].isnan().all()
    assert not y[:, :, [0, 2]].isnan().any()


@pytest.mark.parametrize("batch", [1, 5])
def test_features_are_the_first_convolution_and_relu_moved(batch: int) -> None:
    torch.manual_seed(0)
    images = torch.rand(batch, 1, 28, 28, dtype=torch.float64)
    weight = torch.randn(6, 1, 9, 9, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(6, dtype=torch.float64, requires_grad=True)
    got = features_by_position(images, weight, bias)
    expected = by_position(F.relu(F.conv2d(images, weight, bias)))
    torch.testing.assert_close(got, expected)
    gradient = torch.randn_like(got)
    torch.testing.assert_close(
        torch.autograd.grad(got, (weight, bias), gradient),
        torch.autograd.grad(expected, (weight, bias), gradient),
    )


def test_primary_capsules_have_one_order_in_both_layouts() -> None:
    torch.manual_seed(0)
    layer = PrimaryCapsules(3, types=2).double()
    x = torch.randn(5, 3, 20, 20, dtype=torch.float64)
    torch.testing.assert_close(layer.by_position(by_position(x)), layer(x))


@pytest.mark.parametrize("weight_sharing", [False, True])
@pytest.mark.parametrize("batch", [16, 19])
def test_a_network_is_the_same_with_the_fourier_form(
    batch: int, weight_sharing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network = build_network(
        Network.CAPSNET_NARROW, decoder=Decoder.REDUCED, weight_sharing=weight_sharing
    ).double()
    images = torch.rand(batch, 1, 28, 28, dtype=torch.float64)
    labels = torch.arange(batch) % 10
    assert choose_kernel(images.device, batch=batch, channels=64) is Kernel.FOURIER

    def run() -> list[Tensor]:
        total = network.loss(images, labels).total
        lengths = network.classify(images)
        return [lengths.detach(), *torch.autograd.grad(total, list(network.parameters()))]

    fourier = run()
    monkeypatch.setattr(
        "fastrcaps_search.capsnet.network.choose_kernel", lambda *_, **__: Kernel.DIRECT
    )
    for got, expected in zip(fourier, run(), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)


def test_a_batch_repeats_bit_for_bit() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, 100, 16, 64), torch.randn(64, 64, 9, 9)
    assert torch.equal(fourier_convolution(x, weight), fourier_convolution(x, weight))
