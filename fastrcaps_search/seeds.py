"""Seeds that follow from others."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *parts: int) -> int:
    """A seed that depends on all its parts, equal on every machine; 63 bits."""
    text = ",".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
