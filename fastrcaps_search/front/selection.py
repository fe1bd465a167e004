"""Which trial of the front to take, given bounds and a preference.

The page applies this rule while a bound is typed, and must name the same trial. So it is made of
plain floats, whose operations give the same bits in JavaScript as long as their order is the same,
and no two trials are ever equal to it: the last tie is broken by the number. Objectives to
maximise are negated, which rounds nothing.

1. A trial fits when no cost is above the bound of its objective, compared as they are stored; a
   bound that is not given always holds. A cost is a value of which less is better: the negated
   accuracy, the seconds, the parameters.
2. Of the trials that fit, the first one in the order of the preference is taken:

   - the word of an objective (accuracy, time, size): lowest cost in it, then in the order of the
     objectives: highest accuracy, lowest seconds, fewest parameters; then lowest number;
   - knee: smallest distance to the ideal point, then as for accuracy;
   - weights: the same with one weight per objective in the distance; the knee has 1 for each.

3. The distance is the Manhattan distance of Chiu, Yen and Juan (2016), "Minimum Manhattan Distance
   Approach to Multiple Criteria Decision Making in Multiobjective Optimization Problems", IEEE
   Transactions on Evolutionary Computation 20(6), arXiv:1705.01705: ``a * x + t * y + p * z``,
   from left to right. Here x, y and z are the trial's gaps to the best value of each objective
   over that objective's range: ``(cost - best) / range``, and 0 where the range is 0.
4. Best value and range are those of the whole front, not of the trials that fit. So bounds only
   ever remove trials from one fixed order, and tightening a bound that the chosen trial still
   meets never changes the choice.
5. Where no trial fits, the nearest ones are named, up to three, by shortfall and then as for
   accuracy. The shortfall is the sum, from left to right, of ``max(0, cost - bound) / span``, 0
   for a bound that is not given. The span is the range over the front; where that is 0, the
   bound's absolute value; where that is 0 as well, 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.definition.objective import OBJECTIVES, Objective, costs_of, objectives
from fastrcaps_search.errors import FastrcapsError, NothingFitsError, UsageError
from fastrcaps_search.front.criteria import Criteria, Preference, joined, reasons

MOST_NEAREST = 3
"""Trials that are named where none fits."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial on the front: its number and its finite values, in natural units, by objective."""

    number: int
    values: Mapping[str, float]

    @property
    def costs(self) -> tuple[float, ...]:
        """Its values in the order of the objectives, less is better."""
        return costs_of(self.values)

    @property
    def order(self) -> tuple[float, ...]:
        """What breaks ties: highest accuracy, lowest seconds, fewest parameters, lowest number."""
        return (*self.costs, self.number)


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen trial.

    Attributes:
        number: Its number.
        why: In plain words.
    """

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A trial that does not fit, and by how much.

    Attributes:
        number: Its number.
        shortfall: What trials are compared by (point 5 of the module).
        missed: What it misses, in words.
    """

    number: int
    shortfall: float
    missed: str


@dataclass(frozen=True, slots=True)
class NothingFits:
    """No trial fits.

    Attributes:
        nearest: The nearest ones, at most three.
    """

    nearest: tuple[NearMiss, ...]


def select(front: Sequence[Candidate], criteria: Criteria) -> Selection | NothingFits:
    """The trial to take, by the rule of this module, or the nearest ones where none fits.

    Args:
        front: All trials on the front, in any order.
        criteria: Bounds and preference.

    Raises:
        FastrcapsError: The front is empty.
        UsageError: A bound or weights of other objectives than the study's.
    """
    if not front:
        raise FastrcapsError(
            "select needs a complete trial, but the study has none yet; run it until one is done"
        )
    known = objectives(tuple(front[0].values))
    _require_known(criteria, known)
    columns = list(zip(*(one.costs for one in front), strict=True))
    best, spans = [min(each) for each in columns], [max(each) - min(each) for each in columns]
    bounds = criteria.limits
    # No cost is above the infinity of a bound that is not given.
    limits = [one.cost(bounds[one.name]) if one.name in bounds else math.inf for one in known]
    fitting = [one for one in front if all(map(operator.le, one.costs, limits))]
    if fitting:
        chosen = min(fitting, key=_order(criteria.prefer, known, best, spans))
        return Selection(chosen.number, _why(criteria, known, len(fitting)))
    misses = [(_near_miss(one, known, limits, spans), one) for one in front]
    misses.sort(key=lambda pair: (pair[0].shortfall, *pair[1].order))
    return NothingFits(tuple(miss for miss, _ in misses[:MOST_NEAREST]))


