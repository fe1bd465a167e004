"""Which accuracies count: better than guessing, and as high as asked."""

from __future__ import annotations

from fastrcaps_search.definition.study import StudyDefinition

GUESSING = "not better than guessing"


def infeasible_reason(definition: StudyDefinition, accuracy: float) -> str | None:
    """Why a complete trial of that mean accuracy is on no front; ``None`` for a feasible one."""
    # Said so that a NaN counts as guessing.
    if not accuracy >= definition.least_feasible_accuracy:
        return GUESSING
    least = definition.min_accuracy
    if least is not None and accuracy < least:
        return f"accuracy below the study's min_accuracy {100 * least:.6g} %"
    return None
