"""Checks that turn what a study file holds into typed values, or say what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fastrcaps_search.errors import DefinitionError
from fastrcaps_search.registry import Registry

Check = Callable[[object, str], Any]
"""Gives the typed value of a value and its key, or raises DefinitionError."""

LONGEST_SHOWN = 80
"""Characters of a wrong value or key that a message repeats."""


def plain(value: object) -> Any:  # noqa: ANN401  # of any kind
    """A value of a definition as JSON has it."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


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


def wrong(value: object, key: str, must: str) -> DefinitionError:
    """The error for a value of which something else must hold."""
    return DefinitionError(f"must {must}, got {shown(value)}", key=key)


def whole(low: int, high: int) -> Check:
    """A whole number from ``low`` to ``high``."""

    def check(value: object, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise wrong(value, key, f"be a whole number from {low} to {high}")
        return value

    return check


def above_zero(high: float) -> Check:
    """A finite number above 0 and at most ``high``."""
    return _number(f"above 0 and at most {high:g}", lambda number: 0 < number <= high)


def from_zero(high: float) -> Check:
    """A finite number from 0 to ``high``."""
    return _number(f"from 0 to {high:g}", lambda number: 0 <= number <= high)


def _number(which: str, fits: Callable[[float], bool]) -> Check:
    def check(value: object, key: str) -> float:
        # NaN and the infinities are outside every range.
        if isinstance(value, int | float) and not isinstance(value, bool) and fits(value):
            return float(value) + 0.0  # -0.0 is 0.0
        raise wrong(value, key, f"be a number {which}")

    return check


def boolean(value: object, key: str) -> bool:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        raise wrong(value, key, "be true or false")
    return value


def text(value: object, key: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise wrong(value, key, "be a text in quotes")
    return value


def table(value: object, key: str) -> dict[str, Any]:
    """A TOML table."""
    if not isinstance(value, dict):
        raise wrong(value, key, f"be a table [{key}]")
    return value


def one_of(items: Iterable[object]) -> Check:
    """One word of a closed set, or what is registered by a name."""

    def check(value: object, key: str) -> object:
        for item in items:
            if value in (item, str(item)):
                return item
        raise wrong(value, key, f"be {listed(items)}")

    return check


def name_in(registry: Registry[Any]) -> Check:
    """The name of something registered."""

    def check(value: object, key: str) -> str:
        if isinstance(value, str) and value in registry:
            return value
        raise wrong(value, key, f"be {listed(registry.names)}")

    return check


def list_of(one: Check) -> Check:
    """A list of at least one value, none twice, each checked by ``one``."""

    def check(value: object, key: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise wrong(value, key, "be a list such as [...]")
        if not value:
            raise wrong(value, key, "offer at least one choice")
        found = tuple(one(item, key) for item in value)
        if len(set(found)) != len(found):
            raise wrong(value, key, "not repeat a choice")
        return found

    return check


def range_of(one: Check) -> Check:
    """A lowest and a highest value, each checked by ``one``."""

    def check(value: object, key: str) -> tuple[Any, Any]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise wrong(value, key, "be a range [lowest, highest]")
        low, high = (one(item, key) for item in value)
        if low >= high:
            raise wrong(value, key, "rise from lowest to highest")
        return low, high

    return check


def known_keys(keys: Iterable[str], allowed: Iterable[str], *, prefix: str = "") -> None:
    """Refuse the first key that is not allowed, naming all that are."""
    allowed = list(allowed)
    for key in keys:
        if key not in allowed:
            raise DefinitionError(
                f"unknown key; allowed are {', '.join(allowed)}",
                key=f"{prefix}{shortened(key)}",
            )
