"""Routing of primary capsules on CUDA by the kernels of ``kernels.py``, votes never stored.

Letters: B batch, I primary capsules, M weight matrices (I, or one per type), C chunks.
"""

from __future__ import annotations

import functools
import logging
import math
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fastrcaps_search.capsnet.routing import ROUTING_ITERATIONS, route, squash
from fastrcaps_search.definition.choices import RoutingGradient

logger = logging.getLogger(__name__)

# What the kernels are written for.
CLASSES, CLASS_SIZE, PRIMARY_SIZE, POSITIONS = 10, 16, 8, 36
VECTOR = CLASSES * CLASS_SIZE

# Chunks and tiles are a choice for the H100, not yet measured. A chunk divides the 36 positions of
# a type, and so the capsules of every width. Small batches need many programs to fill a card; in
# large ones a tile of eight samples reads each weight once.
_SHORT_CHUNK, _LONG_CHUNK, _LARGEST_SHORT_BATCH = 4, 12, 16
_MOST_SAMPLES = 8
_SAMPLES_PER_WARP = 2  # 16 registers of each thread per tile of votes
_GRADIENT_SAMPLES = 2
_FINISH_WARPS = 4

TOLERANCE = 1e-4
"""Largest relative error at which the kernels are trusted on a card: float32 through routing."""


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


