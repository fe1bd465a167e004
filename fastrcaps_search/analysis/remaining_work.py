"""What is left to do in a study: the one answer that all who ask share.

Workers claim by it, the driver starts workers and ends by it, and ``status``, the page, the
estimate of time and the exit code say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastrcaps_search.analysis.front import front_numbers, near_front_numbers
from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.store.records import RunKey, StudyRecord, TrialState
from fastrcaps_search.store.trials import TrialRecord


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """What is left to do, held or not, in the order in which it is to be done.

    Attributes:
        target: Trials that the study can and should end with.
        finished: Trials that have ended.
        runs: Planned runs of the trials that have begun.
        trials: Trials to begin.
        repeats: More runs of the trials on or near the front, as things stand: which those are
            may change with every run.
        tests: Runs of the front whose best weights are to meet the test set, once nothing else is
            left.
        exhausted: Whether the space has no more configurations for the budget.
        runs_per_trial: Planned runs of each trial.
    """

    target: int
    finished: int
    runs: tuple[RunKey, ...]
    trials: int
    repeats: tuple[RunKey, ...]
    tests: tuple[RunKey, ...]
    exhausted: bool
    runs_per_trial: int

    @property
    def is_searching(self) -> bool:
        """Whether trials are still to begin or to end."""
        return bool(self.trials or self.runs)

    @property
    def planned_runs(self) -> int:
        """Runs until the budget is met."""
        return self.trials * self.runs_per_trial + len(self.runs)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not (self.is_searching or self.repeats or self.tests)

    @property
    def at_once(self) -> int:
        """How many workers find something to do at once, now or once the trials have ended."""
        return max(self.planned_runs, len(self.repeats), len(self.tests))


def remaining_work(
    study: StudyRecord, trials: Sequence[TrialRecord], *, possible: int | None
) -> RemainingWork:
    """What is left to do.

    Args:
        study: The study.
        trials: All its trials, by number, with accuracies as ``analysis.estimates`` gives them.
        possible: Number of the study's configurations, where it is known.
    """
    planned = study.definition.runs_per_trial
    target = study.budget if possible is None else min(possible, study.budget)
    running = [trial for trial in trials if trial.state is TrialState.RUNNING]
    new = max(target - len(trials), 0)
    runs = [key for trial in running for key in _missing(trial, planned)]
    repeats = due_repeats(trials, study.front_runs)
    # Which networks meet the test set is known once all runs have ended.
    is_last = not (new or runs or repeats)
    return RemainingWork(
        target=target,
        finished=len(trials) - len(running),
        runs=tuple(runs),
        trials=new,
        repeats=tuple(repeats),
        tests=tuple(untested_front(study, trials)) if is_last else (),
        exhausted=target < study.budget,
        runs_per_trial=planned,
    )


def due_repeats(trials: Sequence[TrialRecord], runs: int) -> list[RunKey]:
    """Runs that the trials on or near the front lack, all first repeats before the second ones.

    Which trials those are changes with every run: a first one tells how far the runs of a trial
    scatter, and so which others may well belong on the front.

    Args:
        trials: All trials of the study.
        runs: Runs that each is to have in all, runs that failed included; 0 for none planned.
    """
    if all(len(trial.ended_runs) >= runs for trial in trials):
        return []
    near = set(near_front_numbers(trials))
    # After the first repeat the spread is a guess, and half the study may seem near: the front's
    # own second runs tell better.
    front = set(front_numbers(trials))
    due = [key for t in trials if t.number in near for key in _missing(t, runs)]
    return sorted(due, key=lambda key: (key.run, key.number not in front, key.number))


def untested_front(study: StudyRecord, trials: Sequence[TrialRecord]) -> list[RunKey]:
    """Runs of the front whose best weights have not met the test set yet.

    A study that evaluates on the test set has nothing more to read.
    """
    if study.definition.evaluate_on is EvaluateOn.TEST:
        return []
    front = set(front_numbers(trials))
    on_front = [trial for trial in trials if trial.number in front]
    return [RunKey(trial.number, run.run) for trial in on_front for run in trial.untested]


def _missing(trial: TrialRecord, runs: int) -> list[RunKey]:
    """Of so many first runs those that have not ended."""
    ended = {run.run for run in trial.ended_runs}
    return [RunKey(trial.number, run) for run in range(runs) if run not in ended]
