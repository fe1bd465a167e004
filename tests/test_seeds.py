"""Seeds that follow from others."""

from __future__ import annotations

from fastrcaps_search.seeds import derive_seed


def test_derived_seeds() -> None:
    # printf '7,3' | sha256sum | head -c 16, as a number, halved.
    assert derive_seed(7, 3) == 0x9CA29A28A8E8CAC5 >> 1
    seeds = {derive_seed(seed, epoch) for seed in range(20) for epoch in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
