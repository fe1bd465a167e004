"""Objectives: each one object, found by its name, in the order that is used everywhere.

The first three are those of every study. A plug-in registers others, which a study names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import TYPE_CHECKING

from fastrcaps_search.registry import Registry

if TYPE_CHECKING:
    from fastrcaps_search.metrics import EpochMetrics


class Direction(StrEnum):
    """Which way is better; the words are Optuna's."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The numbers of an objective: how a bound of one is typed and checked.

    Attributes:
        pattern: The texts that stand for a number, and after it a sign of per cent.
        typed: Which texts these are, in words.
        number: Which numbers a bound may be, in words.
        zero_fits: Whether it may be 0.
        most: The largest that it may be, where there is one.
        is_whole: Whether it must be a whole number.
        factor: What numbers are told times.
    """

    pattern: str
    typed: str
    number: str
    zero_fits: bool = False
    most: float | None = None
    is_whole: bool = False
    factor: int = 1

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
        """Whether a bound may be that, a number of NumPy's included."""
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


FRACTIONS = Scale(
    pattern=r"([0-9]{1,3}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})( ?%)?",
    typed="a fraction from 0 to 1, or a percentage with its sign as in 98.5%",
    number="a fraction from 0 to 1 (98.5 % is 0.985)",
    zero_fits=True,
    most=1,
    factor=100,
)
# As many digits as a stored value may have, so that it can be pasted.
SECONDS = Scale(
    pattern=r"([0-9]{1,9}(?:\.[0-9]{1,30})?)",
    typed="seconds above 0 and below 1000000000",
    number="finite seconds above 0",
)
COUNTS = Scale(
    pattern=r"([0-9]{1,12}|1000000000000)",
    typed="a whole number from 1 to 1000000000000",
    number="a whole number above 0",
    is_whole=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One figure by which trials are compared.

    Attributes:
        name: Key in JSON, CSV and the database.
        direction: Which way is better.
        scale: Its numbers.
        unit: Unit of the values; empty for a plain count or fraction.
        label: How a page or table names it.
        flag: Flag of its bound, without the dashes; with underscores the argument in Python.
        word: It in the words of preferences and weights.
        best: Why a trial comes first that is preferred by it.
        held: Says that a bound holds.
        missed: Says by how much a trial misses it.
        measure: Value of a run from its epochs up to the best one and its number of learned
            parameters; ``None`` for those of every study.
    """

    name: str
    direction: Direction
    scale: Scale
    unit: str = ""
    label: str
    flag: str
    word: str
    best: str
    held: str
    missed: str
    measure: Callable[[Sequence[EpochMetrics], int], float] | None = None

    @property
    def maximise(self) -> bool:
        """Whether larger values are better."""
        return self.direction is Direction.MAXIMIZE

    @property
    def argument(self) -> str:
        """Its bound as an argument in Python."""
        return self.flag.replace("-", "_")

    @property
    def column(self) -> str:
        """Head of its column in a table: accuracy, seconds, parameters."""
        return self.flag.partition("-")[2]

    @property
    def letter(self) -> str:
        """What stands for a number of it in a usage line."""
        return self.name[0]

    def cost(self, value: float) -> float:
        """The value, less is better."""
        return -value if self.maximise else value

    def bound(self, limit: float) -> str:
        """A bound in words."""
        return self.held.format(self.scale.factor * limit)

    def miss(self, amount: float) -> str:
        """What a trial misses it by, in words."""
        told = self.scale.factor * amount
        # Not rounded to nothing.
        digits = ",.0f" if self.scale.is_whole else ",.2f" if told >= 0.01 else ".1g"
        return self.missed.format(f"{told:{digits}}")


OBJECTIVES: Registry[Objective] = Registry("objective")

ACCURACY = OBJECTIVES.register(
    Objective(
        name="accuracy",
        direction=Direction.MAXIMIZE,
        scale=FRACTIONS,
        label="accuracy",
        flag="min-accuracy",
        word="accuracy",
        best="highest accuracy",
        held="accuracy of at least {:.12g} %",
        missed="accuracy {} percentage points too low",
    )
)
TRAINING_SECONDS = OBJECTIVES.register(
    Objective(
        name="training_seconds",
        direction=Direction.MINIMIZE,
        scale=SECONDS,
        unit="s",
        label="training time",
        flag="max-seconds",
        word="time",
        best="shortest training time",
        held="at most {:.12g} s of training",
        missed="{} s too long",
    )
)
PARAMETERS = OBJECTIVES.register(
    Objective(
        name="parameters",
        direction=Direction.MINIMIZE,
        scale=COUNTS,
        label="learned parameters",
        flag="max-parameters",
        word="size",
        best="fewest parameters",
        held="at most {:,.0f} parameters",
        missed="{} parameters too many",
    )
)

COMMON = (ACCURACY.name, TRAINING_SECONDS.name, PARAMETERS.name)
"""The objectives of every study, first among its own."""


def objectives(names: Sequence[str]) -> tuple[Objective, ...]:
    """The objectives of these names."""
    return tuple(OBJECTIVES[name] for name in names)


def costs_of(values: Mapping[str, float]) -> tuple[float, ...]:
    """Values by objective in their order, less is better."""
    return tuple(OBJECTIVES[name].cost(value) for name, value in values.items())


def measured(
    names: Sequence[str], spent: Sequence[EpochMetrics], parameters: int
) -> dict[str, float]:
    """Values of a run in those of the objectives that are not common to all studies.

    Args:
        names: The study's objectives.
        spent: The run's epochs up to the best one.
        parameters: Its number of learned parameters.
    """
    return {
        objective.name: float(objective.measure(spent, parameters))
        for objective in objectives(names)
        if objective.measure is not None
    }
