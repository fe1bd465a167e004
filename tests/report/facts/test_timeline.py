"""Spans of hand-made claims."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fastrcaps_search.report.facts.timeline import End, Span, spans
from fastrcaps_search.store.records import TrialState
from tests.report.views import FAILURE, WRITTEN_AT, view_of

if TYPE_CHECKING:
    from fastrcaps_search.store.records import EpochRecord
    from tests.report.conftest import Records

NOW = 10_000.0
HELD = range(10)


def stored(records: Records, token: int, *times: float | None) -> tuple[EpochRecord, ...]:
    """Epochs that one claim stored at these times."""
    return tuple(
        replace(records.epoch_record(epoch, 0.5, 9.0), token=token, stored_at=at)
        for epoch, at in enumerate(times, start=1)
    )


def test_each_end(records: Records) -> None:
    complete = replace(records.complete(0, 0.9, 9.0, 9), finished_at=150.0)
    failed = replace(records.failed(1, FAILURE), finished_at=190.0)
    stopped = replace(complete, number=2, state=TrialState.STOPPED, values=None, finished_at=240.0)
    running = records.running(3)
    claims = [
        records.claim(3, 1, "b", 230.0),
        records.claim(2, 1, "b", 210.0),
        records.claim(0, 1, "a", 100.0),
        records.claim(1, 1, "b", 120.0, host="server/8f3a"),
    ]
    assert spans([complete, failed, stopped, running], claims, held=HELD, now=NOW) == (
        Span(0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE),
        Span(1, 1, "b", "server", 120.0, 190.0, End.FAILED),
        Span(2, 1, "b", "desk", 210.0, 240.0, End.STOPPED),
        Span(3, 1, "b", "desk", 230.0, NOW, End.RUNNING),
    )


def test_a_lost_claim_ends_with_its_last_stored_epoch(records: Records) -> None:
    epochs = (*stored(records, 1, 110.0, 130.0), *stored(records, 2, 230.0))
    trial = replace(records.complete(4, 0.9, 9.0, 9), epochs=epochs, finished_at=300.0)
    claims = [records.claim(4, 2, "b", 200.0), records.claim(4, 1, "a", 100.0)]
    first, second = spans([trial], claims, held=HELD, now=NOW)
    assert first == Span(4, 1, "a", "desk", 100.0, 130.0, End.INTERRUPTED)
    assert second == Span(4, 2, "b", "desk", 200.0, 300.0, End.COMPLETE)
    assert (first.took_over, second.took_over) == (False, True)


def test_a_claim_lost_before_its_first_epoch_has_no_length(records: Records) -> None:
    trial = replace(records.running(4), epochs=stored(records, 2, 230.0))
    claims = [records.claim(4, 1, "a", 100.0), records.claim(4, 2, "b", 200.0)]
    first, second = spans([trial], claims, held=HELD, now=NOW)
    assert (first.start, first.end, first.how) == (100.0, 100.0, End.INTERRUPTED)
    assert (second.end, second.how) == (NOW, End.RUNNING)


def test_epochs_of_an_earlier_release_say_nothing_of_their_time(records: Records) -> None:
    trial = replace(records.running(4), epochs=stored(records, 1, None, None))
    claims = [records.claim(4, 1, "a", 100.0), records.claim(4, 2, "b", 200.0)]
    assert spans([trial], claims, held=HELD, now=NOW)[0].end == 100.0


def test_a_trial_of_an_earlier_release_has_no_span(records: Records) -> None:
    old, new = records.trials()[:2]
    found = spans([old, new], [records.claim(1, 1, "a", 1_001.0)], held=HELD, now=NOW)
    assert [span.trial for span in found] == [1]


def test_a_claim_to_read_the_test_accuracy_is_not_training(records: Records) -> None:
    trial = replace(records.complete(0, 0.9, 9.0, 9), finished_at=150.0)
    claims = [records.claim(0, 1, "a", 100.0), records.claim(0, 2, "b", 400.0)]
    assert spans([trial], claims, held=HELD, now=NOW) == (
        Span(0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE),
    )


def test_a_clock_that_was_set_back_makes_no_negative_span(records: Records) -> None:
    (span,) = spans([records.running(0)], [records.claim(0, 1, "a", NOW + 5)], held=HELD, now=NOW)
    assert span.end == span.start


def test_a_trial_that_nobody_holds_ended_with_its_last_stored_epoch(records: Records) -> None:
    trial = replace(records.running(4), epochs=stored(records, 1, 110.0, 130.0))
    (span,) = spans([trial], [records.claim(4, 1, "a", 100.0)], held=(), now=NOW)
    assert (span.end, span.how) == (130.0, End.INTERRUPTED)


def test_running_spans_end_with_the_page(records: Records) -> None:
    started = WRITTEN_AT.timestamp() - 60
    claims = [records.claim(0, 1, "a", started)]
    (span,) = view_of(records.study(), [records.running(0)], [records.lease(0)], claims).spans
    assert span.end - span.start == 60
