"""The exit code of a run whose workers have ended before all was done."""

from __future__ import annotations

import pytest

from fastrcaps_search.analysis.remaining_work import remaining_work
from fastrcaps_search.cli.run import _judge
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import RunError
from fastrcaps_search.search.outcome import RunOutcome
from fastrcaps_search.store.records import RunRecord, StudyRecord
from fastrcaps_search.store.trials import TrialRecord


def outcome(*, budget: int, repeats: int) -> RunOutcome:
    """How a study of one complete trial stands."""
    definition = StudyDefinition.from_dict({"name": "s", "evaluate_on": "test"})
    study = StudyRecord(1, "s", "uid", definition, 0, budget, 0.0, front_runs=repeats)
    trial = TrialRecord.of(
        definition,
        number=0,
        parameters=next(iter(definition.assignments())),
        configuration_key="k",
        created_at=0.0,
        runs=(RunRecord(0, 0, None, True, 0.9, 1.0, 1, None, 10, finished_at=1.0),),
    )
    return RunOutcome(study, (trial,), remaining_work(study, [trial], possible=None))


def test_nothing_left_is_success() -> None:
    _judge(outcome(budget=1, repeats=1), "s")


@pytest.mark.parametrize(
    ("budget", "repeats", "said"),
    [
        (1, 3, r"1/1 trials are done and 2 runs of the front are left, but no worker is left; "),
        (2, 0, r"1/2 trials are done, but no worker is left; run the same line again"),
    ],
)
def test_what_is_left_is_no_success(budget: int, repeats: int, said: str) -> None:
    with pytest.raises(RunError, match=said):
        _judge(outcome(budget=budget, repeats=repeats), "s")
