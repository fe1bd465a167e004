"""Spans of hand-made claims."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.report.panels import workers
from fastrcaps_search.report.spans import End, Span, spans
from fastrcaps_search.store.records import TrialState
from tests.report.views import FAILURE, WRITTEN_AT, view_of

if TYPE_CHECKING:
    from fastrcaps_search.store.records import EpochRecord, TrialRecord
    from tests.report.conftest import Records

NOW = 10_000.0
HELD = range(10)


def stored(records: Records, token: int, *times: float) -> tuple[EpochRecord, ...]:
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
    assert spans(
        [complete, failed, stopped, running], claims, held=HELD, runs_per_trial=1, now=NOW
    ) == (
        Span(0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE),
        Span(1, 1, "b", "server", 120.0, 190.0, End.FAILED),
        Span(2, 1, "b", "desk", 210.0, 240.0, End.STOPPED),
        Span(3, 1, "b", "desk", 230.0, NOW, End.RUNNING),
    )


def test_a_lost_claim_ends_with_its_last_stored_epoch(records: Records) -> None:
    epochs = (*stored(records, 1, 110.0, 130.0), *stored(records, 2, 230.0))
    trial = replace(records.complete(4, 0.9, 9.0, 9), epochs=epochs, finished_at=300.0)
    claims = [records.claim(4, 2, "b", 200.0), records.claim(4, 1, "a", 100.0)]
    first, second = spans([trial], claims, held=HELD, runs_per_trial=1, now=NOW)
    assert first == Span(4, 1, "a", "desk", 100.0, 130.0, End.INTERRUPTED)
    assert second == Span(4, 2, "b", "desk", 200.0, 300.0, End.COMPLETE)
    assert (first.took_over, second.took_over) == (False, True)


def test_a_claim_lost_before_its_first_epoch_has_no_length(records: Records) -> None:
    trial = replace(records.running(4), epochs=stored(records, 2, 230.0))
    claims = [records.claim(4, 1, "a", 100.0), records.claim(4, 2, "b", 200.0)]
    first, second = spans([trial], claims, held=HELD, runs_per_trial=1, now=NOW)
    assert (first.start, first.end, first.how) == (100.0, 100.0, End.INTERRUPTED)
    assert (second.end, second.how) == (NOW, End.RUNNING)


def test_a_trial_of_an_earlier_release_has_no_span(records: Records) -> None:
    old, new = records.trials()[:2]
    found = spans(
        [old, new], [records.claim(1, 1, "a", 1_001.0)], held=HELD, runs_per_trial=1, now=NOW
    )
    assert [span.trial for span in found] == [1]


def test_a_claim_to_read_the_test_accuracy_is_not_training(records: Records) -> None:
    trial = replace(records.complete(0, 0.9, 9.0, 9), finished_at=150.0)
    claims = [records.claim(0, 1, "a", 100.0), records.claim(0, 2, "b", 400.0)]
    assert spans([trial], claims, held=HELD, runs_per_trial=1, now=NOW) == (
        Span(0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE),
    )


def test_a_clock_that_was_set_back_makes_no_negative_span(records: Records) -> None:
    (span,) = spans(
        [records.running(0)],
        [records.claim(0, 1, "a", NOW + 5)],
        held=HELD,
        runs_per_trial=1,
        now=NOW,
    )
    assert span.end == span.start


def test_a_trial_that_nobody_holds_ended_with_its_last_stored_epoch(records: Records) -> None:
    trial = replace(records.running(4), epochs=stored(records, 1, 110.0, 130.0))
    (span,) = spans([trial], [records.claim(4, 1, "a", 100.0)], held=(), runs_per_trial=1, now=NOW)
    assert (span.end, span.how) == (130.0, End.INTERRUPTED)


def test_running_spans_end_with_the_page(records: Records) -> None:
    started = WRITTEN_AT.timestamp() - 60
    claims = [records.claim(0, 1, "a", started)]
    view = view_of(records.study(), [records.running(0)], [records.lease(0)], claims)
    (span,) = workers.gather(view) or ()
    assert span.end - span.start == 60


def repeated(records: Records, *times: tuple[int, int, float]) -> TrialRecord:
    """A trial complete at 150 s; more epochs by run, token and time, with the runs not ended."""
    trial = replace(records.complete(0, 0.9, 9.0, 9), finished_at=150.0, epochs=())
    epochs = [
        replace(records.epoch_record(1, 0.5, 9.0), run=run, token=token, stored_at=at)
        for run, token, at in ((0, 1, 140.0), *times)
    ]
    runs = range(1, 1 + max(run for run, _, _ in times))
    begun = (replace(trial.runs[0], run=run, accuracy=None, training_seconds=None) for run in runs)
    return replace(trial, runs=(*trial.runs, *begun), epochs=tuple(epochs))


def with_end(trial: TrialRecord, run: int, **values: float | str) -> TrialRecord:
    runs = list(trial.runs)
    runs[run] = replace(runs[run], **values)  # type: ignore[arg-type]  # fields of the record
    return replace(trial, runs=tuple(runs))


FIRST = Span(0, 1, "a", "desk", 100.0, 150.0, End.COMPLETE)


def test_one_more_run_ends_with_its_last_stored_epoch(records: Records) -> None:
    trial = repeated(records, (1, 2, 230.0), (1, 2, 260.0), (2, 3, 330.0))
    trial = with_end(with_end(trial, 1, accuracy=0.9), 2, failure="the disk is full")
    claims = [records.claim(0, token, "a", 100.0 * token) for token in (1, 2, 3)]
    # The fourth read the test accuracy.
    claims.append(records.claim(0, 4, "a", 400.0))
    found = spans([trial], claims, held=(), runs_per_trial=1, now=NOW)
    assert found == (
        FIRST,
        Span(0, 2, "a", "desk", 200.0, 260.0, End.REPEATED, begins_repeat=True),
        Span(0, 3, "a", "desk", 300.0, 330.0, End.FAILED, begins_repeat=True),
    )
    assert [span.took_over for span in found] == [False, False, False]


def test_a_repeat_that_was_lost_and_taken_over(records: Records) -> None:
    trial = repeated(records, (1, 2, 230.0), (1, 3, 350.0))
    claims = [records.claim(0, token, "a", 100.0 * token) for token in (1, 2, 3)]
    lost = Span(0, 2, "a", "desk", 200.0, 230.0, End.INTERRUPTED, begins_repeat=True)
    held = spans([trial], claims, held=[0], runs_per_trial=1, now=NOW)
    assert held == (FIRST, lost, Span(0, 3, "a", "desk", 300.0, NOW, End.RUNNING))
    assert [span.took_over for span in held] == [False, False, True]
    # Nobody holds it: it was interrupted once more.
    left = spans([trial], claims, held=(), runs_per_trial=1, now=NOW)
    assert (left[2].end, left[2].how) == (350.0, End.INTERRUPTED)
    ended = spans([with_end(trial, 1, accuracy=0.9)], claims, held=(), runs_per_trial=1, now=NOW)
    assert [span.how for span in ended] == [End.COMPLETE, End.INTERRUPTED, End.REPEATED]


def test_a_repeat_before_its_first_epoch_is_running(records: Records) -> None:
    trial = replace(repeated(records, (1, 2, 230.0)), epochs=stored(records, 1, 140.0))
    claims = [records.claim(0, 1, "a", 100.0), records.claim(0, 2, "b", 200.0)]
    _, span = spans([trial], claims, held=[0], runs_per_trial=1, now=NOW)
    assert (span.end, span.how, span.begins_repeat) == (NOW, End.RUNNING, True)
    # Held to read the test accuracy: no run is under way.
    whole = with_end(trial, 1, accuracy=0.9)
    assert spans([whole], claims, held=[0], runs_per_trial=1, now=NOW) == (FIRST,)


@pytest.mark.parametrize("epochs", [1, 0])
def test_a_repeat_that_diverged_ended_the_trial(records: Records, epochs: int) -> None:
    trial = with_end(repeated(records, (1, 2, 230.0)), 1, failure="diverged at epoch 2")
    trial = replace(
        trial,
        state=TrialState.FAILED,
        values=None,
        finished_at=280.0,
        epochs=trial.epochs[: 1 + epochs],
    )
    claims = [records.claim(0, 1, "a", 100.0), records.claim(0, 2, "b", 200.0)]
    assert spans([trial], claims, held=(), runs_per_trial=1, now=NOW) == (
        # When it was complete is not stored any more: its last epoch is.
        Span(0, 1, "a", "desk", 100.0, 140.0, End.COMPLETE),
        Span(0, 2, "b", "desk", 200.0, 280.0, End.FAILED, begins_repeat=True),
    )


def test_runs_of_the_trial_itself_are_no_repeats(records: Records) -> None:
    trial = with_end(repeated(records, (1, 2, 140.0)), 1, accuracy=0.9)
    claims = [records.claim(0, 1, "a", 100.0), records.claim(0, 2, "a", 120.0)]
    found = spans([trial], claims, held=(), runs_per_trial=2, now=NOW)
    assert [(span.how, span.took_over) for span in found] == [
        (End.INTERRUPTED, False),
        (End.COMPLETE, True),
    ]
