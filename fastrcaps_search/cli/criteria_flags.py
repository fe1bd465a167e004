"""The flags that say which trial of the front is wanted, and how their texts are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from fastrcaps_search.errors import UsageError
from fastrcaps_search.front.criteria import PREFERENCES, Criteria, Preference

MOST_PARAMETERS = 10**12


def criteria(parser: argparse.ArgumentParser) -> None:
    """Flags of the bounds and of the preference."""
    parser.add_argument(
        "--min-accuracy",
        metavar="A",
        type=_accuracy,
        help="least accuracy: a fraction as in 0.985, or a percentage as in 98.5%%",
    )
    parser.add_argument(
        "--max-seconds", metavar="T", type=_seconds_above_zero, help="most training seconds"
    )
    parser.add_argument(
        "--max-parameters",
        metavar="P",
        type=whole(1, MOST_PARAMETERS),
        help="most learned parameters",
    )
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
    given = {
        "min_accuracy": arguments.min_accuracy,
        "max_seconds": arguments.max_seconds,
        "max_parameters": arguments.max_parameters,
        "prefer": arguments.prefer,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return Criteria(**chosen) if chosen else None


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


def _accuracy(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})( ?%)?", text)
    # The exponent, not a division: 98.7% must be the same float as 0.987.
    value = float(f"{found[1]}e-2" if found[2] else found[1]) if found else -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(
            "must be a fraction from 0 to 1, or a percentage with its sign as in 98.5%, "
            f"got {text[:30]!r}"
        )
    return value


def _seconds_above_zero(text: str) -> float:
    # As many digits as a stored value may have, so that it can be pasted.
    value = float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,30})?", text) else 0.0
    if value <= 0:
        raise argparse.ArgumentTypeError(
            f"must be seconds above 0 and below 1000000000, got {text[:30]!r}"
        )
    return value


def _preference(text: str) -> Preference:
    try:
        return Preference.read(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("prefer ")) from None
