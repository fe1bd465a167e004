"""Views of hand-made studies, and studies of every kind that a report must bear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.front.spread import spread
from fastrcaps_search.report.page import payload as page_payload
from fastrcaps_search.report.plots import Drawing
from fastrcaps_search.report.sections import figures as all_figures
from fastrcaps_search.report.sections import sections
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.holders import ClaimRecord, LeaseRecord
from fastrcaps_search.store.records import (
    EpochRecord,
    Failure,
    RunRecord,
    StudyRecord,
    TrialState,
)
from fastrcaps_search.store.trials import TrialRecord

if TYPE_CHECKING:
    from tests.report.conftest import Records

WRITTEN_AT = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>\u2028&amp;{{ 7 * 7 }}"
FAILURE = Failure("DivergedError", "diverged at epoch 2", "trace", "a.log")


def view_of(
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    leases: Sequence[LeaseRecord] = (),
    claims: Sequence[ClaimRecord] = (),
) -> ReportView:
    return ReportView(study, trials, leases, claims, written_at=WRITTEN_AT)


def figures(view: ReportView) -> dict[str, Mapping[str, Drawing]]:
    """Every figure of the page, by its name and measure of time."""
    return all_figures(sections(view))


def payload(view: ReportView) -> dict[str, Any]:
    """What the page's scripts read."""
    return page_payload(view, sections(view))


def with_runs(trial: TrialRecord, runs: Sequence[tuple[float, float]]) -> TrialRecord:
    """The trial with so many runs of these accuracies and seconds, the epochs the same in each."""
    return replace(
        trial,
        runs=tuple(
            replace(
                trial.runs[0], run=run, seed=7 + run, accuracy=accuracy, training_seconds=spent
            )
            for run, (accuracy, spent) in enumerate(runs)
        ),
        epochs=tuple(
            replace(epoch, run=run) for run, _ in enumerate(runs) for epoch in trial.epochs
        ),
        accuracy_spread=spread([accuracy for accuracy, _ in runs], most=1.0),
        seconds_spread=spread([spent for _, spent in runs]),
    )


def with_repeat(
    trial: TrialRecord, epochs: Sequence[EpochRecord], failure: Failure | None = None
) -> TrialRecord:
    """The trial with one more run that has these epochs: under way, or failed."""
    run = len(trial.runs)
    begun = RunRecord(
        run, 7 + run, trial.runs[0].setting, True, None, None, None, None, failure=failure
    )
    stored = (replace(epoch, run=run) for epoch in epochs)
    return replace(trial, runs=(*trial.runs, begun), epochs=(*trial.epochs, *stored))


def stored_of(kind: str, records: Records) -> ReportView:
    """A study of one of the ``KINDS``."""
    return replace(_MAKERS[kind](records), written_at=WRITTEN_AT)


def many(records: Records, number: int) -> list[TrialRecord]:
    """Complete trials of all policies with few ties; the front is long but not all of them."""
    choices = [trial.parameters for trial in records.trials()]
    return [
        records.complete(
            place,
            0.9 + 0.09 * ((place * 37) % number) / number,
            40.0 + ((place * 53) % 101),
            1_000_000 + 1_000 * ((place * 29) % 17),
            choice=choices[place % len(choices)],
        )
        for place in range(number)
    ]


def _empty(records: Records) -> ReportView:
    return ReportView(records.study(), [])


def _one(records: Records) -> ReportView:
    return ReportView(records.study(), records.trials()[:1])


def _failed(records: Records) -> ReportView:
    failed = [records.failed(number, FAILURE) for number in range(3)]
    return ReportView(records.study(), failed, [], [records.claim(0, 1, "w", 5.0)])


def _equal(records: Records) -> ReportView:
    trials = [records.complete(number, 0.9, 50.0, 1_000) for number in range(12)]
    return ReportView(records.study(), trials)


def _running(records: Records) -> ReportView:
    claims = [records.claim(0, 1, "worker-1", 10.0)]
    return ReportView(records.study(), [records.running(0)], [records.lease(0)], claims)


def _runs(records: Records) -> ReportView:
    """Two runs of each trial, of which the second took 120 s."""
    trials = [
        with_runs(trial, [(v.accuracy - 0.01, v.training_seconds), (v.accuracy + 0.01, 120.0)])
        for trial in records.trials()
        if (v := trial.values) is not None
    ]
    return ReportView(records.study(runs_per_trial=2), trials)


def _repeated(records: Records) -> ReportView:
    """Trials of one run, of two and of five; repeats under way, failed and diverged.

    Trial 5 has five runs. 2 and 9 have two; a third one of 2 is under way, of 9 it failed. A
    repeat of 3 diverged, which failed the trial. The others have one run.
    """
    trials = records.trials()
    trials[5] = with_runs(trials[5], [(0.968 + 0.001 * n, 90.0 + 2 * n) for n in range(5)])
    for number, seconds in ((2, 118.0), (9, 104.4)):
        accuracy = 0.962 if number == 2 else 0.948
        runs = [(accuracy - 0.002, seconds - 1), (accuracy + 0.002, seconds + 1)]
        trials[number] = with_runs(trials[number], runs)
    begun = [records.epoch_record(epoch, 0.1, 500.0) for epoch in (1, 2)]
    trials[2] = with_repeat(trials[2], begun)
    trials[9] = with_repeat(trials[9], begun[:1], Failure("E", "the disk <b>is</b> full", "", ""))
    trials[3] = with_repeat(trials[3], begun[:1], FAILURE)
    trials[3] = replace(
        trials[3], state=TrialState.FAILED, values=None, failure=FAILURE, finished_at=20_000.0
    )
    claims = [
        replace(
            records.claim(trial.number, 1, "w", trial.created_at + 12_000 * run.run), run=run.run
        )
        for trial in trials
        for run in trial.runs
    ]
    study = replace(records.study(budget=11), front_runs=5)
    return ReportView(study, trials, [replace(records.lease(2), run=2)], claims)


