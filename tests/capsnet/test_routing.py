"""Routing against a plain loop, gradients against finite differences, squash by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fastrcaps_search.capsnet.layers import ClassCapsules, PrimaryCapsules
from fastrcaps_search.capsnet.routing import (
    ROUTING_ITERATIONS,
    Routing,
    route,
    safe_length,
    squash,
    squash_gradient,
)
from fastrcaps_search.definition.choices import RoutingGradient

# Weights this large drive the coupling coefficients far from 1/10.
LARGE_STD = 0.5


def plain_squash(s: list[float]) -> list[float]:
    square = sum(x * x for x in s)
    if square == 0:
        return [0.0] * len(s)
    return [square / (1 + square) * x / math.sqrt(square) for x in s]


def plain_softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(b - max(logits)) for b in logits]
    return [p / sum(powers) for p in powers]


def plain_votes(u: list[list[float]], W: list[list[list[float]]]) -> list[list[list[float]]]:
    """Votes [i][j][e] of one image; a weight shared by 36 positions is looked up by type."""
    positions = len(u) // len(W)
    return [
        [
            [sum(u[i][d] * W[i // positions][d][j * 16 + e] for d in range(8)) for e in range(16)]
            for j in range(10)
        ]
        for i in range(len(u))
    ]


def plain_routing(
    votes: list[list[list[float]]], bias: list[list[float]], iterations: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Procedure 1 of Sabour et al. 2017 for one image: capsules [j][e], couplings [i][j]."""
    inputs = range(len(votes))
    logits = [[0.0] * 10 for _ in inputs]
    for t in range(iterations):
        c = [plain_softmax(logits[i]) for i in inputs]
        v = [
            plain_squash(
                [bias[j][e] + sum(c[i][j] * votes[i][j][e] for i in inputs) for e in range(16)]
            )
            for j in range(10)
        ]
        if t < iterations - 1:
            for i in inputs:
                for j in range(10):
                    logits[i][j] += sum(votes[i][j][e] * v[j][e] for e in range(16))
    return v, c


def large_class_capsules(types: int, *, weight_sharing: bool, gradient: str) -> ClassCapsules:
    torch.manual_seed(3)
    layer = ClassCapsules(
        types, weight_sharing=weight_sharing, routing_gradient=RoutingGradient(gradient)
    ).double()
    with torch.no_grad():
        layer.weight.normal_(0, LARGE_STD)
        layer.bias.normal_(0, 0.1)
    return layer


@torch.no_grad()
def couplings_of(votes: Tensor, bias: Tensor, *, iterations: int) -> list[Tensor]:
    """Couplings [B, J, I] of each iteration after the first."""
    inputs, batch, classes, _ = votes.shape
    found = [votes.new_empty(batch, classes, inputs) for _ in range(1, iterations)]
    Routing(votes, found, lambda _, *shape: votes.new_empty(shape)).forward(bias)
    return found


def primary(batch: int, types: int) -> Tensor:
    torch.manual_seed(4)
    return squash(torch.randn(batch, types * 36, 8, dtype=torch.float64))


@pytest.mark.parametrize("weight_sharing", [False, True])
@pytest.mark.parametrize("gradient", ["full", "last"])
def test_class_capsules_equal_the_plain_loop(weight_sharing: bool, gradient: str) -> None:
    layer = large_class_capsules(2, weight_sharing=weight_sharing, gradient=gradient)
    u = primary(2, 2)
    capsules = layer(u)
    for b in range(2):
        votes = plain_votes(u[b].tolist(), layer.weight.tolist())
        v, c = plain_routing(votes, layer.bias.tolist(), ROUTING_ITERATIONS)
        torch.testing.assert_close(capsules[b], torch.tensor(v, dtype=torch.float64))
        # Guards the test itself: with near-uniform coupling a broken softmax would pass.
        assert max(max(row) for row in c) > 0.4


def test_couplings_equal_the_plain_loop_and_sum_to_one_over_classes() -> None:
    layer = large_class_capsules(1, weight_sharing=False, gradient="full")
    u = primary(3, 1)
    votes = layer.votes(u)
    found = couplings_of(votes, layer.bias, iterations=4)
    for couplings in found:
        torch.testing.assert_close(couplings.sum(1), torch.ones(3, 36, dtype=torch.float64))
    assert (found[-1].sum(2) - 3.6).abs().max() > 1  # sums over inputs are not 1 each
    for iterations in (2, 3, 4):
        _, c = plain_routing(votes[:, 1].tolist(), layer.bias.tolist(), iterations)
        expected = torch.tensor(c, dtype=torch.float64).t()
        torch.testing.assert_close(found[iterations - 2][1], expected)


