"""What a user asks of the trial to be chosen: bounds that it must meet, and what to prefer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from fastrcaps_search.definition.checks import shown
from fastrcaps_search.definition.objective import COMMON, OBJECTIVES, SECONDS
from fastrcaps_search.errors import UsageError

KNEE, WEIGHTS = "knee", "weights"
"""Rules beside those that put one objective first."""
WEIGHTS_PREFIX = f"{WEIGHTS}="
CLOSEST = "closest to the best value of every objective at once"


def rules() -> list[str]:
    """How trials that meet the bounds may be put in order, but for weights."""
    return [*(objective.word for objective in OBJECTIVES), KNEE]


def reasons() -> dict[str, str]:
    """Why a trial comes first under each rule."""
    return {
        **{objective.word: objective.best for objective in OBJECTIVES},
        KNEE: f"{CLOSEST} ({KNEE})",
        WEIGHTS: f"{CLOSEST} ({WEIGHTS}: {{}})",
    }


def preferences() -> str:
    """How a preference is written."""
    letters = ",".join(objective.letter for objective in OBJECTIVES)
    return f"{', '.join(rules())} or {WEIGHTS_PREFIX}{letters}"


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of the trials that meet the bounds is wanted.

    Attributes:
        rule: How they are put in order: the word of an objective, the knee, or weights.
        weights: Of ``WEIGHTS`` alone, by objective, in the order of the study's; all 1 would be
            the knee.

    Raises:
        UsageError: Weights that are missing, out of place or not of use.
    """

    rule: str = "accuracy"
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.rule != WEIGHTS:
            if self.weights is not None:
                raise UsageError(
                    f"weights must be left out with {self.rule}, got {shown(self.weights)}"
                )
            return
        given = () if self.weights is None else tuple(self.weights)
        if not (_fits_objectives(given) and all(map(_is_weight, given)) and any(given)):
            words = joined([objective.word for objective in OBJECTIVES])
            raise UsageError(
                f"weights must be finite numbers of at least 0, one each of {words}, and not all "
                f"0, got {shown(given)}"
            )
        object.__setattr__(self, "weights", tuple(map(float, given)))

    @classmethod
    def read(cls, text: str) -> Preference:
        """The preference that a text stands for.

        Args:
            text: As :func:`preferences` has it.

        Raises:
            UsageError: It is another text.
        """
        if text in rules():
            return cls(text)
        advice = ""
        if isinstance(text, str) and text.startswith(WEIGHTS_PREFIX):
            advice = " with a number for each objective, as in weights=1,0.5,2"
            with suppress(ValueError):
                weights = tuple(map(float, text.removeprefix(WEIGHTS_PREFIX).split(",")))
                if _fits_objectives(weights):
                    return cls(WEIGHTS, weights)
        raise UsageError(f"prefer must be {preferences()}{advice}, got {shown(text)}")


@dataclass(frozen=True, slots=True)
class Criteria:
    """The bounds of the trial to be chosen and the preference among those that meet them.

    Attributes:
        limits: The bound of an objective by its name, itself allowed; of some or none of them.
        prefer: The preference.

    Raises:
        UsageError: A bound that is no such number.
    """

    limits: Mapping[str, float] = field(default_factory=dict)
    prefer: Preference = Preference()

    def __post_init__(self) -> None:
        for name, given in self.limits.items():
            objective = OBJECTIVES[name]
            if not objective.scale.allows(given):
                raise UsageError(
                    f"{objective.argument} must be {objective.scale.number}, got {shown(given)}"
                )
        found = {name: float(given) for name, given in self.limits.items()}
        object.__setattr__(self, "limits", found)

    @classmethod
    def of(cls, bounds: Mapping[str, float | None], prefer: Preference) -> Criteria:
        """The criteria of arguments in Python.

        Args:
            bounds: By ``Objective.argument``: ``max_seconds``; ``None`` for no bound.
            prefer: The preference.

        Raises:
            UsageError: A bound that there is not, or that is no such number.
        """
        known = {objective.argument: objective.name for objective in OBJECTIVES}
        for argument in bounds.keys() - known.keys():
            raise UsageError(f"a bound must be {joined(list(known), 'or')}, got {argument}")
        given = {known[name]: limit for name, limit in bounds.items() if limit is not None}
        return cls(given, prefer)

    @classmethod
    def given(
        cls, bounds: Mapping[str, float | None], prefer: Preference | None
    ) -> Criteria | None:
        """The same, or ``None`` where neither a bound nor a preference is given."""
        if prefer is None and all(limit is None for limit in bounds.values()):
            return None
        return cls.of(bounds, prefer or Preference())

    @property
    def bounds(self) -> tuple[str, ...]:
        """Every bound in words, in the order of the objectives."""
        return tuple(
            objective.bound(self.limits[objective.name])
            for objective in OBJECTIVES
            if objective.name in self.limits
        )


def joined(texts: Sequence[str], word: str = "and") -> str:
    """``a, b and c``."""
    return f" {word} ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _fits_objectives(weights: Sequence[object]) -> bool:
    """Whether a study may have so many objectives; it need not have all that there are."""
    return len(COMMON) <= len(weights) <= len(OBJECTIVES)


def _is_weight(value: object) -> bool:
    """Whether it is a finite number of at least 0."""
    return SECONDS.allows(value) or (value == 0 and not isinstance(value, bool))
