"""Routing kernels for CUDA in Triton, which no other module may import before it is needed.

Each kernel sweeps over the primary capsules and computes their votes afresh from capsules and
weights, which stay in the card's cache; votes are never written to memory. Sums over capsules end
as one partial sum per chunk of capsules, added up by the next kernel in a fixed order: there are
no atomics, so equal inputs give equal bits. ``do_not_specialize`` keeps the number of compilations
down: one per size of a tile instead of one per kind of batch size.

Letters: B batch, I primary capsules, M weight matrices (I, or one per type), C chunks of
capsules; in a tile b samples, d size of a primary capsule (8), j classes (10 of 16 rows, the rest
masked), e size of a class capsule (16). Vectors of all classes lie as [160] = [10, 16].

Notation of the backward pass: ``ds_t`` gradient of the sum of iteration t before squash, ``dl_t``
of its logits; see ``routing.py`` for the same in torch.
"""
# Triton's language is untyped, and so is what it decorates; triton may be missing.
# mypy: disable-error-code="misc, no-untyped-def, import-untyped, import-not-found"
# mypy: disable-error-code="no-any-return, no-untyped-call, untyped-decorator"
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import triton
import triton.language as tl

SMALLEST_SQUARE = tl.constexpr(1e-16)  # as in routing.py
CLASSES = tl.constexpr(10)
ROWS = tl.constexpr(16)  # tiles have powers of two
SIZE = tl.constexpr(16)
INPUT = tl.constexpr(8)
VECTOR = tl.constexpr(160)


@triton.jit
def _class_mask():
    """[1, j, 1]: rows of the tile that are classes."""
    return (tl.arange(0, ROWS) < CLASSES)[None, :, None]


@triton.jit
def _places(rows):
    """Offsets [r, j, e] of all classes in some rows [r] of a tensor [R, 160]."""
    j = tl.arange(0, ROWS)[None, :, None]
    e = tl.arange(0, SIZE)[None, None, :]
    return rows[:, None, None] * VECTOR + j * SIZE + e


@triton.jit
def _vector_tile(pointer, samples, B):
    """Tile [b, j, e] of vectors [B, 160]; zero beyond the batch and the classes."""
    inside = (samples[:, None, None] < B) & _class_mask()
    return tl.load(pointer + _places(samples), mask=inside, other=0.0)


@triton.jit
def _capsule_tile(u, samples, i, B, I):
    """Primary capsule i of the samples: [b, d]."""
    d = tl.arange(0, INPUT)[None, :]
    b = samples[:, None]
    return tl.load(u + (b * I + i) * INPUT + d, mask=b < B, other=0.0)


