"""The three objectives, in the order that is used everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    """Which way is better; the words are Optuna's."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True, slots=True)
class Objective:
    """One figure by which trials are compared.

    Attributes:
        name: Key in JSON, CSV and the database.
        direction: Which way is better.
        unit: Unit of the values; empty for a plain count or fraction.
        label: How a page or table names it.
    """

    name: str
    direction: Direction
    unit: str
    label: str

    @property
    def maximise(self) -> bool:
        """Whether larger values are better."""
        return self.direction is Direction.MAXIMIZE


ACCURACY = Objective("accuracy", Direction.MAXIMIZE, "", "accuracy")
TRAINING_SECONDS = Objective("training_seconds", Direction.MINIMIZE, "s", "training time")
PARAMETERS = Objective("parameters", Direction.MINIMIZE, "", "learned parameters")

OBJECTIVES = (ACCURACY, TRAINING_SECONDS, PARAMETERS)
MAXIMISE = tuple(objective.maximise for objective in OBJECTIVES)
