"""What the command line and the page both say of a study: its front and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from fastrcaps_search.analysis.reference_seconds import ReferenceSeconds, reference_seconds
from fastrcaps_search.analysis.remaining_work import RemainingWork, remaining_work
from fastrcaps_search.analysis.signs import (
    Life,
    Stuck,
    WorkerStatus,
    interrupted_trials,
    stuck_reasons,
    worker_states,
)
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.store.holders import LeaseRecord, live_leases
from fastrcaps_search.store.reading import Signs, Snapshot
from fastrcaps_search.store.records import Purpose, StudyRecord, TrialState
from fastrcaps_search.store.trials import TrialRecord

A_WHILE = 0.1
"""Part of the epochs that other neighbours on the device may train without a warning; so may one
trial for each worker, as the last ones of a study do."""


@dataclass(frozen=True, slots=True)
class StudySummary:
    """Progress of a study and how far its values compare.

    Attributes:
        budget: Trials asked for.
        complete: Trials with values.
        infeasible: Those of them that are on no front.
        failed: Trials that failed.
        running: Trials without an end of which a worker holds a run now.
        interrupted: Trials without an end of which none does: they go on where they were.
        hypervolume: Share of the study's box that the front dominates, 0 to 1; ``None`` before
            the first complete trial, with which the box is stored. It goes by the means of the
            runs and only grows as trials are added; it may fall when repeats change a trial's
            means or fail it, or it is set aside.
        box: That box (see ``front.hypervolume``).
        eta_seconds: Estimated seconds until the budget is met; ``None`` where unknown.
        devices: Names of the devices that trained, sorted.
        sharing: Numbers of workers that shared a device during an epoch, sorted.
        torch_versions: Versions of torch that trained, sorted.
        work: What is left to do.
        seconds: Where the training seconds of complete trials come from.
        warnings: A sentence where some of these were computed, if epochs were read.
        workers: Who works on it, where that was asked for.
        stuck: What is stuck and why, where that was asked for.
    """

    budget: int
    complete: int
    infeasible: int
    failed: int
    running: int
    interrupted: int
    hypervolume: float | None
    box: Box | None
    eta_seconds: float | None
    devices: tuple[str, ...]
    sharing: tuple[int, ...]
    torch_versions: tuple[str, ...]
    seconds: ReferenceSeconds
    warnings: tuple[str, ...]
    work: RemainingWork
    workers: tuple[WorkerStatus, ...] = ()
    stuck: tuple[Stuck, ...] = ()

    @property
    def finished(self) -> int:
        """Trials that count towards the budget."""
        return self.complete + self.failed

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to train, and nobody works on it any more.

        Networks whose weights are gone never meet the test set: they keep nobody waiting.
        """
        return not (self.work.is_searching or self.work.repeats or self.workers)


def summarise(
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    leases: Sequence[LeaseRecord],
    *,
    possible: int | None = None,
    epochs_done: int = 0,
) -> StudySummary:
    """Sum a study up; devices and sharing come from epochs where the trials carry them.

    Args:
        study: The study.
        trials: All its trials.
        leases: The live ones.
        possible: Number of the study's configurations, where it is known.
        epochs_done: As for :func:`eta_seconds`.
    """
    work = remaining_work(study, trials, possible=possible)
    counts = Counter(trial.state for trial in trials)
    interrupted = interrupted_trials(trials, leases)
    settings = _settings(trials)
    # Estimates move with every trial that is added.
    means = [values for trial in trials if (values := trial.feasible_means) is not None]
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    seconds = reference_seconds(study, complete)
    return StudySummary(
        budget=study.budget,
        complete=counts[TrialState.COMPLETE],
        infeasible=sum(trial.infeasible is not None for trial in trials),
        failed=counts[TrialState.FAILED],
        running=counts[TrialState.RUNNING] - len(interrupted),
        interrupted=len(interrupted),
        hypervolume=None if study.box is None else study.box.share(means),
        box=study.box,
        eta_seconds=eta_seconds(study, trials, work, workers=len(leases), epochs_done=epochs_done),
        work=work,
        devices=tuple(sorted({setting.device_name for setting in settings})),
        sharing=_sharing(trials),
        torch_versions=tuple(sorted({setting.torch_version for setting in settings})),
        seconds=seconds,
        warnings=_warnings(complete, seconds),
    )