@triton.jit
def _weight_tile(weight, i, shared_by):
    """The matrix of capsule i: [d, j, e]."""
    matrix = weight + (i // shared_by) * (INPUT * VECTOR)
    return tl.load(matrix + _places(tl.arange(0, INPUT)), mask=_class_mask(), other=0.0)


@triton.jit
def _votes(capsule, matrix):
    """Votes [b, j, e] of capsules [b, d] through a matrix [d, j, e]."""
    return tl.sum(capsule[:, :, None, None] * matrix[None, :, :, :], axis=1)


@triton.jit
def _agreement(votes, vectors):
    """Product over e of two tiles [b, j, e]: [b, j, 1]."""
    return tl.sum(votes * vectors, axis=2)[:, :, None]


@triton.jit
def _couplings(logits):
    """Softmax over the classes of [b, j, 1]; the rows that are no class get zero."""
    masked = tl.where(_class_mask(), logits, float("-inf"))
    powers = tl.exp(masked - tl.max(masked, axis=1)[:, None, :])
    return powers / tl.sum(powers, axis=1)[:, None, :]


@triton.jit
def _logits_gradient(couplings, slopes):
    """Gradient of the logits [b, j, 1] from that of the couplings, through softmax."""
    return couplings * (slopes - tl.sum(couplings * slopes, axis=1)[:, None, :])


@triton.jit
def _store_partial(partial, tile, samples, chunk, chunks, B):
    """Write a tile [b, j, e] into partial sums [B, C, 160]."""
    inside = (samples[:, None, None] < B) & _class_mask()
    tl.store(partial + _places(samples * chunks + chunk), tile, mask=inside)


@triton.jit
def _total(partial, b, j, chunks, CHUNKS: tl.constexpr):
    """Sum [e] over the chunks of partial sums [B, C, 160] of one sample and class."""
    chunk = tl.arange(0, CHUNKS)[:, None]
    place = (b * chunks + chunk) * VECTOR + j * SIZE + tl.arange(0, SIZE)[None, :]
    return tl.sum(tl.load(partial + place, mask=chunk < chunks, other=0.0), axis=0)


@triton.jit(do_not_specialize=["B"])
def sum_votes(
    u,
    weight,
    capsules,
    partial,
    B,
    I,
    shared_by,
    ITERATION: tl.constexpr,
    CHUNK: tl.constexpr,
    SAMPLES: tl.constexpr,
):
    """Weighted sums of the votes of one chunk in one iteration (from 0), without the bias.

    Args:
        u: Primary capsules [B, I, 8].
        weight: [M, 8, 160].
        capsules: Class capsules [2, B, 160] of the iterations before.
        partial: To write: [B, C, 160].
        B: Batch.
        I: Primary capsules.
        shared_by: I / M.
        ITERATION: Which.
        CHUNK: Capsules of a chunk; divides I.
        SAMPLES: Samples of a tile.
    """
    chunk = tl.program_id(0)
    samples = tl.program_id(1) * SAMPLES + tl.arange(0, SAMPLES)
    total = tl.zeros([SAMPLES, ROWS, SIZE], dtype=tl.float32)
    if ITERATION > 0:
        # Agreements add up over the iterations, and so do the vectors they are products with.
        query = _vector_tile(capsules, samples, B)
        if ITERATION > 1:
            query += _vector_tile(capsules + B * VECTOR, samples, B)
    for place in range(CHUNK):
        i = chunk * CHUNK + place
        votes = _votes(_capsule_tile(u, samples, i, B, I), _weight_tile(weight, i, shared_by))
        if ITERATION > 0:
            total += _couplings(_agreement(votes, query)) * votes
        else:
            total += votes
    if ITERATION == 0:
        total = total / CLASSES
    _store_partial(partial, total, samples, chunk, tl.num_programs(0), B)


@triton.jit(do_not_specialize=["chunks"])
def finish_sums(partial, bias, sums, capsules, chunks, CHUNKS: tl.constexpr):
    """Add partial sums and the bias, and squash: one program per sample and class.

    Args:
        partial: [B, C, 160].
        bias: [160].
        sums: To write: [B, 160].
        capsules: To write: [B, 160].
        chunks: C.
        CHUNKS: Power of two, at least C.
    """
    b, j = tl.program_id(0), tl.program_id(1)
    e = tl.arange(0, SIZE)
    s = _total(partial, b, j, chunks, CHUNKS) + tl.load(bias + j * SIZE + e)
    n = tl.sqrt(tl.sum(s * s, axis=0) + SMALLEST_SQUARE)
    place = b * VECTOR + j * SIZE + e
    tl.store(sums + place, s)
    tl.store(capsules + place, s * (n / (1 + n * n)))


@triton.jit(do_not_specialize=["chunks"])
def finish_slopes(partial, sums, slopes, chunks, CHUNKS: tl.constexpr):
    """Add partial gradients of capsules and take them through squash, to gradients of sums.

    Args:
        partial: Gradients of the capsules [B, C, 160].
        sums: What was squashed: [B, 160].
        slopes: To write: [B, 160].
        chunks: C.
        CHUNKS: Power of two, at least C.
    """
    b, j = tl.program_id(0), tl.program_id(1)
    g = _total(partial, b, j, chunks, CHUNKS)
    place = b * VECTOR + j * SIZE + tl.arange(0, SIZE)
    s = tl.load(sums + place)
    n = tl.sqrt(tl.sum(s * s, axis=0) + SMALLEST_SQUARE)
    q = 1 + n * n
    along = (2 - q) / (q * q * n) * tl.sum(s * g, axis=0)
    tl.store(slopes + place, g * (n / q) + s * along)


@triton.jit(do_not_specialize=["B"])
def sum_logit_gradients(
    u,
    weight,
    capsules,
    slopes,
    partial,
    B,
    I,
    shared_by,
    ITERATION: tl.constexpr,
    CHUNK: tl.constexpr,
    SAMPLES: tl.constexpr,
):
    """Gradient of the capsules of iteration ``ITERATION - 1`` from one chunk.

    Arguments as in ``sum_votes``, and ``slopes`` [3, B, 160], of which those of ``ITERATION`` and
    later are read.
    """
    chunk = tl.program_id(0)
    samples = tl.program_id(1) * SAMPLES + tl.arange(0, SAMPLES)
    total = tl.zeros([SAMPLES, ROWS, SIZE], dtype=tl.float32)
    first = _vector_tile(capsules, samples, B)
    both = first + _vector_tile(capsules + B * VECTOR, samples, B)
    ds_2 = _vector_tile(slopes + 2 * B * VECTOR, samples, B)
    if ITERATION == 1:
        ds_1 = _vector_tile(slopes + B * VECTOR, samples, B)
    for place in range(CHUNK):
        i = chunk * CHUNK + place
        votes = _votes(_capsule_tile(u, samples, i, B, I), _weight_tile(weight, i, shared_by))
        dl = _logits_gradient(_couplings(_agreement(votes, both)), _agreement(votes, ds_2))
        if ITERATION == 1:
            # The logits of iteration 2 hold the agreement of iteration 0 too.
            dl += _logits_gradient(_couplings(_agreement(votes, first)), _agreement(votes, ds_1))
        total += dl * votes
    _store_partial(partial, total, samples, chunk, tl.num_programs(0), B)


@triton.jit
def _votes_gradient(votes, capsules, slopes, samples, B, FULL: tl.constexpr):
    """Gradient [b, j, e] of votes: a sum of five outer products (coefficient) x (vector)."""
    v_0 = _vector_tile(capsules, samples, B)
    v_1 = _vector_tile(capsules + B * VECTOR, samples, B)
    ds_2 = _vector_tile(slopes + 2 * B * VECTOR, samples, B)
    logits_1 = _agreement(votes, v_0)
    c_2 = _couplings(logits_1 + _agreement(votes, v_1))
    gradient = c_2 * ds_2
    if FULL:
        ds_0 = _vector_tile(slopes, samples, B)
        ds_1 = _vector_tile(slopes + B * VECTOR, samples, B)
        c_1 = _couplings(logits_1)
        dl_2 = _logits_gradient(c_2, _agreement(votes, ds_2))
        dl_1 = dl_2 + _logits_gradient(c_1, _agreement(votes, ds_1))
        gradient += dl_2 * v_1 + c_1 * ds_1 + dl_1 * v_0 + ds_0 / CLASSES
    return gradient


@triton.jit(do_not_specialize=["B"])
def gradients(
    u,
    weight,
    capsules,
    slopes,
    u_gradient,
    weight_gradient,
    B,
    I,
    shared_by,
    FULL: tl.constexpr,
    SAMPLES: tl.constexpr,
):
    """Gradients of one primary capsule and its matrix over the whole batch.

    Arguments as in ``sum_logit_gradients``, and to write ``u_gradient`` [B, I, 8] and
    ``weight_gradient`` [I, 8, 160], one matrix per capsule, shared or not. ``FULL`` says whether
    the gradient flows through the couplings.
    """
    i = tl.program_id(0)
    d = tl.arange(0, INPUT)[None, :]
    matrix = _weight_tile(weight, i, shared_by)
    total = tl.zeros([INPUT, ROWS, SIZE], dtype=tl.float32)
    for start in range(0, B, SAMPLES):
        samples = start + tl.arange(0, SAMPLES)
        capsule = _capsule_tile(u, samples, i, B, I)
        gradient = _votes_gradient(_votes(capsule, matrix), capsules, slopes, samples, B, FULL)
        total += tl.sum(capsule[:, :, None, None] * gradient[:, None, :, :], axis=0)
        products = gradient[:, None, :, :] * matrix[None, :, :, :]
        # Classes before sizes: the other way round takes twice as many shuffles.
        du = tl.sum(tl.sum(products, axis=2), axis=2)
        b = samples[:, None]
        tl.store(u_gradient + (b * I + i) * INPUT + d, du, mask=b < B)
    place = weight_gradient + i * (INPUT * VECTOR) + _places(tl.arange(0, INPUT))
    tl.store(place, total, mask=_class_mask())
