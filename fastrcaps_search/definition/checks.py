"""Checks that turn what a study file holds into typed values, or say what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fastrcaps_search.errors import DefinitionError
from fastrcaps_search.registry import Registry

Item = TypeVar("Item")


LONGEST_SHOWN = 80
"""Characters of a wrong value or key that a message repeats."""


def plain(value: object) -> bool | int | float | str:
    """A value of a definition as JSON has it."""
    return value if isinstance(value, bool | int | float) else str(value)


def shown(value: object) -> str:
    """``value`` as a study file would write it, shortened to one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return shortened(f'"{value}"')
    if isinstance(value, list | tuple):
        items = ("[...]" if isinstance(item, list | tuple) else shown(item) for item in value)
        return shortened(f"[{', '.join(items)}]")
    if isinstance(value, dict):
        return "a table"
    # Python refuses to write out integers of thousands of digits.
    huge = isinstance(value, int) and abs(value) >= 10**LONGEST_SHOWN
    return f"a number of more than {LONGEST_SHOWN} digits" if huge else shortened(str(value))


def shortened(text: str) -> str:
    """``text`` in one line of at most ``LONGEST_SHOWN`` characters, the others escaped."""
    start = text[: LONGEST_SHOWN + 1]
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in start)
    return line if len(line) <= LONGEST_SHOWN else line[: LONGEST_SHOWN - 3] + "..."


def listed(words: Iterable[object]) -> str:
    """``a, b or c``."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def integer(value: object, key: str, *, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise DefinitionError(
            f"must be a whole number from {low} to {high}, got {shown(value)}", key=key
        )
    return value


def number(value: object, key: str, *, above: float, high: float) -> float:
    """A finite number greater than ``above`` and at most ``high``."""
    # NaN and the infinities are outside every range.
    if isinstance(value, int | float) and not isinstance(value, bool) and above < value <= high:
        return float(value)
    raise DefinitionError(
        f"must be a number above {above:g} and at most {high:g}, got {shown(value)}", key=key
    )


def from_zero(value: object, key: str, *, high: float) -> float:
    """A finite number from 0 to ``high``."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= high:
        return float(value) + 0.0  # -0.0 is 0.0
    raise DefinitionError(f"must be a number from 0 to {high:g}, got {shown(value)}", key=key)


def boolean(value: object, key: str) -> bool:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        raise DefinitionError(f"must be true or false, got {shown(value)}", key=key)
    return value


def text(value: object, key: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DefinitionError(f"must be a text in quotes, got {shown(value)}", key=key)
    return value


def choice(value: object, key: str, kind: Iterable[Item]) -> Item:
    """One word of a closed set, or what is registered by a name."""
    for item in kind:
        if value in (item, str(item)):
            return item
    raise DefinitionError(f"must be {listed(kind)}, got {shown(value)}", key=key)


def word(value: object, key: str, words: Registry[Any]) -> str:
    """The name of something registered."""
    if isinstance(value, str) and value in words:
        return value
    raise DefinitionError(f"must be {listed(words.names)}, got {shown(value)}", key=key)


def choices(value: object, key: str, one: Callable[[object, str], Item]) -> tuple[Item, ...]:
    """A list of at least one value, none twice, each checked by ``one``."""
    if not isinstance(value, list | tuple):
        raise DefinitionError(f"must be a list such as [...], got {shown(value)}", key=key)
    if not value:
        raise DefinitionError("must offer at least one choice, got []", key=key)
    found = tuple(one(item, key) for item in value)
    if len(set(found)) != len(found):
        raise DefinitionError(f"must not repeat a choice, got {shown(value)}", key=key)
    return found


def known_keys(keys: Iterable[str], allowed: Iterable[str], *, prefix: str = "") -> None:
    """Refuse the first key that is not allowed, naming all that are."""
    allowed = list(allowed)
    for key in keys:
        if key not in allowed:
            raise DefinitionError(
                f"unknown key; allowed are {', '.join(allowed)}",
                key=f"{prefix}{shortened(key)}",
            )


def table(value: object, key: str) -> dict[str, Any]:
    """A TOML table."""
    if not isinstance(value, dict):
        raise DefinitionError(f"must be a table [{key}], got {shown(value)}", key=key)
    return value