def _near_miss(
    trial: Candidate, known: Sequence[Objective], limits: Sequence[float], spans: Sequence[float]
) -> NearMiss:
    """What a trial misses (point 5 of the module)."""
    amounts = [max(0.0, cost - limit) for cost, limit in zip(trial.costs, limits, strict=True)]
    spanned = zip(amounts, spans, limits, strict=True)
    shortfall = _sum(amount / (span or abs(limit) or 1.0) for amount, span, limit in spanned)
    missed = zip(known, amounts, strict=True)
    words = joined([one.miss(amount) for one, amount in missed if amount > 0])
    return NearMiss(trial.number, shortfall, words)


def _require_known(criteria: Criteria, known: Sequence[Objective]) -> None:
    names, words = [one.name for one in known], [one.word for one in known]
    others = [OBJECTIVES[name].word for name in criteria.limits if name not in names]
    others += [one.word for one in OBJECTIVES if one.word == criteria.prefer.rule]
    if any(word not in words for word in others):
        raise UsageError(f"criteria must be of the study's objectives, {joined(words)}")
    weights = criteria.prefer.weights
    if weights is not None and len(weights) != len(known):
        raise UsageError(
            f"weights must be one each of the study's {joined(words)}, got {len(weights)}"
        )


def select_row(rows: Sequence[Mapping[str, Any]], criteria: Criteria) -> dict[str, Any]:
    """The row of the trial to take, with the reason as ``why``.

    Args:
        rows: Those of ``front --json``.
        criteria: Bounds and preference.

    Raises:
        NothingFitsError: No trial fits; it names the nearest ones.
        FastrcapsError: There are no rows.
    """
    front = [Candidate(row["trial"], row["values"]) for row in rows]
    found = select(front, criteria)
    if isinstance(found, NothingFits):
        raise NothingFitsError(_refusal(found, criteria, len(front)))
    chosen = next(row for row in rows if row["trial"] == found.number)
    return {**chosen, "why": found.why}


def _sum(parts: Iterable[float]) -> float:
    """The sum from left to right; the ``sum`` of later Pythons rounds less often."""
    total = 0.0
    for part in parts:
        total += part
    return total


def _order(
    prefer: Preference, known: Sequence[Objective], best: Sequence[float], spans: Sequence[float]
) -> Callable[[Candidate], tuple[float, ...]]:
    """What trials that fit are sorted by; the smallest is taken."""
    words = [objective.word for objective in known]
    if prefer.rule in words:
        first = words.index(prefer.rule)
        return lambda one: (one.costs[first], *one.order)
    weights = prefer.weights or (1.0,) * len(known)

    def distance(one: Candidate) -> float:
        """To the ideal point (point 3 of the module)."""
        parts = zip(weights, one.costs, best, spans, strict=True)
        return _sum(
            weight * ((cost - least) / span if span else 0.0)
            for weight, cost, least, span in parts
        )

    return lambda one: (distance(one), *one.order)


def _why(criteria: Criteria, known: Sequence[Objective], fitting: int) -> str:
    """Why the chosen trial was chosen among those that fit."""
    fits, fit = (" that fits", " that fit") if criteria.bounds else ("", "")
    if fitting == 1:
        return f"the only trial on the front{fits}"
    weights = zip(known, criteria.prefer.weights or (1.0,) * len(known), strict=True)
    words = ", ".join(
        f"{objective.word} {weight!r}".removesuffix(".0") for objective, weight in weights
    )
    what = reasons()[criteria.prefer.rule].format(words)
    return f"{what} of the {fitting} trials on the front{fit}"


def _refusal(nothing: NothingFits, criteria: Criteria, trials: int) -> str:
    """One line: what must hold, how many were looked at, the nearest ones, the next step."""
    found = "the only trial on the front does not"
    if trials > 1:
        found = f"none of the {trials} trials on the front fits"
    nearest = ", ".join(f"trial {miss.number} ({miss.missed})" for miss in nothing.nearest)
    return (
        f"the trial must have {joined(criteria.bounds)}, but {found}; "
        f"nearest: {nearest}; loosen a bound or run more trials"
    )
