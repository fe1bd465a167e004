"""The texts that flags accept, and how they are read. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from fastrcaps_search.definition.objective import OBJECTIVES, Objective
from fastrcaps_search.errors import UsageError
from fastrcaps_search.front.criteria import Criteria, Preference
from fastrcaps_search.report.formats import Format
from fastrcaps_search.typed import path_of

Item = TypeVar("Item")
Number = TypeVar("Number", int, float)

MOST_TRIALS = 1_000_000
MOST_WORKERS = 1_024
PLAIN_SECONDS = r"[0-9]{1,9}(\.[0-9]{1,9})?"
"""Neither signs nor exponents nor infinities."""


def whole(low: int, high: int, what: str = "a whole number") -> Callable[[str], int]:
    """Parser of whole numbers of a range."""

    def parse(text: str) -> int:
        # Longer texts cannot be in range, and Python refuses to read the longest.
        value = int(text) if re.fullmatch(r"-?\d{1,18}", text) else low - 1
        return _within(value, low, high, what, text)

    return parse


def seconds(low: float, high: float) -> Callable[[str], float]:
    """Parser of plain seconds within these limits."""

    def parse(text: str) -> float:
        value = float(text) if re.fullmatch(PLAIN_SECONDS, text) else low - 1
        return _within(value, low, high, "seconds", text)

    return parse


def _within(value: Number, low: Number, high: Number, what: str, text: str) -> Number:
    if not low <= value <= high:
        allowed = f"{what} from {low:.0f} to {high:.0f}"
        raise argparse.ArgumentTypeError(f"must be {allowed}, got {text[:30]!r}")
    return value


def workers(text: str) -> int | None:
    """A number of workers; ``None`` for ``auto``."""
    return None if text == "auto" else whole(0, MOST_WORKERS, "auto or a whole number")(text)


def launcher_option(text: str) -> tuple[str, str]:
    """``NAME=VALUE`` as a pair."""
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text[:60]!r}")
    return name, value


def word(kind: Iterable[Item]) -> Callable[[str], Item]:
    """Parser of one word of a closed set, or of the name of what is registered."""

    def parse(text: str) -> Item:
        words = {str(item): item for item in kind}
        if text not in words:
            allowed = " or ".join(words)
            raise argparse.ArgumentTypeError(f"must be {allowed}, got {text[:30]!r}")
        return words[text]

    return parse


def html_file(text: str) -> Path:
    """A file that is to be a page."""
    path = path_of(text, "--out")
    if path.suffix.lower() != ".html":
        raise UsageError(f"--out must end in .html, got {text!r}; the page is HTML")
    return path


def formats(text: str) -> tuple[Format, ...]:
    """Formats with commas between them."""
    given = text.lower().split(",")
    if set(given) - set(Format):
        raise argparse.ArgumentTypeError(
            f"must be one or more of {', '.join(Format)}, with commas, got {text[:60]!r}"
        )
    return tuple(Format(word) for word in dict.fromkeys(given))


def bound_of(objective: Objective) -> Callable[[str], float]:
    """Parser of a bound of an objective."""

    def parse(text: str) -> float:
        value = objective.scale.read(text)
        if value is None:
            raise argparse.ArgumentTypeError(f"must be {objective.scale.typed}, got {text[:30]!r}")
        return value

    return parse


def preference(text: str) -> Preference:
    """What is wanted most."""
    try:
        return Preference.read(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("prefer ")) from None


def given_criteria(arguments: argparse.Namespace) -> Criteria | None:
    """The criteria that the flags stand for; ``None`` where none of them was given."""
    bounds = {one.argument: getattr(arguments, one.argument) for one in OBJECTIVES}
    return Criteria.given(bounds, arguments.prefer)
