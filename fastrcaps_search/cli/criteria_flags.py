"""The flags that say which trial of the front is wanted, and how their texts are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from fastrcaps_search.errors import UsageError
from fastrcaps_search.front.criteria import BOUNDS, PREFERENCES, Bound, Criteria, Preference

HELP = {
    "min_accuracy": ("A", "least accuracy: a fraction as in 0.985, or a percentage as in 98.5%%"),
    "max_seconds": ("T", "most training seconds"),
    "max_parameters": ("P", "most learned parameters"),
}
"""What stands for each bound, and what it is."""


def criteria(parser: argparse.ArgumentParser) -> None:
    """Flags of the bounds and of the preference."""
    for bound in BOUNDS:
        metavar, words = HELP[bound.name]
        parser.add_argument(f"--{bound.flag}", metavar=metavar, type=_reader(bound), help=words)
    parser.add_argument(
        "--prefer",
        metavar="X",
        type=_preference,
        help=f"{PREFERENCES}: of the trials that fit, the one of highest accuracy (the default), "
        "fewest training seconds, fewest parameters, or closest to the best of all three at once, "
        "with weights for accuracy, time and size where they are given",
    )


def given_criteria(arguments: argparse.Namespace) -> Criteria | None:
    """The criteria that the flags stand for; ``None`` where none of them was given."""
    names = (*(bound.name for bound in BOUNDS), "prefer")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    return Criteria(**given) if given else None


def whole(low: int, high: int) -> Callable[[str], int]:
    """Reads whole numbers of a range."""

    def parse(text: str) -> int:
        # Longer texts cannot be in range, and Python refuses to read the longest.
        value = int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {low} to {high}, got {text[:30]!r}"
            )
        return value

    return parse


def _reader(bound: Bound) -> Callable[[str], float]:
    """Reads a bound."""

    def parse(text: str) -> float:
        value = bound.read(text)
        if value is None:
            raise argparse.ArgumentTypeError(f"must be {bound.typed}, got {text[:30]!r}")
        return value

    return parse


def _preference(text: str) -> Preference:
    try:
        return Preference.read(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("prefer ")) from None
