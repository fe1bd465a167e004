"""``run`` and ``worker``: train a study; ``run`` makes it, prints the front, writes the page."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from fastrcaps_search.analysis.rows import front_rows
from fastrcaps_search.cli import commands, output
from fastrcaps_search.cli.current import kept_current
from fastrcaps_search.cli.live import display
from fastrcaps_search.cli.report import page_path, read_study
from fastrcaps_search.definition.load import stored_name
from fastrcaps_search.errors import FastrcapsError, InterruptedRunError, RunError
from fastrcaps_search.report.write import write_report
from fastrcaps_search.search.crews import Wanted
from fastrcaps_search.search.driver import RunOutcome, StudyRun
from fastrcaps_search.search.requests import RunRequest, WorkRequest, asked_study
from fastrcaps_search.store.patience import Patience
from fastrcaps_search.store.records import StudyRecord


def run(arguments: argparse.Namespace) -> int:
    """Run a study.

    Raises:
        InterruptedRunError: By Ctrl-C or SIGTERM, after the state was saved.
        RunError: The budget was not met, or every trial failed.
    """
    means = _means(arguments)
    request = RunRequest(
        definition=asked_study(arguments.study, means["location"]),
        trials=arguments.trials,
        seed=arguments.seed,
        repeats=arguments.repeat_front or 0,
        **means,
    )
    with _stopping() as stop:
        study = StudyRun.begin(request, _patience(request, stop))
        try:
            page = kept_current(study.study.name, request.location)
            _train_what_is_left(study, arguments, meanwhile=page)
        except FastrcapsError:
            # The page says how far it came; whether it can be written is not the news now.
            with suppress(FastrcapsError):
                _write_page(study.study, request)
            raise
        else:
            return _end(study, request)
        finally:
            study.close()


def worker(arguments: argparse.Namespace) -> int:
    """Work on a stored study until its budget is met.

    Raises:
        InterruptedRunError: By Ctrl-C or SIGTERM, after the state was saved.
        RunError: The workers could not go on, or every trial failed.
    """
    request = WorkRequest(**_means(arguments))
    with _stopping() as stop:
        study = StudyRun.join(stored_name(arguments.study), request, _patience(request, stop))
        try:
            if _train_what_is_left(study, arguments, meanwhile=nullcontext()):
                outcome = study.outcome()
                work = outcome.work
                print(f"{study.study.name}: {work.finished}/{work.target} done")
            return _judge(study.outcome())
        finally:
            study.close()


def _means(arguments: argparse.Namespace) -> dict[str, Any]:
    """What ``run`` and ``worker`` have in common."""
    return {
        "location": commands.location(arguments),
        "data_folder": commands.data_folder(arguments),
        "wanted": Wanted(arguments.devices, arguments.workers, arguments.workers_per_device),
        "lease_seconds": arguments.lease_seconds,
        "store_patience": arguments.store_patience,
        "max_failures": arguments.max_failures,
    }


def _patience(request: WorkRequest, stop: threading.Event) -> Patience:
    """For this process; the workers have their own and say so themselves."""

    def tell(reason: str | None) -> None:
        line = f"waits for the database: {reason}" if reason else "the database is back"
        print(line, file=sys.stderr, flush=True)

    return Patience(request.store_patience, stop, tell)


def _train_what_is_left(
    study: StudyRun, arguments: argparse.Namespace, *, meanwhile: AbstractContextManager[Any]
) -> bool:
    """Train unless the study is done, within ``meanwhile``; whether there was anything to do."""
    # What the last workers of the study could not tell, killed in that moment.
    study.tell_optuna()
    work = study.outcome().work
    if work.is_done:
        print(f"{study.study.name}: {work.finished}/{work.target} done, nothing to train")
        return False
    machine = study.look(_say_who_holds_the_cores)
    if machine.warning:
        print(f"warning: {machine.warning}", file=sys.stderr, flush=True)
    if not arguments.quiet:
        print(study.plan_line(machine), flush=True)
    if study.stop.is_set():
        raise InterruptedRunError("interrupted before anything was trained")
    try:
        with meanwhile, display(study, machine, arguments) as observe:
            study.train(machine, observe=observe)
    except FastrcapsError:
        # What ended the training is the news.
        with suppress(FastrcapsError):
            study.tell_optuna()
        raise
    study.tell_optuna()
    return True


def _say_who_holds_the_cores(holders: str) -> None:
    line = f"waits for free cores to measure on, in use by {holders or 'another process'}"
    print(line, file=sys.stderr, flush=True)


def _end(study: StudyRun, request: RunRequest) -> int:
    """Print the front, write the page, judge."""
    outcome = study.outcome()
    rows = front_rows(outcome.trials)
    if rows:
        print(f"\nfront: {len(rows)} of {outcome.work.finished} finished trials")
        output.print_front(rows, study=study.study.name, repeats=outcome.study.repeats)
    elif any(trial.infeasible for trial in outcome.trials):
        print(f"\n{output.no_front(study.study.name)}")
    print(f"\nreport: {_write_page(outcome.study, request)}")
    return _judge(outcome)


def _write_page(study: StudyRecord, request: RunRequest) -> Path:
    """Write the page; where it is."""
    path = page_path(study.name)
    write_report(read_study(request.location, study.name), path=path)
    return path


def _judge(outcome: RunOutcome) -> int:
    work = outcome.work
    target = work.target
    if work.exhausted and not work.is_searching:
        print(
            f"the space has {target} configurations and all have been evaluated: "
            f"there is none left for a budget of {outcome.study.budget}"
            + ("" if outcome.study.repeats else "; --repeat-front 5 says how sure the front is")
        )
    if outcome.all_failed:
        reasons = {
            trial.failure.message: trial.number for trial in outcome.trials if trial.failure
        }
        raise RunError(
            "every trial failed: "
            + "; ".join(f"trial {number}: {reason}" for reason, number in reasons.items())
        )
    if work.is_searching:
        raise RunError(
            f"{work.finished}/{target} trials are done, but no worker is left; "
            "run the same line again"
        )
    return 0


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Set the event on Ctrl-C or SIGTERM; a second Ctrl-C ends at once."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()
        print("\nstopping: workers finish their step and save", file=sys.stderr, flush=True)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
