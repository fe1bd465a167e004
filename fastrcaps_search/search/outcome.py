"""How a study stands, and what a run is about to do, in a line."""

from __future__ import annotations

from dataclasses import dataclass

from fastrcaps_search.analysis.remaining_work import RemainingWork
from fastrcaps_search.analysis.summary import eta_seconds
from fastrcaps_search.search import estimate
from fastrcaps_search.search.layouts import WorkerPlan
from fastrcaps_search.store.records import StudyRecord, TrialState
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.words import plural

LONG_TRIAL_SECONDS = 3600.0
MINI = "mnist-mini"


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a study stands, before a run or after it.

    Attributes:
        study: The study.
        trials: All its trials, without epochs.
        work: What is left to do.
        parting: Why the command ended with work left, where it was asked to, in words.
    """

    study: StudyRecord
    trials: tuple[TrialRecord, ...]
    work: RemainingWork
    parting: str = ""

    @property
    def all_failed(self) -> bool:
        """Whether no trial of a finished study has values."""
        return bool(self.trials) and all(t.state is TrialState.FAILED for t in self.trials)


def plan_line(plan: WorkerPlan, outcome: RunOutcome) -> str:
    """What will be done, on what, and about how long it will take."""
    work, definition = outcome.work, outcome.study.definition
    left = work.target - work.finished
    each = estimate.trial_seconds(definition, plan.step_seconds)
    runs = work.planned_runs or len(work.repeats)
    workers = min(plan.workers, max(runs, 1))
    # Nothing is known of a study without a run that has ended, nor of repeats.
    seconds = eta_seconds(outcome.study, outcome.trials, work, workers=workers)
    seconds = seconds or each / definition.runs_per_trial * runs / workers
    line = (
        f"{_study_in_words(outcome)}; {plan.words}; {estimate.in_words(seconds)}"
        f"{' before the repeats' if left and outcome.study.front_runs else ''}"
    )
    if each >= LONG_TRIAL_SECONDS:
        line += (
            f" ({estimate.in_words(each)} a trial; `--study {MINI}` shows everything in minutes)"
        )
    return line


def placing_line(outcome: RunOutcome, *, workers: int, launcher: str, share: str) -> str:
    """What will be done, by how many workers of an engine, and what each of them gets."""
    placed = f"{workers} worker{'s' if workers > 1 else ''} on {launcher}, each with {share}"
    return f"{_study_in_words(outcome)}; {placed if workers else f'no worker on {launcher}'}"


def _study_in_words(outcome: RunOutcome) -> str:
    work, definition = outcome.work, outcome.study.definition
    return (
        f"{outcome.study.name}: {work.finished}/{work.target} trials done, "
        f"{work.target - work.finished} to go; {_repeats_in_words(outcome)}"
        f"{definition.network} on {definition.data_set}, {definition.split_size} images x "
        f"{definition.epochs_in_words} x {definition.runs_per_trial} "
        f"run{'s' if definition.runs_per_trial > 1 else ''}"
    )


def _repeats_in_words(outcome: RunOutcome) -> str:
    left, planned = len(outcome.work.repeats), outcome.study.front_runs
    if not planned:
        return ""
    if outcome.work.is_searching:
        return f"then repeats until each on or near the front has {planned} runs; "
    return f"{plural(left, 'run')} to go until each on or near the front has {planned}; "
