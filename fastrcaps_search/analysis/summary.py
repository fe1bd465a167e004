"""What the command line and the page both say of a study: its front and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from fastrcaps_search.definition.choices import EvaluateOn
from fastrcaps_search.definition.objective import MAXIMISE
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.box import Box
from fastrcaps_search.front.dominance import front_mask, minimisation_view
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.store.holders import LeaseRecord
from fastrcaps_search.store.records import StudyRecord, TrialRecord, TrialState, Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        stopped: Trials that were stopped early.
        failed: Trials that failed.
        running: Trials without an end, whether or not a worker holds them now.
        hypervolume: Share of the study's box that the front dominates, 0 to 1; ``None`` before
            the first complete trial, with which the box is stored. It goes by the means of the
            runs and only grows as trials are added; it may fall when repeats change a trial's
            means or fail it, or it is set aside.
        box: That box (see ``front.box``).
        eta_seconds: Estimated seconds until the budget is met; ``None`` where unknown.
        devices: Names of the devices that trained, sorted.
        sharing: Numbers of workers that shared a device during an epoch, sorted.
        torch_versions: Versions of torch that trained, sorted.
        warnings: One sentence for each reason why the seconds of complete trials do not compare.
    """

    budget: int
    complete: int
    infeasible: int
    stopped: int
    failed: int
    running: int
    hypervolume: float | None
    box: Box | None
    eta_seconds: float | None
    devices: tuple[str, ...]
    sharing: tuple[int, ...]
    torch_versions: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def finished(self) -> int:
        """Trials that count towards the budget."""
        return self.complete + self.stopped + self.failed


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
    target = study.budget if possible is None else min(possible, study.budget)
    counts = Counter(trial.state for trial in trials)
    settings = _settings(trials)
    return StudySummary(
        budget=study.budget,
        complete=counts[TrialState.COMPLETE],
        infeasible=sum(trial.infeasible is not None for trial in trials),
        stopped=counts[TrialState.STOPPED],
        failed=counts[TrialState.FAILED],
        running=counts[TrialState.RUNNING],
        hypervolume=None if study.box is None else study.box.share(_measured(trials)),
        box=study.box,
        eta_seconds=_eta_seconds(study.definition, target, trials, len(leases)),
        devices=tuple(sorted({setting.device_name for setting in settings})),
        sharing=_sharing(trials),
        torch_versions=tuple(sorted({setting.torch_version for setting in settings})),
        warnings=_warnings([trial for trial in trials if trial.state is TrialState.COMPLETE]),
    )


def front_numbers(trials: Sequence[TrialRecord]) -> list[int]:
    """Numbers of the feasible trials that no other feasible trial dominates.

    Sorted by accuracy, highest first, then by seconds, then by number. Trials of equal values
    are all on the front.
    """
    valued = _valued(trials)
    mask = front_mask(_points([values for _, values in valued]))
    front = [pair for pair, on_front in zip(valued, mask, strict=True) if on_front]
    front.sort(key=lambda pair: (-pair[1].accuracy, pair[1].training_seconds, pair[0].number))
    return [trial.number for trial, _ in front]


def _valued(trials: Sequence[TrialRecord]) -> list[tuple[TrialRecord, Values]]:
    return [
        (trial, trial.feasible_values) for trial in trials if trial.feasible_values is not None
    ]


def _points(values: Sequence[Values]) -> NDArray[np.float64]:
    return minimisation_view([value.as_tuple() for value in values], maximise=MAXIMISE)


def _measured(trials: Sequence[TrialRecord]) -> list[tuple[float, float, float]]:
    """Means of the runs of feasible trials; estimates move with every trial that is added."""
    means = (trial.feasible_means for trial in trials)
    return [values.as_tuple() for values in means if values is not None]


def _eta_seconds(
    definition: StudyDefinition, target: int, trials: Sequence[TrialRecord], workers: int
) -> float | None:
    """Median wall-clock seconds per epoch of the finished trials, times what remains, by worker.

    The median passes over a trial that lay interrupted for a night. Trials to come count with the
    mean of the lengths that the study offers.
    """
    lengths = [
        max(trial.finished_at - trial.created_at, 0.0) / definition.epochs_of(trial.parameters)
        for trial in trials
        if trial.is_finished and trial.finished_at is not None
    ]
    remaining = max(target - sum(trial.is_finished for trial in trials), 0)
    if remaining == 0:
        return 0.0
    if not lengths:
        return None
    return median(lengths) * fmean(definition.offered_epochs) * remaining / max(workers, 1)


def _settings(trials: Sequence[TrialRecord]) -> set[RunSetting]:
    # By identity first: epochs share their settings, which are slow to compare.
    found = {id(run.setting): run.setting for trial in trials for run in trial.runs}
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
        f"{_exceptions(what, complete)}): compare their training seconds with care."
        for what, found in mixed.items()
        if len(found) > 1
    )


def _exceptions(what: str, complete: Sequence[TrialRecord]) -> str:
    """Which trials did not train as most did, where those are few: the last ones of a study."""
    if what != SHARING:
        return ""
    counts = Counter(epoch.sharing for trial in complete for epoch in trial.epochs)
    usual = counts.most_common(1)[0][0]
    others = [t.number for t in complete if any(epoch.sharing != usual for epoch in t.epochs)]
    if len(others) > MOST_EXCEPTIONS:
        return ""
    return f"; not always {usual} in trial{'s' * (len(others) > 1)} {', '.join(map(str, others))}"


def untested_front(study: StudyRecord, trials: Sequence[TrialRecord]) -> list[int]:
    """Trials on the front whose best weights have not met the test set yet.

    A study that evaluates on the test set has nothing more to read.
    """
    if study.definition.evaluate_on is EvaluateOn.TEST:
        return []
    return [number for number in front_numbers(trials) if trials[number].untested]
