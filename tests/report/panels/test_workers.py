"""Spans of hand-made claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest

from fastrcaps_search.report.panels import workers
from fastrcaps_search.report.panels.workers import End
from fastrcaps_search.report.view import ReportView
from fastrcaps_search.store.records import RunKey
from tests.report.views import FAILURE, WRITTEN_AT, view_of

if TYPE_CHECKING:
    from fastrcaps_search.store.holders import ClaimRecord
    from fastrcaps_search.store.records import EpochRecord
    from fastrcaps_search.store.trials import TrialRecord
    from tests.report.conftest import Records

NOW = 10_000.0
HELD = [RunKey(number, 0) for number in range(10)]


class Span(NamedTuple):
    """What a span says, in brief."""

    trial: int
    run: int
    token: int
    worker: str
    host: str
    start: float
    end: float
    how: End


def spans(
    records: Records,
    trials: Sequence[TrialRecord],
    claims: Sequence[ClaimRecord],
    *,
    held: Iterable[RunKey] = HELD,
    planned: int = 1,
) -> list[Span]:
    """The spans on a page that is written ``NOW``."""
    leases = [replace(records.lease(key.number), run=key.run) for key in held]
    study, now = records.study(runs_per_trial=planned), datetime.fromtimestamp(NOW, UTC)
    view = ReportView(study, trials, leases, claims, written_at=now)
    found = []
    for span in workers.gather(view) or ():
        claim = span.claim
        who = (claim.number, claim.run, claim.token, claim.worker, claim.host_name)
        found.append(Span(*who, span.start, span.end, span.how))
    return found


def stored(records: Records, token: int, *times: float, run: int = 0) -> tuple[EpochRecord, ...]:
    """Epochs of a run that one claim stored at these times."""
    return tuple(
        replace(records.epoch_record(epoch, 0.5, 9.0), run=run, token=token, stored_at=at)
        for epoch, at in enumerate(times, start=1)
    )


def with_end(trial: TrialRecord, **values: object) -> TrialRecord:
    """The trial whose only run has these values."""
    return replace(trial, runs=(replace(trial.runs[0], **values),))  # type: ignore[arg-type]  # fields of the record


def complete(records: Records, number: int, finished_at: float) -> TrialRecord:
    return with_end(records.complete(number, 0.9, 9.0, 9), finished_at=finished_at)


def test_each_end(records: Records) -> None:
    failed = with_end(records.failed(1, FAILURE), finished_at=190.0)
    claims = [
        records.claim(3, 1, "b", 230.0),
        records.claim(0, 1, "a", 100.0),
        records.claim(1, 1, "b", 120.0, host="server/8f3a"),
    ]
    trials = [complete(records, 0, 150.0), failed, records.running(3)]
    assert spans(records, trials, claims) == [
        Span(0, 0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE),
        Span(1, 0, 1, "b", "server", 120.0, 190.0, End.FAILED),
        Span(3, 0, 1, "b", "desk", 230.0, NOW, End.RUNNING),
    ]


def test_a_lost_claim_ends_with_its_last_stored_epoch(records: Records) -> None:
    epochs = (*stored(records, 1, 110.0, 130.0), *stored(records, 2, 230.0))
    trial = replace(complete(records, 4, 300.0), epochs=epochs)
    claims = [records.claim(4, 2, "b", 200.0), records.claim(4, 1, "a", 100.0)]
    first, second = spans(records, [trial], claims)
    assert first == Span(4, 0, 1, "a", "desk", 100.0, 130.0, End.INTERRUPTED)
    assert second == Span(4, 0, 2, "b", "desk", 200.0, 300.0, End.COMPLETE)
    assert (first.token, second.token) == (1, 2)


def test_a_claim_lost_before_its_first_epoch_has_no_length(records: Records) -> None:
    trial = replace(records.running(4), epochs=stored(records, 2, 230.0))
    claims = [records.claim(4, 1, "a", 100.0), records.claim(4, 2, "b", 200.0)]
    first, second = spans(records, [trial], claims)
    assert (first.start, first.end, first.how) == (100.0, 100.0, End.INTERRUPTED)
    assert (second.end, second.how) == (NOW, End.RUNNING)


def test_a_claim_to_read_the_test_accuracy_is_not_training(records: Records) -> None:
    claims = [
        records.claim(0, 1, "a", 100.0),
        replace(records.claim(0, 2, "b", 400.0), purpose="test"),
    ]
    trial = complete(records, 0, 150.0)
    assert spans(records, [trial], claims) == [
        Span(0, 0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE),
    ]


def test_a_clock_that_was_set_back_makes_no_negative_span(records: Records) -> None:
    claims = [records.claim(0, 1, "a", NOW + 5)]
    (span,) = spans(records, [records.running(0)], claims)
    assert span.end == span.start


def test_a_run_that_nobody_holds_ended_with_its_last_stored_epoch(records: Records) -> None:
    trial = replace(records.running(4), epochs=stored(records, 1, 110.0, 130.0))
    (span,) = spans(records, [trial], [records.claim(4, 1, "a", 100.0)], held=())
    assert (span.end, span.how) == (130.0, End.INTERRUPTED)


def test_running_spans_end_with_the_page(records: Records) -> None:
    started = WRITTEN_AT.timestamp() - 60
    claims = [records.claim(0, 1, "a", started)]
    view = view_of(records.study(), [records.running(0)], [records.lease(0)], claims)
    found = workers.gather(view)
    assert found is not None
    (span,) = found
    assert span.end - span.start == 60


@pytest.mark.parametrize(("planned", "how"), [(1, End.REPEATED), (3, End.COMPLETE)])
def test_each_run_of_a_trial_has_spans_of_its_own(
    records: Records, planned: int, how: End
) -> None:
    """The second was taken over; the third failed, and the fourth is under way."""
    trial = complete(records, 0, 150.0)
    (first,) = trial.runs
    ended = replace(first, run=1, finished_at=400.0)
    failed = replace(first, run=2, accuracy=None, failure=FAILURE, finished_at=330.0)
    begun = replace(first, run=3, accuracy=None, finished_at=None)
    epochs = (
        *stored(records, 1, 230.0, run=1),
        *stored(records, 2, 350.0, run=1),
        *stored(records, 1, 110.0, run=3),
    )
    trial = replace(trial, runs=(first, ended, failed, begun), epochs=epochs)
    claims = [
        records.claim(0, 1, "a", 100.0),
        replace(records.claim(0, 1, "b", 101.0), run=1),
        replace(records.claim(0, 2, "a", 300.0), run=1),
        replace(records.claim(0, 1, "c", 102.0), run=2),
        replace(records.claim(0, 1, "d", 103.0), run=3),
    ]
    held = spans(records, [trial], claims, held=[RunKey(0, 3)], planned=planned)
    assert held == [
        Span(0, 0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE),
        Span(0, 1, 1, "b", "desk", 101.0, 230.0, End.INTERRUPTED),
        Span(0, 2, 1, "c", "desk", 102.0, 330.0, End.FAILED),
        Span(0, 3, 1, "d", "desk", 103.0, NOW, End.RUNNING),
        Span(0, 1, 2, "a", "desk", 300.0, 400.0, how),
    ]
    # Nobody holds it: it was interrupted.
    left = spans(records, [trial], claims, held=[RunKey(0, 0)], planned=planned)
    assert (left[3].end, left[3].how) == (110.0, End.INTERRUPTED)
