"""The trials on the front beside the most accurate one, on the same images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastrcaps_search.analysis.comparing import Hits, paired
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.paired import Paired
from fastrcaps_search.report.facts.trials import MOST_SHOWN, TrialView


@dataclass(frozen=True, slots=True)
class PairRow:
    """One trial against the most accurate one.

    Attributes:
        trial: The trial, the first of the two.
        run: Index of its run of highest accuracy.
        accuracy: Of that run.
        paired: How the two networks differ; ``None`` where the hits of one are not stored.
    """

    trial: TrialView
    run: int
    accuracy: float
    paired: Paired | None


def pair_rows(
    definition: StudyDefinition, front: Sequence[TrialView], hits: Hits
) -> tuple[PairRow, ...]:
    """All but the first of the trials on the front that figures show, against the first.

    Args:
        definition: The study's.
        front: The trials on the front, the most accurate first.
        hits: Which images their runs have right.
    """
    rows = []
    for trial in front[1:MOST_SHOWN]:
        run = trial.record.best_run
        if run is not None:
            found = paired(trial.record, front[0].record, hits, images=definition.evaluation_size)
            rows.append(PairRow(trial, run.run, run.accuracy or 0.0, found))
    return tuple(rows)
