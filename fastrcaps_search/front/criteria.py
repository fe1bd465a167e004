"""What a user asks of the trial to be chosen: bounds that it must meet, and what to prefer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Any

from fastrcaps_search.definition.checks import shown
from fastrcaps_search.errors import UsageError

Weights = tuple[float, float, float]
"""Of accuracy, training seconds and parameters, the order of the objectives."""

PREFERENCES = "accuracy, time, size, knee or weights=a,t,p"
"""How a preference is written."""

WEIGHTS_PREFIX = "weights="

BOUNDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("min_accuracy", lambda v: 0 <= v <= 1, "a fraction from 0 to 1 (98.5 % is 0.985)"),
    ("max_seconds", lambda v: v > 0, "finite seconds above 0"),
    ("max_parameters", lambda v: v > 0 and v % 1 == 0, "a whole number above 0"),
)
"""Each bound, what must hold for it, and that in words."""


class Rule(StrEnum):
    """How trials that meet the bounds are put in order."""

    ACCURACY = "accuracy"
    TIME = "time"
    SIZE = "size"
    KNEE = "knee"
    WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of the trials that meet the bounds is wanted.

    Attributes:
        rule: How they are put in order.
        weights: Of ``Rule.WEIGHTS`` alone; 1, 1, 1 would be the knee.

    Raises:
        UsageError: Weights that are missing, out of place or not of use.
    """

    rule: Rule = Rule.ACCURACY
    weights: Weights | None = None

    def __post_init__(self) -> None:
        if self.rule is not Rule.WEIGHTS:
            if self.weights is not None:
                raise UsageError(
                    f"weights must be left out with {self.rule}, got {shown(self.weights)}"
                )
            return
        given = () if self.weights is None else tuple(self.weights)
        usable = len(given) == 3 and all(_is_number(one, lambda v: v >= 0) for one in given)
        if not usable or not any(given):
            raise UsageError(
                "weights must be three finite numbers of at least 0, of accuracy, time and size, "
                f"and not all 0, got {shown(given)}"
            )
        accuracy, seconds, parameters = map(float, given)
        object.__setattr__(self, "weights", (accuracy, seconds, parameters))

    @classmethod
    def read(cls, text: str) -> Preference:
        """The preference that a text stands for.

        Args:
            text: As in :data:`PREFERENCES`.

        Raises:
            UsageError: It is another text.
        """
        if isinstance(text, str) and text.startswith(WEIGHTS_PREFIX):
            return cls(Rule.WEIGHTS, _weights(text))
        if isinstance(text, str) and text in set(Rule) - {Rule.WEIGHTS}:
            return cls(Rule(text))
        raise UsageError(f"prefer must be {PREFERENCES}, got {shown(text)}")


@dataclass(frozen=True, slots=True)
class Criteria:
    """The bounds of the trial to be chosen and the preference among those that meet them.

    Attributes:
        min_accuracy: Fraction from 0 to 1, itself allowed; ``None`` for no bound.
        max_seconds: Training seconds above 0, themselves allowed; ``None`` for no bound.
        max_parameters: A whole number above 0, itself allowed; ``None`` for no bound.
        prefer: The preference.

    Raises:
        UsageError: A bound that is no such number.
    """

    min_accuracy: float | None = None
    max_seconds: float | None = None
    max_parameters: float | None = None
    prefer: Preference = Preference()

    def __post_init__(self) -> None:
        for name, holds, what in BOUNDS:
            given = getattr(self, name)
            if given is None:
                continue
            if not _is_number(given, holds):
                raise UsageError(f"{name} must be {what}, got {shown(given)}")
            object.__setattr__(self, name, float(given))

    @property
    def bounds(self) -> tuple[str, ...]:
        """Every bound in words, in the order of the objectives."""
        words = []
        if self.min_accuracy is not None:
            words.append(f"accuracy of at least {100 * self.min_accuracy:.12g} %")
        if self.max_seconds is not None:
            words.append(f"at most {self.max_seconds:.12g} s of training")
        if self.max_parameters is not None:
            words.append(f"at most {self.max_parameters:,.0f} parameters")
        return tuple(words)


def joined(texts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _weights(text: str) -> Weights:
    """The three weights of ``weights=a,t,p``; whether they are of use is checked later."""
    try:
        a, t, p = map(float, text.removeprefix(WEIGHTS_PREFIX).split(","))
    except ValueError:
        raise UsageError(
            f"prefer must be {PREFERENCES} with three numbers a, t and p, as in weights=1,0.5,2, "
            f"got {shown(text)}"
        ) from None
    return a, t, p


def _is_number(value: object, holds: Callable[[Any], bool]) -> bool:
    """Whether the value is a finite number, one of NumPy's included, for which that holds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value) and holds(value)
    except OverflowError:  # a whole number that no float can hold
        return False