def test_the_first_iteration_weighs_all_classes_equally_and_adds_the_bias() -> None:
    torch.manual_seed(0)
    votes = torch.randn(7, 2, 10, 16, dtype=torch.float64)
    bias = torch.randn(10, 16, dtype=torch.float64)
    v = route(votes, bias, gradient=RoutingGradient.FULL, iterations=1)
    torch.testing.assert_close(v, squash(votes.mean(0) * 7 / 10 + bias))


def test_a_shared_weight_equals_the_same_weight_at_all_36_positions() -> None:
    shared = large_class_capsules(2, weight_sharing=True, gradient="full")
    separate = large_class_capsules(2, weight_sharing=False, gradient="full")
    with torch.no_grad():
        separate.weight.copy_(shared.weight.repeat_interleave(36, dim=0))
        separate.bias.copy_(shared.bias)
    u = primary(3, 2)
    torch.testing.assert_close(shared(u), separate(u))
    shared(u).pow(3).sum().backward()
    separate(u).pow(3).sum().backward()
    assert shared.weight.grad is not None
    assert separate.weight.grad is not None
    summed = separate.weight.grad.view(2, 36, 8, 160).sum(1)
    torch.testing.assert_close(shared.weight.grad, summed)


def large_votes(inputs: int, batch: int, classes: int, size: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    votes = (torch.randn(inputs, batch, classes, size, dtype=torch.float64)).requires_grad_()
    bias = torch.randn(classes, size, dtype=torch.float64).mul_(0.2).requires_grad_()
    return votes, bias


@pytest.mark.parametrize("iterations", [1, 2, 3, 4])
def test_full_gradient_equals_finite_differences(iterations: int) -> None:
    votes, bias = large_votes(5, 2, 3, 4)
    assert torch.autograd.gradcheck(
        lambda v, b: route(v, b, gradient=RoutingGradient.FULL, iterations=iterations),
        (votes, bias),
    )


def test_full_gradient_of_the_layer_equals_finite_differences_along_a_direction() -> None:
    for weight_sharing in (False, True):
        layer = large_class_capsules(1, weight_sharing=weight_sharing, gradient="full")
        u = primary(2, 1).requires_grad_()
        target = torch.randn(2, 10, 16, dtype=torch.float64)
        inputs = (u, layer.weight, layer.bias)
        gradients = torch.autograd.grad((layer(u) * target).sum(), inputs)
        directions = [torch.randn_like(x) for x in inputs]
        slopes = []
        for sign in (1, -1):
            with torch.no_grad():
                for x, d in zip(inputs, directions, strict=True):
                    x.add_(d, alpha=sign * 1e-6)
                slopes.append((layer(u) * target).sum().item())
                for x, d in zip(inputs, directions, strict=True):
                    x.sub_(d, alpha=sign * 1e-6)
        expected = (slopes[0] - slopes[1]) / 2e-6
        got = sum((g * d).sum().item() for g, d in zip(gradients, directions, strict=True))
        assert got == pytest.approx(expected, rel=1e-6)


def test_last_gradient_holds_the_last_couplings_constant() -> None:
    votes, bias = large_votes(6, 2, 4, 5)
    target = torch.randn(2, 4, 5, dtype=torch.float64)
    v = route(votes, bias, gradient=RoutingGradient.LAST)
    last = torch.autograd.grad((v * target).sum(), (votes, bias))
    c = couplings_of(votes, bias, iterations=3)[-1]
    by_hand = squash(torch.einsum("bji,ibje->bje", c, votes) + bias)
    expected = torch.autograd.grad((by_hand * target).sum(), (votes, bias))
    torch.testing.assert_close(last, expected)


def test_last_and_full_differ_in_gradient_but_not_in_value() -> None:
    votes, bias = large_votes(6, 2, 4, 5)
    full = route(votes, bias, gradient=RoutingGradient.FULL)
    last = route(votes, bias, gradient=RoutingGradient.LAST)
    assert torch.equal(full, last)
    (full_gradient,) = torch.autograd.grad(full[..., 0].sum(), votes)
    (last_gradient,) = torch.autograd.grad(last[..., 0].sum(), votes)
    assert (full_gradient - last_gradient).norm() > 0.05 * full_gradient.norm()


def test_routing_is_finite_when_every_vote_is_zero() -> None:
    votes = torch.zeros(4, 2, 10, 16, requires_grad=True)
    bias = torch.zeros(10, 16, requires_grad=True)
    v = route(votes, bias, gradient=RoutingGradient.FULL)
    assert torch.equal(v, torch.zeros(2, 10, 16))
    for g in torch.autograd.grad(v.sum(), (votes, bias)):
        assert torch.isfinite(g).all()


def test_squash_by_hand() -> None:
    # |(3, 4)| = 5, so the length becomes 25 / 26 along (0.6, 0.8).
    s = torch.tensor([[3.0, 4.0], [0.0, 0.5]], dtype=torch.float64)
    expected = torch.tensor([[0.6 * 25 / 26, 0.8 * 25 / 26], [0.0, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(squash(s), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_squash_is_finite_at_zero(dtype: torch.dtype) -> None:
    s = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
    v = squash(s)
    (g,) = torch.autograd.grad(v.sum(), s)
    assert torch.equal(v, torch.zeros(2, 3, dtype=dtype))
    assert torch.isfinite(g).all()
    assert torch.isfinite(squash_gradient(s.detach(), torch.ones(2, 3, dtype=dtype))).all()
    (g,) = torch.autograd.grad(safe_length(s, dim=1).sum(), s)
    assert torch.isfinite(g).all()


def test_squashed_vectors_are_shorter_than_one_and_keep_their_direction() -> None:
    torch.manual_seed(0)
    s = torch.randn(50, 8, dtype=torch.float64) * torch.logspace(-3, 3, 50).view(-1, 1)
    v = squash(s)
    assert (v.norm(dim=1) < 1).all()
    torch.testing.assert_close(torch.cosine_similarity(s, v), torch.ones(50).double())
    assert (v.norm(dim=1).diff()[-10:] > 0).sum() >= 5  # longer in, longer out, on the whole


def test_squash_works_along_the_axis_asked_for() -> None:
    torch.manual_seed(0)
    s = torch.randn(2, 8, 5, dtype=torch.float64)
    torch.testing.assert_close(squash(s, dim=1)[1, :, 3], squash(s[1, :, 3]))
    assert (squash(s, dim=1)[1, 2] - squash(s[1, 2])).abs().max() > 0.01


def test_squash_gradient_equals_finite_differences() -> None:
    torch.manual_seed(0)
    s = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(squash, (s,))
    target = torch.randn(4, 6, dtype=torch.float64)
    (expected,) = torch.autograd.grad((squash(s) * target).sum(), s)
    torch.testing.assert_close(squash_gradient(s.detach(), target), expected)


def test_primary_capsule_is_type_times_36_plus_position_with_8_neighbouring_channels() -> None:
    torch.manual_seed(0)
    layer = PrimaryCapsules(3, types=2).double()
    features = torch.randn(2, 3, 20, 20, dtype=torch.float64)
    capsules = layer(features)
    # With two types each is coupled with a half; the bias is not.
    weight, bias = layer.convolution.weight, layer.convolution.bias
    maps = torch.nn.functional.conv2d(features, weight / 2, bias, stride=2)
    assert capsules.shape == (2, 72, 8)
    for kind, row, column in ((0, 0, 0), (0, 2, 5), (1, 5, 1)):
        s = [maps[1, kind * 8 + dim, row, column].item() for dim in range(8)]
        got = capsules[1, kind * 36 + row * 6 + column]
        torch.testing.assert_close(got, torch.tensor(plain_squash(s), dtype=torch.float64))


@pytest.mark.gpu
def test_routing_on_cuda_equals_the_cpu() -> None:
    u = primary(3, 2)
    capsules, gradients = [], []
    for device in ("cpu", "cuda"):
        layer = large_class_capsules(2, weight_sharing=True, gradient="full").to(device)
        v = layer(u.to(device))
        capsules.append(v.cpu())
        gradients.append(torch.autograd.grad(v.pow(2).sum(), layer.weight)[0].cpu())
    torch.testing.assert_close(capsules[1], capsules[0])
    torch.testing.assert_close(gradients[1], gradients[0])
