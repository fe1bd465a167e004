"""Both kernels of the stride-2 convolution against torch's own, values and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fastrcaps_search.capsnet.convolution import (
    Kernel,
    choose_kernel,
    column_convolution,
    stride_2_convolution,
)


@pytest.mark.parametrize(("batch", "side", "kernel"), [(1, 20, 9), (3, 20, 9), (2, 12, 5)])
def test_columns_equal_torch_in_value_and_gradient(batch: int, side: int, kernel: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(batch, 4, side, side, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 4, kernel, kernel, dtype=torch.float64, requires_grad=True)
    expected = F.conv2d(x, weight, stride=2)
    y = column_convolution(x, weight)
    torch.testing.assert_close(y, expected)
    gradient = torch.randn_like(y)
    torch.testing.assert_close(
        torch.autograd.grad(y, (x, weight), gradient),
        torch.autograd.grad(expected, (x, weight), gradient),
    )


def test_columns_gradient_equals_finite_differences() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 2, 7, 7, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(column_convolution, (x, weight))


def test_columns_take_any_memory_layout() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 11, 13, dtype=torch.float64)
    weight = torch.randn(5, 3, 9, 9, dtype=torch.float64)
    got = column_convolution(
        x.to(memory_format=torch.channels_last), weight.to(memory_format=torch.channels_last)
    )
    torch.testing.assert_close(got, F.conv2d(x, weight, stride=2))


@pytest.mark.parametrize(
    ("batch", "channels", "kernel"),
    [
        (1, 256, Kernel.COLUMNS),
        (15, 256, Kernel.COLUMNS),
        (16, 256, Kernel.FOURIER),
        (1, 64, Kernel.DIRECT),
        (15, 64, Kernel.DIRECT),
        (16, 64, Kernel.FOURIER),
        (128, 64, Kernel.FOURIER),
    ],
)
def test_the_kernel_depends_on_batch_and_width_alone(
    batch: int, channels: int, kernel: Kernel
) -> None:
    assert choose_kernel(torch.device("cpu"), batch=batch, channels=channels) is kernel


@pytest.mark.parametrize("batch", [1, 128])
def test_other_devices_take_torchs_kernel(batch: int) -> None:
    assert choose_kernel(torch.device("cuda"), batch=batch, channels=256) is Kernel.DIRECT


@pytest.mark.parametrize("batch", [15, 16])
def test_both_sides_of_the_boundary_give_one_result(batch: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(batch, 256, 11, 11, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(8, 256, 9, 9, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(8, dtype=torch.float64, requires_grad=True)
    y = stride_2_convolution(x, weight, bias)
    expected = F.conv2d(x, weight, bias, stride=2)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(
        torch.autograd.grad(y.pow(2).sum(), (x, weight, bias)),
        torch.autograd.grad(expected.pow(2).sum(), (x, weight, bias)),
    )
