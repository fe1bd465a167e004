"""Which trial of the front to take, given bounds and a preference.

The page repeats this rule in JavaScript and must name the same trial. So it is made of plain
floats, whose operations give the same bits in both languages as long as their order is the same,
and no two trials are ever equal to it: the last tie is broken by the number.

1. A trial fits when its accuracy is at least A, its seconds are at most T and its parameters are
   at most P, compared as they are stored; a bound that is not given always holds.
2. Of the trials that fit, the first one in the order of the preference is taken:

   - accuracy: highest accuracy, then lowest seconds, fewest parameters, lowest number;
   - time: lowest seconds, then highest accuracy, fewest parameters, lowest number;
   - size: fewest parameters, then highest accuracy, lowest seconds, lowest number;
   - knee: smallest distance to the ideal point, then as for accuracy;
   - weights: the same with weights a, t, p in the distance; the knee has 1, 1, 1.

3. The distance is the Manhattan distance of Chiu, Yen and Juan (2016), "Minimum Manhattan Distance
   Approach to Multiple Criteria Decision Making in Multiobjective Optimization Problems", IEEE
   Transactions on Evolutionary Computation 20(6), arXiv:1705.01705: ``a * x + t * y + p * z``,
   from left to right. Here x, y and z are the trial's gaps to the best value of each objective
   over that objective's range: ``(best - value) / range`` for accuracy, ``(value - best) / range``
   for seconds and parameters, and 0 where the range is 0.
4. Best value and range are those of the whole front, not of the trials that fit. So bounds only
   ever remove trials from one fixed order, and tightening a bound that the chosen trial still
   meets never changes the choice.
5. Where no trial fits, the nearest ones are named, up to three, by shortfall and then as for
   accuracy. The shortfall is ``x + y + z``, from left to right, of ``max(0, A - value) / span``
   for accuracy and ``max(0, value - bound) / span`` for seconds and parameters, 0 for a bound
   that is not given. The span is the range over the front; where that is 0, the bound's absolute
   value; where that is 0 as well, 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.errors import FastrcapsError, NothingFitsError
from fastrcaps_search.front.criteria import Criteria, Preference, Rule, Weights, joined

MOST_NEAREST = 3
"""Trials that are named where none fits."""

KNEE_WEIGHTS: Weights = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial on the front: its number and its finite values, in natural units."""

    number: int
    accuracy: float
    training_seconds: float
    parameters: float


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
        accuracy: Fraction by which it is too low; 0 where it is not.
        training_seconds: Seconds by which they are too many; 0 where they are not.
        parameters: By how many they are too many; 0 where they are not.
    """

    number: int
    shortfall: float
    accuracy: float
    training_seconds: float
    parameters: float

    @property
    def missed(self) -> str:
        """What it misses, in words."""
        amounts = (
            (self.accuracy, f"accuracy {_amount(100 * self.accuracy)} percentage points too low"),
            (self.training_seconds, f"{_amount(self.training_seconds)} s too long"),
            (self.parameters, f"{self.parameters:,.0f} parameters too many"),
        )
        return joined([text for amount, text in amounts if amount > 0])


@dataclass(frozen=True, slots=True)
class NothingFits:
    """No trial fits.

    Attributes:
        nearest: The nearest ones, at most three.
    """

    nearest: tuple[NearMiss, ...]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Best value and range of each objective over the whole front."""

    best: tuple[float, float, float]
    span: tuple[float, float, float]

    @classmethod
    def of(cls, front: Sequence[Candidate]) -> _Scale:
        accuracy = [one.accuracy for one in front]
        seconds = [one.training_seconds for one in front]
        parameters = [one.parameters for one in front]
        return cls(
            best=(max(accuracy), min(seconds), min(parameters)),
            span=(
                max(accuracy) - min(accuracy),
                max(seconds) - min(seconds),
                max(parameters) - min(parameters),
            ),
        )

    def distance(self, one: Candidate, weights: Weights) -> float:
        """Distance to the ideal point (point 3 of the module)."""
        x = (self.best[0] - one.accuracy) / self.span[0] if self.span[0] else 0.0
        y = (one.training_seconds - self.best[1]) / self.span[1] if self.span[1] else 0.0
        z = (one.parameters - self.best[2]) / self.span[2] if self.span[2] else 0.0
        a, t, p = weights
        return a * x + t * y + p * z

    def near_miss(self, one: Candidate, criteria: Criteria) -> NearMiss:
        """What a trial misses (point 5 of the module)."""
        low, longest, most = criteria.min_accuracy, criteria.max_seconds, criteria.max_parameters
        accuracy = 0.0 if low is None else max(0.0, low - one.accuracy)
        seconds = 0.0 if longest is None else max(0.0, one.training_seconds - longest)
        parameters = 0.0 if most is None else max(0.0, one.parameters - most)
        x = accuracy / (self.span[0] or abs(low or 0.0) or 1.0)
        y = seconds / (self.span[1] or abs(longest or 0.0) or 1.0)
        z = parameters / (self.span[2] or abs(most or 0.0) or 1.0)
        return NearMiss(one.number, x + y + z, accuracy, seconds, parameters)


