"""The flags that say which trial of the front is wanted, and how their texts are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from fastrcaps_search.definition.objective import OBJECTIVES, Objective
from fastrcaps_search.errors import UsageError
from fastrcaps_search.front.criteria import Criteria, Preference, preferences


def criteria(parser: argparse.ArgumentParser) -> None:
    """Flags of the bounds and of the preference."""
    for objective in OBJECTIVES:
        words = f"{'least' if objective.maximise else 'most'} {objective.label}"
        parser.add_argument(
            f"--{objective.flag}",
            metavar=objective.letter.upper(),
            type=_reader(objective),
            help=f"{words}: {objective.scale.typed}".replace("%", "%%"),
        )
    parser.add_argument(
        "--prefer",
        metavar="X",
        type=_preference,
        help=f"{preferences()}: of the trials that fit, the one of "
        f"{', '.join(objective.best for objective in OBJECTIVES)}, or closest to the best of all "
        "at once, with weights where they are given (default: accuracy)",
    )


def given_criteria(arguments: argparse.Namespace) -> Criteria | None:
    """The criteria that the flags stand for; ``None`` where none of them was given."""
    bounds = {one.argument: getattr(arguments, one.argument) for one in OBJECTIVES}
    if arguments.prefer is None and not any(limit is not None for limit in bounds.values()):
        return None
    return Criteria.of(bounds, arguments.prefer or Preference())


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


def _reader(objective: Objective) -> Callable[[str], float]:
    """Reads a bound of an objective."""

    def parse(text: str) -> float:
        value = objective.scale.read(text)
        if value is None:
            raise argparse.ArgumentTypeError(f"must be {objective.scale.typed}, got {text[:30]!r}")
        return value

    return parse


def _preference(text: str) -> Preference:
    try:
        return Preference.read(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("prefer ")) from None