def _many(records: Records) -> ReportView:
    return ReportView(records.study(budget=300), many(records, 300))


def _devices(records: Records) -> ReportView:
    first, second = records.trials()[:2]
    other = replace(records.setting, device="cuda", device_name="A card <b>")
    second = replace(second, runs=(replace(second.runs[0], setting=other),))
    claims = [
        records.claim(0, 1, "worker-1", 5.0, host="desk"),
        records.claim(1, 1, "worker-1", 1005.0, host="server"),
    ]
    return ReportView(records.study(), [first, second], [], claims)


def _instant(records: Records) -> ReportView:
    """No seconds, no parameters and no error: zeros have no logarithm."""
    trials = [records.complete(0, 1.0, 0.0, 0), *records.trials()[1:3]]
    return ReportView(records.study(), trials)


def _paper(records: Records) -> ReportView:
    study = records.study(data_set="mnist", evaluate_on="test", network="capsnet")
    return ReportView(study, records.trials())


def _rates(records: Records) -> ReportView:
    """A space of continuous rates."""
    study = records.study(
        space={"lr_max": [1e-4, 1e-2], "lr_min": [1e-6, 1e-5], "batch_size": [4, 8, 16]}
    )
    trials = [
        records.complete(
            number,
            0.9 + 0.001 * number,
            50.0 + number**2 % 7,
            1_000.0,
            choice=TrialParameters.from_dict(
                {
                    "lr_policy": "one_cycle",
                    "batch_policy": "constant",
                    "batch_size": (4, 8, 16)[number % 3],
                    "decoder": "full",
                    "weight_sharing": False,
                    "lr_max": 1e-4 * 1.1**number,
                    "lr_min": 1e-6 * 1.05**number,
                }
            ),
        )
        for number in range(45)
    ]
    return ReportView(study, trials)


def _lengths(records: Records) -> ReportView:
    """Trainings of different lengths, decays and cycles, the last ones cut short."""
    space = {
        "epochs": [2, 3, 5],
        "decay_rate": [0.5, 0.99],
        "decay_steps": [22, 2000],
        "cycle_epochs": [1, 2],
        "cycle_growth": [1, 3],
    }
    own: list[tuple[str, dict[str, Any]]] = [
        ("exponential_decay", {"decay_rate": 0.5 + 0.02 * n, "decay_steps": (22, 2000)[n % 2]})
        for n in range(8)
    ]
    own += [
        ("warm_restarts", {"cycle_epochs": 1 + n % 2, "cycle_growth": (1, 3)[n // 2]})
        for n in range(4)
    ]
    trials = []
    for number, (policy, knobs) in enumerate(own):
        epochs = (2, 3, 5)[number % 3]
        choice = replace(records.parameters_of(policy), epochs=epochs, **knobs)
        trial = records.complete(number, 0.9 + 0.005 * number, 9.0 + number, 9.0, choice=choice)
        runs = (replace(trial.runs[0], best_epoch=epochs),)
        trials.append(replace(trial, runs=runs, epochs=trial.epochs[:epochs]))
    return ReportView(records.study(space=space), trials)


def _lenet5(records: Records) -> ReportView:
    study = records.study(network="lenet5", data_set="mnist")
    trials = [
        records.complete(
            number,
            0.98 + 0.001 * number,
            30.0 + number,
            61_706,
            choice=TrialParameters.from_dict({"lr_policy": policy, "batch_policy": "constant"}),
        )
        for number, policy in enumerate(["fixed", "one_cycle", "polynomial_restarts"])
    ]
    return ReportView(study, trials)


def _full(records: Records) -> ReportView:
    """Complete, failed and running trials, one of which another worker took over."""
    trials = [*records.trials(), records.failed(11, FAILURE), records.running(12)]
    claims = [
        records.claim(trial.number, 1, "worker-1", trial.created_at, host="desk/1f")
        for trial in trials
    ]
    claims.append(records.claim(3, 2, "worker-2", trials[3].created_at + 20))
    return ReportView(records.study(budget=13), trials, [records.lease(12)], claims)


_MAKERS = {
    "empty": _empty,
    "one": _one,
    "failed": _failed,
    "equal": _equal,
    "running": _running,
    "runs": _runs,
    "repeated": _repeated,
    "many": _many,
    "rates": _rates,
    "lengths": _lengths,
    "lenet5": _lenet5,
    "devices": _devices,
    "instant": _instant,
    "paper": _paper,
    "full": _full,
}
KINDS = tuple(_MAKERS)