def choose(front: Sequence[Candidate], criteria: Criteria) -> Selection | NothingFits:
    """The trial to take, by the rule of this module, or the nearest ones where none fits.

    Args:
        front: All trials on the front, in any order.
        criteria: Bounds and preference.

    Raises:
        FastrcapsError: The front is empty.
    """
    if not front:
        raise FastrcapsError(
            "select needs a complete trial, but the study has none yet; run it until one is done"
        )
    scale = _Scale.of(front)
    fitting = [one for one in front if _fits(one, criteria)]
    if fitting:
        chosen = min(fitting, key=_order(criteria.prefer, scale))
        return Selection(chosen.number, _why(criteria, len(fitting)))
    misses = [(scale.near_miss(one, criteria), one) for one in front]
    misses.sort(key=lambda pair: (pair[0].shortfall, *_by_accuracy(pair[1])))
    return NothingFits(tuple(miss for miss, _ in misses[:MOST_NEAREST]))


def select_row(rows: Sequence[Mapping[str, Any]], criteria: Criteria) -> dict[str, Any]:
    """The row of the trial to take, with the reason as ``why``.

    Args:
        rows: Those of ``front --json``.
        criteria: Bounds and preference.

    Raises:
        NothingFitsError: No trial fits; it names the nearest ones.
        FastrcapsError: There are no rows.
    """
    front = [Candidate(number=row["trial"], **row["values"]) for row in rows]
    choice = choose(front, criteria)
    if isinstance(choice, NothingFits):
        raise NothingFitsError(_refusal(choice, criteria, len(front)))
    chosen = next(row for row in rows if row["trial"] == choice.number)
    return {**chosen, "why": choice.why}


def _fits(one: Candidate, criteria: Criteria) -> bool:
    low, longest, most = criteria.min_accuracy, criteria.max_seconds, criteria.max_parameters
    return (
        (low is None or one.accuracy >= low)
        and (longest is None or one.training_seconds <= longest)
        and (most is None or one.parameters <= most)
    )


def _by_accuracy(one: Candidate) -> tuple[float, ...]:
    return (-one.accuracy, one.training_seconds, one.parameters, one.number)


def _by_seconds(one: Candidate) -> tuple[float, ...]:
    return (one.training_seconds, -one.accuracy, one.parameters, one.number)


def _by_parameters(one: Candidate) -> tuple[float, ...]:
    return (one.parameters, -one.accuracy, one.training_seconds, one.number)


def _order(prefer: Preference, scale: _Scale) -> Callable[[Candidate], tuple[float, ...]]:
    """What trials that fit are sorted by; the smallest is taken."""
    if prefer.rule is Rule.ACCURACY:
        return _by_accuracy
    if prefer.rule is Rule.TIME:
        return _by_seconds
    if prefer.rule is Rule.SIZE:
        return _by_parameters
    weights = prefer.weights or KNEE_WEIGHTS
    return lambda one: (scale.distance(one, weights), *_by_accuracy(one))


def _why(criteria: Criteria, fitting: int) -> str:
    """Why the chosen trial was chosen among those that fit."""
    fits, fit = (" that fits", " that fit") if criteria.bounds else ("", "")
    if fitting == 1:
        return f"the only trial on the front{fits}"
    closest = "closest to the best value of every objective at once"
    weights = criteria.prefer.weights or KNEE_WEIGHTS
    what = {
        Rule.ACCURACY: "highest accuracy",
        Rule.TIME: "shortest training time",
        Rule.SIZE: "fewest parameters",
        Rule.KNEE: f"{closest} (knee)",
        Rule.WEIGHTS: f"{closest} ({_weights_in_words(weights)})",
    }[criteria.prefer.rule]
    return f"{what} of the {fitting} trials on the front{fit}"


def _weights_in_words(weights: Weights) -> str:
    a, t, p = weights
    return f"weights: accuracy {a:g}, time {t:g}, size {p:g}"


def _refusal(choice: NothingFits, criteria: Criteria, trials: int) -> str:
    """One line: what must hold, how many were looked at, the nearest ones, the next step."""
    found = "the only trial on the front does not"
    if trials > 1:
        found = f"none of the {trials} trials on the front fits"
    nearest = ", ".join(f"trial {miss.number} ({miss.missed})" for miss in choice.nearest)
    return (
        f"the trial must have {joined(criteria.bounds)}, but {found}; "
        f"nearest: {nearest}; loosen a bound or run more trials"
    )


def _amount(value: float) -> str:
    """A number that is not rounded to nothing."""
    return f"{value:,.2f}" if value >= 0.01 else f"{value:.1g}"
