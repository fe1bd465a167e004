"""What the command line and the page both say of a study: its front and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from fastrcaps_search.analysis.remaining_work import RemainingWork, remaining_work
from fastrcaps_search.front.hypervolume import Box
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.records import StudyRecord, TrialState
from fastrcaps_search.store.trials import TrialRecord

SHARING = "numbers of workers per device"
MOST_EXCEPTIONS = 6
"""Trials that a warning names one by one."""


@dataclass(frozen=True, slots=True)
class StudySummary:
    """Progress of a study and how far its values compare.

    Attributes:
        budget: Trials asked for.
        complete: Trials with values.
        infeasible: Those of them that are on no front.
        failed: Trials that failed.
        running: Trials without an end, whether or not a worker holds them now.
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
        warnings: One sentence for each reason why the seconds of complete trials do not compare.
    """

    budget: int
    complete: int
    infeasible: int
    failed: int
    running: int
    hypervolume: float | None
    box: Box | None
    eta_seconds: float | None
    devices: tuple[str, ...]
    sharing: tuple[int, ...]
    torch_versions: tuple[str, ...]
    warnings: tuple[str, ...]
    work: RemainingWork

    @property
    def finished(self) -> int:
        """Trials that count towards the budget."""
        return self.complete + self.failed


def summarise(
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    leases: Sequence[LeaseRecord],
    *,
    possible: int | None = None,
) -> StudySummary:
    """Sum a study up; devices and sharing come from epochs where the trials carry them.

    Args:
        study: The study.
        trials: All its trials.
        leases: The live ones.
        possible: Number of the study's configurations, where it is known.
    """
    work = remaining_work(study, trials, possible=possible)
    counts = Counter(trial.state for trial in trials)
    settings = _settings(trials)
    # Estimates move with every trial that is added.
    means = [values for trial in trials if (values := trial.feasible_means) is not None]
    return StudySummary(
        budget=study.budget,
        complete=counts[TrialState.COMPLETE],
        infeasible=sum(trial.infeasible is not None for trial in trials),
        failed=counts[TrialState.FAILED],
        running=counts[TrialState.RUNNING],
        hypervolume=None if study.box is None else study.box.share(means),
        box=study.box,
        eta_seconds=eta_seconds(study, trials, work, workers=len(leases)),
        work=work,
        devices=tuple(sorted({setting.device_name for setting in settings})),
        sharing=_sharing(trials),
        torch_versions=tuple(sorted({setting.torch_version for setting in settings})),
        warnings=_warnings([trial for trial in trials if trial.state is TrialState.COMPLETE]),
    )


def eta_seconds(
    study: StudyRecord, trials: Sequence[TrialRecord], work: RemainingWork, *, workers: int
) -> float | None:
    """Estimated seconds until the budget is met; ``None`` where unknown.

    Median wall-clock seconds per epoch of the runs with a result, times what remains, by worker.
    The median passes over a run that lay interrupted for a night. Runs to come count with the mean
    of the lengths that the study offers.
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
    epochs = fmean(definition.offered_epochs) * work.planned_runs
    return median(lengths) * epochs / max(workers, 1)


def _settings(trials: Sequence[TrialRecord]) -> set[RunSetting]:
    # By identity first: epochs share their settings, which are slow to compare.
    found = {id(r.setting): r.setting for trial in trials for r in trial.runs if r.setting}
    found |= {id(epoch.setting): epoch.setting for trial in trials for epoch in trial.epochs}
    return set(found.values())


def _sharing(trials: Sequence[TrialRecord]) -> tuple[int, ...]:
    return tuple(sorted({epoch.sharing for trial in trials for epoch in trial.epochs}))


def _warnings(complete: Sequence[TrialRecord]) -> tuple[str, ...]:
    """Why the seconds of complete trials do not compare, if they do not."""
    settings = _settings(complete)
    mixed: dict[str, Sequence[object]] = {
        "devices": sorted({setting.device_name for setting in settings}),
        "versions of torch": sorted({setting.torch_version for setting in settings}),
        "numbers of threads": sorted({setting.threads for setting in settings}),
        SHARING: _sharing(complete),
    }
    return tuple(
        f"The complete trials mix {what} ({', '.join(map(str, found))}"
        f"{_exceptions(complete) if what == SHARING else ''}): compare their training seconds "
        "with care."
        for what, found in mixed.items()
        if len(found) > 1
    )


def _exceptions(complete: Sequence[TrialRecord]) -> str:
    """Which trials did not train as most did, where those are few: the last ones of a study."""
    counts = Counter(epoch.sharing for trial in complete for epoch in trial.epochs)
    usual = counts.most_common(1)[0][0]
    others = [t.number for t in complete if any(epoch.sharing != usual for epoch in t.epochs)]
    if len(others) > MOST_EXCEPTIONS:
        return ""
    return f"; not always {usual} in trial{'s' * (len(others) > 1)} {', '.join(map(str, others))}"
