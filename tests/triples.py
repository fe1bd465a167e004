"""Values, candidates, boxes and bounds of the three objectives that every study has."""

from __future__ import annotations

from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.front.criteria import Criteria, Preference
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.front.selection import Candidate
from fastrcaps_search.store.records import Values


def values_of(accuracy: float, training_seconds: float, parameters: float) -> Values:
    """Values of a trial."""
    return Values(zip(COMMON, (accuracy, training_seconds, parameters), strict=True))


def candidate_of(number: int, *three: float) -> Candidate:
    """A trial on the front."""
    return Candidate(number, values_of(*three))


def box_of(**edges: tuple[float, float]) -> Box:
    """A box of these edges, worst and best."""
    return Box(edges)


def criteria_of(
    min_accuracy: float | None = None,
    max_seconds: float | None = None,
    max_parameters: float | None = None,
    prefer: Preference | None = None,
) -> Criteria:
    """Bounds and a preference."""
    bounds = (min_accuracy, max_seconds, max_parameters)
    given = {name: bound for name, bound in zip(COMMON, bounds, strict=True) if bound is not None}
    return Criteria(given, prefer or Preference())