def status_of(seen: Snapshot, signs: Signs, *, possible: int | None, run: str) -> StudySummary:
    """Sum a study up, with its workers and what is stuck.

    Args:
        seen: The study, its trials and leases.
        signs: Signs of life of the same moment.
        possible: Number of the study's configurations, where it is known.
        run: The command line that goes on with it.
    """
    workers = worker_states(signs, seen.leases, study=seen.study)
    # A sign may be of a run that has ended since; then no lease of it is held.
    at = [one.epoch for one in workers if one.purpose == Purpose.TRAIN and one.epoch]
    summary = summarise(
        seen.study,
        seen.trials,
        live_leases(seen.leases),
        possible=possible,
        epochs_done=sum(at) - len(at),
    )
    if not (summary.work.is_searching or summary.work.repeats):
        # Whoever has gone is missed no more.
        return replace(summary, workers=tuple(one for one in workers if one.life is Life.ALIVE))
    return replace(summary, workers=workers, stuck=stuck_reasons(seen, signs, workers, run=run))


def eta_seconds(
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    work: RemainingWork,
    *,
    workers: int,
    epochs_done: int = 0,
) -> float | None:
    """Estimated seconds until the budget is met; ``None`` where unknown.

    Median wall-clock seconds per epoch of the runs with a result, times what remains, by worker.
    The median passes over a run that lay interrupted for a night. Runs to come count with the mean
    of the lengths that the study offers.

    Args:
        study: The study.
        trials: Its trials.
        work: What is left of it.
        workers: How many work on it.
        epochs_done: Epochs that those have behind them, of what is left.
    """
    definition = study.definition
    lengths = [
        max(run.finished_at - run.created_at, 0.0) / definition.epochs_of(trial.parameters)
        for trial in trials
        # One that failed did not take the time of all its epochs.
        for run in trial.results
        if run.finished_at is not None
    ]
    if not work.is_searching:
        return 0.0
    if not lengths:
        return None
    epochs = fmean(definition.offered_epochs) * work.planned_runs - epochs_done
    return median(lengths) * max(epochs, 0.0) / max(workers, 1)


def _settings(trials: Sequence[TrialRecord]) -> set[RunSetting]:
    # By identity first: epochs share their settings, which are slow to compare.
    found = {id(r.setting): r.setting for trial in trials for r in trial.runs if r.setting}
    found |= {id(epoch.setting): epoch.setting for trial in trials for epoch in trial.epochs}
    return set(found.values())


def _sharing(trials: Sequence[TrialRecord]) -> tuple[int, ...]:
    return tuple(sorted({epoch.sharing for trial in trials for epoch in trial.epochs}))


def _warnings(complete: Sequence[TrialRecord], seconds: ReferenceSeconds) -> tuple[str, ...]:
    """That seconds were computed, where the complete trials did not all train alike.

    Not where fewer workers than usual did so for a while on the device of the study: at its end
    there are always some.
    """
    epochs = [epoch for trial in complete for epoch in trial.epochs]
    computed = sum(epoch.computed_seconds is not None for epoch in epochs)
    settings = _settings(complete)
    mixed: dict[str, Sequence[object]] = {
        "devices": sorted({setting.device_name for setting in settings}),
        "versions of torch": sorted({setting.torch_version for setting in settings}),
        "numbers of threads": sorted({setting.threads for setting in settings}),
    }
    is_homogeneous = not any(len(each) > 1 for each in mixed.values())
    sharing = _sharing(complete)
    is_ordinary = computed <= A_WHILE * len(epochs) or seconds.computed <= max(sharing, default=0)
    if not (seconds.computed and epochs) or (is_homogeneous and is_ordinary):
        return ()
    mixed["numbers of workers per device"] = sharing
    found = "; ".join(
        f"{what} ({', '.join(map(str, each))})" for what, each in mixed.items() if len(each) > 1
    )
    return (
        f"The complete trials mix {found or 'settings'}: training seconds are {seconds.words}; "
        f"{seconds.worth}.",
    )
