"""Which complete trials count: better than guessing, as accurate as asked, not set aside."""

from __future__ import annotations

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.records import SetAside, StudyRecord, TrialRecord, Values

GUESSING = "not better than guessing"
WORST = 1.0
"""Violation of a trial that diverged or was set aside: as far off as an accuracy can be."""


def infeasible_reason(
    definition: StudyDefinition, values: Values, set_aside: SetAside | None
) -> str | None:
    """Why a complete trial is on no front; ``None`` for a feasible one.

    Args:
        definition: The study's.
        values: Means over its runs.
        set_aside: Who has set it aside, if anybody has.
    """
    if set_aside is not None:
        return f"set aside by {set_aside.by}: {set_aside.why}"
    # Said so that a NaN counts as guessing.
    if not values.accuracy >= definition.least_feasible_accuracy:
        return GUESSING
    least = definition.min_accuracy
    if least is not None and values.accuracy < least:
        return f"accuracy below the study's min_accuracy {100 * least:.6g} %"
    return None


def violation(study: StudyRecord, trial: TrialRecord) -> float | None:
    """By how much a trial fails to be feasible, above 0, for the sampler; ``None`` for others.

    A diverged trial has no accuracy and is as far off as can be.
    """
    if trial.failure is not None and trial.failure.is_divergence:
        return WORST
    if trial.infeasible is None or trial.values is None:
        return None
    definition = study.definition
    least = max(definition.least_feasible_accuracy, definition.min_accuracy or 0.0)
    missing = least - trial.values.accuracy
    return missing if trial.set_aside is None and missing > 0 else WORST
