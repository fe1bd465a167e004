"""Views of hand-made studies, and studies of every kind that a report must bear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.report.facts.view import ReportView, StoredStudy, report_view
from fastrcaps_search.store.records import (
    ClaimRecord,
    Failure,
    LeaseRecord,
    StudyRecord,
    TrialRecord,
    TrialState,
)

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
    stored = StoredStudy(study, trials, leases, claims)
    return report_view(stored, written_at=WRITTEN_AT, version="0.1.0")


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
    )


def stored_of(kind: str, records: Records) -> StoredStudy:
    """A study of one of the ``KINDS``."""
    return _MAKERS[kind](records)


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


def _empty(records: Records) -> StoredStudy:
    return StoredStudy(records.study(), [])


def _one(records: Records) -> StoredStudy:
    return StoredStudy(records.study(), records.trials()[:1])


def _failed(records: Records) -> StoredStudy:
    failed = [records.failed(number, FAILURE) for number in range(3)]
    return StoredStudy(records.study(), failed, [], [records.claim(0, 1, "w", 5.0)])


def _equal(records: Records) -> StoredStudy:
    trials = [records.complete(number, 0.9, 50.0, 1_000) for number in range(12)]
    return StoredStudy(records.study(), trials)


def _running(records: Records) -> StoredStudy:
    claims = [records.claim(0, 1, "worker-1", 10.0)]
    return StoredStudy(records.study(), [records.running(0)], [records.lease(0)], claims)


def _stopped(records: Records) -> StoredStudy:
    first, second = records.trials()[:2]
    second = replace(second, state=TrialState.STOPPED, values=None)
    claims = [records.claim(1, 1, "w", 1001.0)]
    return StoredStudy(records.study(), [first, second], [], claims)


def _runs(records: Records) -> StoredStudy:
    """Two runs of each trial, of which the second took 120 s."""
    trials = [
        with_runs(trial, [(v.accuracy - 0.01, v.training_seconds), (v.accuracy + 0.01, 120.0)])
        for trial in records.trials()
        if (v := trial.values) is not None
    ]
    return StoredStudy(records.study(runs_per_trial=2), trials)


def _many(records: Records) -> StoredStudy:
    return StoredStudy(records.study(budget=300), many(records, 300))


def _devices(records: Records) -> StoredStudy:
    first, second = records.trials()[:2]
    other = replace(records.setting, device="cuda", device_name="A card <b>")
    second = replace(second, runs=(replace(second.runs[0], setting=other),))
    claims = [
        records.claim(0, 1, "worker-1", 5.0, host="desk"),
        records.claim(1, 1, "worker-1", 1005.0, host="server"),
    ]
    return StoredStudy(records.study(), [first, second], [], claims)


def _instant(records: Records) -> StoredStudy:
    """No seconds, no parameters and no error: zeros have no logarithm."""
    trials = [records.complete(0, 1.0, 0.0, 0), *records.trials()[1:3]]
    return StoredStudy(records.study(), trials)


def _paper(records: Records) -> StoredStudy:
    study = records.study(data_set="mnist", evaluate_on="test", network="capsnet")
    return StoredStudy(study, records.trials())


def _rates(records: Records) -> StoredStudy:
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
    return StoredStudy(study, trials)


def _lenet5(records: Records) -> StoredStudy:
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
    return StoredStudy(study, trials)


def _full(records: Records) -> StoredStudy:
    """Complete, failed and running trials, one of which another worker took over."""
    trials = [*records.trials(), records.failed(11, FAILURE), records.running(12)]
    claims = [
        records.claim(trial.number, 1, "worker-1", trial.created_at, host="desk/1f")
        for trial in trials
    ]
    claims.append(records.claim(3, 2, "worker-2", trials[3].created_at + 20))
    return StoredStudy(records.study(budget=13), trials, [records.lease(12)], claims)


_MAKERS = {
    "empty": _empty,
    "one": _one,
    "failed": _failed,
    "equal": _equal,
    "running": _running,
    "stopped": _stopped,
    "runs": _runs,
    "many": _many,
    "rates": _rates,
    "lenet5": _lenet5,
    "devices": _devices,
    "instant": _instant,
    "paper": _paper,
    "full": _full,
}
KINDS = tuple(_MAKERS)
