"""The texts that flags accept. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from fastrcaps_search.cli.criteria_flags import whole
from fastrcaps_search.report.formats import Format

Item = TypeVar("Item")

MOST_TRIALS = 1_000_000
MOST_WORKERS = 1_024
PLAIN_SECONDS = r"[0-9]{1,9}(\.[0-9]{1,9})?"
"""Neither signs nor exponents nor infinities."""


def seconds(low: float, high: float) -> Callable[[str], float]:
    """Parser of plain seconds within these limits."""

    def parse(text: str) -> float:
        value = float(text) if re.fullmatch(PLAIN_SECONDS, text) else low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"must be seconds from {low:.0f} to {high:.0f}, got {text[:30]!r}"
            )
        return value

    return parse


def workers(text: str) -> int | None:
    """A number of workers; ``None`` for ``auto``."""
    if text == "auto":
        return None
    try:
        return whole(1, MOST_WORKERS)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            str(error).replace("must be a", "must be auto or a")
        ) from None


def word(kind: Iterable[Item]) -> Callable[[str], Item]:
    """Parser of one word of a closed set, or of the name of what is registered."""

    def parse(text: str) -> Item:
        words = {str(item): item for item in kind}
        if text not in words:
            allowed = " or ".join(words)
            raise argparse.ArgumentTypeError(f"must be {allowed}, got {text[:30]!r}")
        return words[text]

    return parse


def formats(text: str) -> tuple[Format, ...]:
    """Formats with commas between them."""
    given = text.lower().split(",")
    if set(given) - set(Format):
        raise argparse.ArgumentTypeError(
            f"must be one or more of {', '.join(Format)}, with commas, got {text[:60]!r}"
        )
    return tuple(Format(word) for word in dict.fromkeys(given))
