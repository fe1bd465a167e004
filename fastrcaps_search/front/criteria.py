"""What a user asks of the trial to be chosen: bounds that it must meet, and what to prefer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real

from fastrcaps_search.definition.checks import shown
from fastrcaps_search.definition.objective import (
    ACCURACY,
    PARAMETERS,
    TRAINING_SECONDS,
    Objective,
)
from fastrcaps_search.errors import UsageError

Weights = tuple[float, float, float]
"""Of accuracy, training seconds and parameters, the order of the objectives."""

PREFERENCES = "accuracy, time, size, knee or weights=a,t,p"
"""How a preference is written."""

WEIGHTS_PREFIX = "weights="


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What may be asked of one objective: how it is typed, checked and told.

    The page reads bounds by the same patterns and tells misses in the same words.

    Attributes:
        name: Field of :class:`Criteria`.
        objective: What it bounds.
        label: Before it on the page.
        pattern: The texts that stand for a number, and after it a sign of per cent.
        typed: Which texts these are, in words.
        number: Which numbers it may be, in words.
        zero_fits: Whether it may be 0.
        most: The largest that it may be, where there is one.
        is_whole: Whether it must be a whole number.
        factor: What numbers are told times.
        held: Says that it holds.
        missed: Says by how much a trial misses it.
        weighs: The objective in the words of weights.
    """

    name: str
    objective: Objective
    label: str
    pattern: str
    typed: str
    number: str
    zero_fits: bool = False
    most: float | None = None
    is_whole: bool = False
    factor: int = 1
    held: str
    missed: str
    weighs: str

    @property
    def flag(self) -> str:
        """Its flag, without the dashes."""
        return self.name.replace("_", "-")

    def read(self, text: str) -> float | None:
        """The number that a text stands for; ``None`` for another text."""
        found = re.fullmatch(self.pattern, text)
        if found is None:
            return None
        percent = found.lastindex == 2
        # The exponent, not a division: 98.7% must be the same float as 0.987.
        value = float(f"{found[1]}e-2" if percent else found[1])
        return value if self.allows(value) else None

    def allows(self, value: object) -> bool:
        """Whether it may be that, a number of NumPy's included."""
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        try:
            number = float(value)
        except OverflowError:  # a whole number that no float can hold
            return False
        return (
            math.isfinite(number)
            and (number > 0 or (self.zero_fits and number == 0))
            and (self.most is None or value <= self.most)
            and (not self.is_whole or number % 1 == 0)
        )

    def miss(self, amount: float) -> str:
        """What a trial misses it by, in words."""
        told = self.factor * amount
        # Not rounded to nothing.
        digits = ",.0f" if self.is_whole else ",.2f" if told >= 0.01 else ".1g"
        return self.missed.format(f"{told:{digits}}")


BOUNDS = (
    Bound(
        name="min_accuracy",
        objective=ACCURACY,
        label="at least accuracy",
        pattern=r"([0-9]{1,3}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})( ?%)?",
        typed="a fraction from 0 to 1, or a percentage with its sign as in 98.5%",
        number="a fraction from 0 to 1 (98.5 % is 0.985)",
        zero_fits=True,
        most=1,
        factor=100,
        held="accuracy of at least {:.12g} %",
        missed="accuracy {} percentage points too low",
        weighs="accuracy",
    ),
    Bound(
        name="max_seconds",
        objective=TRAINING_SECONDS,
        label="at most seconds",
        # As many digits as a stored value may have, so that it can be pasted.
        pattern=r"([0-9]{1,9}(?:\.[0-9]{1,30})?)",
        typed="seconds above 0 and below 1000000000",
        number="finite seconds above 0",
        held="at most {:.12g} s of training",
        missed="{} s too long",
        weighs="time",
    ),
    Bound(
        name="max_parameters",
        objective=PARAMETERS,
        label="at most parameters",
        pattern=r"([0-9]{1,12}|1000000000000)",
        typed="a whole number from 1 to 1000000000000",
        number="a whole number above 0",
        is_whole=True,
        held="at most {:,.0f} parameters",
        missed="{} parameters too many",
        weighs="size",
    ),
)
"""A bound for each objective, in their order."""


class Rule(StrEnum):
    """How trials that meet the bounds are put in order."""

    ACCURACY = "accuracy"
    TIME = "time"
    SIZE = "size"
    KNEE = "knee"
    WEIGHTS = "weights"


_CLOSEST = "closest to the best value of every objective at once"
REASONS = {
    Rule.ACCURACY: "highest accuracy",
    Rule.TIME: "shortest training time",
    Rule.SIZE: "fewest parameters",
    Rule.KNEE: f"{_CLOSEST} (knee)",
    Rule.WEIGHTS: f"{_CLOSEST} (weights: {{}})",
}
"""Why a trial comes first under each rule."""


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
        usable = len(given) == 3 and all(map(_is_weight, given))
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
        for bound, given in zip(BOUNDS, self.limits, strict=True):
            if given is None:
                continue
            if not bound.allows(given):
                raise UsageError(f"{bound.name} must be {bound.number}, got {shown(given)}")
            object.__setattr__(self, bound.name, float(given))

    @property
    def limits(self) -> tuple[float | None, ...]:
        """The bound of each objective, in their order."""
        return (self.min_accuracy, self.max_seconds, self.max_parameters)

    @property
    def bounds(self) -> tuple[str, ...]:
        """Every bound in words, in the order of the objectives."""
        return tuple(
            bound.held.format(bound.factor * limit)
            for bound, limit in zip(BOUNDS, self.limits, strict=True)
            if limit is not None
        )


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


def _is_weight(value: object) -> bool:
    """Whether it is a finite number of at least 0."""
    return BOUNDS[1].allows(value) or (value == 0 and not isinstance(value, bool))
