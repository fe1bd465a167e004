"""Numbers of things in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def plural(number: int, word: str) -> str:
    """``1 trial`` or ``2 trials``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def numbered(word: str, numbers: Iterable[int], *, limit: int | None = 6) -> str:
    """``trial 3``, ``trials 3, 7`` or ``trials 1, 2, 3, 4, 5, 6 and 9 more``."""
    found = list(numbers)
    shown = ", ".join(map(str, found[:limit]))
    left = len(found[limit:]) if limit is not None else 0
    more = f" and {left:,} more" if left else ""
    return f"{word}{'' if len(found) == 1 else 's'} {shown}{more}"