class _Sweep:
    """Shapes and launches of one batch.

    Args:
        u: Primary capsules, float32 [B, I, 8], contiguous.
        weight: float32 [M, 8, 160], contiguous.

    Attributes:
        kernels: The module ``kernels.py``.
        grid: Programs of a sweep over the capsules.
        inputs: Its first arguments.
        partial: Its partial sums [B, C, 160].
        sizes: B, I and I / M.
        tile: Constants of each program.
    """

    def __init__(self, u: Tensor, weight: Tensor) -> None:
        # Triton may be missing where this module is imported.
        from fastrcaps_search.capsnet.cuda import kernels

        batch, capsules, _ = u.shape
        self.kernels: Any = kernels
        self.inputs = u, weight
        self.sizes = batch, capsules, capsules // weight.shape[0]
        chunk = _SHORT_CHUNK if batch <= _LARGEST_SHORT_BATCH else _LONG_CHUNK
        samples = min(_power_of_two(batch), _MOST_SAMPLES)
        self.grid = capsules // chunk, -(-batch // samples)
        self.partial = u.new_empty(batch, capsules // chunk, VECTOR)
        self.tile = {
            "CHUNK": chunk,
            "SAMPLES": samples,
            "num_warps": max(samples // _SAMPLES_PER_WARP, 1),
        }

    def new_vectors(self, count: int) -> Tensor:
        """Room for vectors [count, B, 160]."""
        return self.partial.new_empty(count, self.sizes[0], VECTOR)

    def add_up(self, kernel: Any, *vectors: Tensor, iteration: int) -> None:  # noqa: ANN401
        """Partial sums: of votes, or of gradients of the capsules of the iteration before."""
        arguments = (*self.inputs, *vectors, self.partial, *self.sizes)
        kernel[self.grid](*arguments, ITERATION=iteration, **self.tile)

    def finish(self, kernel: Any, partial: Tensor, *vectors: Tensor) -> None:  # noqa: ANN401
        """Add the partial vectors [B, C, 160] and squash, or go back through that."""
        chunks = partial.shape[1]
        kernel[(self.sizes[0], CLASSES)](
            partial, *vectors, chunks, CHUNKS=_power_of_two(chunks), num_warps=_FINISH_WARPS
        )

    def gradients(self, capsules: Tensor, slopes: Tensor, *, full: bool) -> tuple[Tensor, Tensor]:
        """Gradients of u [B, I, 8] and weight [M, 8, 160]."""
        u, _ = self.inputs
        _, count, shared_by = self.sizes
        u_gradient = torch.empty_like(u)
        by_capsule = u.new_empty(count, PRIMARY_SIZE, VECTOR)
        self.kernels.gradients[(count,)](
            *self.inputs,
            *(capsules, slopes, u_gradient, by_capsule),
            *self.sizes,
            FULL=full,
            SAMPLES=min(self.tile["SAMPLES"], _GRADIENT_SAMPLES),
            num_warps=1,
        )
        if shared_by == 1:
            return u_gradient, by_capsule
        return u_gradient, by_capsule.view(-1, shared_by, PRIMARY_SIZE, VECTOR).sum(1)


class _CudaRouting(torch.autograd.Function):
    """Three iterations forward, and the gradient through all or the last of them."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - untyped in torch
        u: Tensor,
        weight: Tensor,
        bias: Tensor,
        full_gradient: bool,
    ) -> Tensor:
        sweep = _Sweep(u, weight)
        sums, capsules = sweep.new_vectors(ROUTING_ITERATIONS), sweep.new_vectors(2)
        output = u.new_empty(u.shape[0], CLASSES, CLASS_SIZE)
        for iteration, squashed in enumerate([capsules[0], capsules[1], output]):
            sweep.add_up(sweep.kernels.sum_votes, capsules, iteration=iteration)
            finish = sweep.kernels.finish_sums
            sweep.finish(finish, sweep.partial, bias, sums[iteration], squashed)
        ctx.full_gradient = full_gradient
        ctx.save_for_backward(u, weight, sums, capsules)
        return output

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,  # noqa: ANN401 - untyped in torch
        gradient: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, None]:
        u, weight, sums, capsules = ctx.saved_tensors
        sweep = _Sweep(u, weight)
        last = ROUTING_ITERATIONS - 1
        slopes = sweep.new_vectors(ROUTING_ITERATIONS)
        finish = sweep.kernels.finish_slopes
        outer = gradient.contiguous().view(-1, 1, VECTOR)
        sweep.finish(finish, outer, sums[last], slopes[last])
        if ctx.full_gradient:
            for iteration in range(last, 0, -1):
                kernel = sweep.kernels.sum_logit_gradients
                sweep.add_up(kernel, capsules, slopes, iteration=iteration)
                before = iteration - 1
                sweep.finish(finish, sweep.partial, sums[before], slopes[before])
        u_gradient, weight_gradient = sweep.gradients(capsules, slopes, full=ctx.full_gradient)
        used = slopes if ctx.full_gradient else slopes[last:]
        bias_gradient = used.sum((0, 1)).view(CLASSES, CLASS_SIZE)
        return u_gradient, weight_gradient, bias_gradient, None


def route_capsules(
    u: Tensor, weight: Tensor, bias: Tensor, *, gradient: RoutingGradient
) -> Tensor:
    """Class capsules of primary capsules: ``route`` of their votes, up to float32 rounding.

    Args:
        u: Primary capsules, float32 [B, I, 8] on CUDA, B >= 1, I a multiple of 36. NaN in a sample
            makes its capsules NaN.
        weight: float32 [I, 8, 160], or [types, 8, 160] with capsule ``type * 36 + position``.
        bias: float32 [10, 16], added in every iteration.
        gradient: ``FULL`` differentiates every iteration; ``LAST`` holds the last iteration's
            coupling coefficients constant.

    Returns:
        [B, 10, 16]; each vector shorter than 1. Differentiable once. Equal inputs give equal bits.
    """
    full = gradient is RoutingGradient.FULL
    inputs = u.contiguous(), weight.contiguous(), bias.contiguous()
    return _CudaRouting.apply(*inputs, full)  # type: ignore[no-any-return]


def can_route(u: Tensor) -> bool:
    """Whether ``route_capsules`` takes these capsules: float32 on a card where it was found right.

    The first call for a card compiles two sizes of the kernels and compares them with plain
    routing. It must not fall into the capture of a CUDA graph.
    """
    if u.device.type != "cuda" or u.dtype is not torch.float32:
        return False
    # Triton launches on the current card, wherever its arguments are.
    return u.device.index == torch.cuda.current_device() and _is_right_on(u.device)


@functools.cache
def _is_right_on(device: torch.device) -> bool:
    if find_spec("triton") is None:
        logger.info("triton is not installed: routing runs on torch's kernels")
        return False
    try:
        error = max(
            largest_error(device, batch=batch, types=1, sharing=sharing, gradient=gradient)
            for batch in (1, 9)
            for sharing in (False, True)
            for gradient in RoutingGradient
        )
    # Triton compiles with what it finds on the machine (a C compiler, an assembler, a driver), and
    # says that it cannot by errors of many families, some of them bare exceptions. Everything
    # trains without it; a broken device fails again right after this.
    except Exception as failure:
        logger.warning("routing runs on torch's kernels, those of triton failed: %r", failure)
        return False
    if not error <= TOLERANCE:
        logger.warning(
            "routing runs on torch's kernels: those of triton must be right to %g, got an error "
            "of %g",
            TOLERANCE,
            error,
        )
        return False
    return True


@torch.enable_grad()
def largest_error(
    device: torch.device, *, batch: int, types: int, sharing: bool, gradient: RoutingGradient
) -> float:
    """Largest relative error of the kernels' values and gradients; NaN counts as infinite.

    Against plain routing in float64 on the CPU, with weights so large that couplings differ.
    """
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    I = types * POSITIONS
    inputs = [
        squash(draw(batch, I, PRIMARY_SIZE)),
        draw(types if sharing else I, PRIMARY_SIZE, VECTOR) / 2,
        draw(CLASSES, CLASS_SIZE) / 10,
    ]
    target = draw(batch, CLASSES, CLASS_SIZE)
    u, weight, bias = leaves = [x.clone().requires_grad_() for x in inputs]
    repeated = weight.repeat_interleave(I // weight.shape[0], dim=0)
    votes = torch.bmm(u.transpose(0, 1), repeated).view(I, batch, CLASSES, CLASS_SIZE)
    plain = route(votes, bias, gradient=gradient)
    expected = [plain, *torch.autograd.grad((plain * target).sum(), leaves)]
    u, weight, bias = leaves = [x.to(device, torch.float32).requires_grad_() for x in inputs]
    fast = route_capsules(u, weight, bias, gradient=gradient)
    got = [fast, *torch.autograd.grad((fast * target.to(fast)).sum(), leaves)]
    errors = [
        float((b.detach().cpu() - a.detach()).norm() / a.detach().norm())
        for a, b in zip(expected, got, strict=True)
    ]
    return max(math.inf if math.isnan(error) else error for error in errors)
