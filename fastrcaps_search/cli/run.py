"""``run`` and ``worker``: train a study; ``run`` makes it, prints the front, writes the page."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from fastrcaps_search.analysis.front import without_network
from fastrcaps_search.analysis.rows import front_rows
from fastrcaps_search.cli import commands, output, streams
from fastrcaps_search.cli.live import display, plain
from fastrcaps_search.cli.report import kept_current, page_folder, read_study
from fastrcaps_search.definition.load import stored_name
from fastrcaps_search.errors import DiskError, FastrcapsError, RunError
from fastrcaps_search.processes import handle_stops
from fastrcaps_search.report.write import check_folder, write_report
from fastrcaps_search.search.again import run_words, study_words
from fastrcaps_search.search.launchers import planned_workers, read_options
from fastrcaps_search.search.layouts import DeviceOptions, WorkerPlan
from fastrcaps_search.search.options import RunOptions, WorkerOptions, asked_study
from fastrcaps_search.search.orchestrator import Orchestrator, RunObserver
from fastrcaps_search.search.outcome import RunOutcome, plan_line
from fastrcaps_search.search.supervise import Observer
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.retry import RetryPolicy

SAVES = "workers finish their step and save"
LEAVES = "jobs are left as they are"
"""What is said to Ctrl-C."""


def run(arguments: argparse.Namespace) -> None:
    """Run a study.

    Raises:
        InterruptedRunError: By Ctrl-C, SIGTERM or the like, after the state was saved.
        RunError: The budget was not met, or every trial failed.
    """
    streams.drop_what_fails(sys.stdout)
    common = _common(arguments)
    _, jobs = planned_workers(arguments.launcher, arguments.workers)
    options = RunOptions(
        definition=asked_study(arguments.study, common["location"]),
        trials=arguments.trials,
        seed=arguments.seed,
        front_runs=arguments.runs_on_front,
        jobs=jobs,
        launcher_options=read_options(arguments.launcher_option),
        detach=arguments.detach,
        reference_device=arguments.reference_device,
        **common,
    )
    pages = arguments.report_dir or page_folder()
    patience = _patience(options, _stopping(SAVES if options.engine is None else LEAVES))
    with closing(Orchestrator.begin(options, patience)) as orchestrator:
        study = orchestrator.study
        with _page_or_warning():
            check_folder(pages)
        page = kept_current(study.name, options.location, pages)
        try:
            outcome = orchestrator.run(_Printed(arguments, meanwhile=page))
        except FastrcapsError:
            # The page says how far it came; whether it can be written is not the news now.
            with suppress(FastrcapsError):
                _write_page(study, options, pages)
            raise
        if outcome.parting:
            print(_standing(outcome))
        else:
            _end(outcome, options, pages, storage=arguments.storage)


def worker(arguments: argparse.Namespace) -> None:
    """Work on a stored study until its budget is met.

    Raises:
        InterruptedRunError: By Ctrl-C, SIGTERM or the like, after the state was saved.
        RunError: The workers could not go on, or every trial failed.
    """
    streams.drop_what_fails(sys.stdout)
    options = WorkerOptions(**_common(arguments), idle_limit=arguments.idle_limit)
    name, patience = stored_name(arguments.study), _patience(options, _stopping(SAVES))
    with closing(Orchestrator.join(name, options, patience)) as orchestrator:
        printed = _Printed(arguments, meanwhile=nullcontext())
        outcome = orchestrator.run(printed)
        if printed.has_trained:
            print(_standing(outcome))
        if not outcome.parting:
            _judge(outcome, run_words(outcome.study, options.location, arguments.storage))


def _common(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that ``run`` and ``worker`` have in common."""
    workers, _ = planned_workers(arguments.launcher, arguments.workers)
    return {
        "location": commands.location(arguments),
        "data_folder": commands.data_folder(arguments),
        "devices": DeviceOptions(
            arguments.devices, workers, arguments.workers_per_device, arguments.threads
        ),
        "lease_seconds": arguments.lease_seconds,
        "store_patience": arguments.store_patience,
        "max_failures": arguments.max_failures,
        "launcher": arguments.launcher,
    }


def _patience(options: WorkerOptions, stop: threading.Event) -> RetryPolicy:
    """For this process; the workers have their own and say so themselves."""

    def tell(reason: str | None) -> None:
        waits = f"waits for the database, at most {options.store_patience:g} s: {reason}"
        output.tell(waits if reason else "the database is back")

    return RetryPolicy(options.store_patience, stop, tell)


class _Printed(RunObserver):
    """Prints how a run goes, as much as was asked for.

    Args:
        arguments: ``quiet`` and ``verbose``.
        meanwhile: Entered for as long as workers train.

    Attributes:
        has_trained: Whether there was anything to train.
    """

    def __init__(
        self, arguments: argparse.Namespace, *, meanwhile: AbstractContextManager[Any]
    ) -> None:
        self.has_trained = False
        self._arguments = arguments
        self._meanwhile = meanwhile

    def measures(self, line: str) -> None:
        self._say(line)

    def waits_for_cores(self, holders: str) -> None:
        by = holders or "another process"
        output.tell(f"waits for free cores to measure on, in use by {by}")

    def nothing_left(self, outcome: RunOutcome) -> None:
        work = outcome.work
        print(f"{outcome.study.name}: {work.finished}/{work.target} done, nothing to train")

    def warned(self, warning: str) -> None:
        output.tell(f"warning: {warning}")

    @contextmanager
    def training(
        self, orchestrator: Orchestrator, plan: WorkerPlan, before: RunOutcome
    ) -> Iterator[Observer]:
        self.has_trained = True
        self._say(plan_line(plan, before))
        with self._meanwhile, display(orchestrator, plan, self._arguments) as observe:
            yield observe

    @contextmanager
    def placing(
        self, orchestrator: Orchestrator
    ) -> Iterator[tuple[Callable[[str], None], Observer]]:
        with self._meanwhile:
            if self._arguments.verbose:
                name = orchestrator.study.name
                self._say(f"epochs are seen with `fastrcaps-search status --study {name} --watch`")
            yield self._say, plain(orchestrator, self._arguments)

    def _say(self, line: str) -> None:
        if not self._arguments.quiet:
            print(line, flush=True)


def _standing(outcome: RunOutcome) -> str:
    """How far a study is, and why the command ends, where there is more to be said."""
    work, why = outcome.work, outcome.parting
    return f"{outcome.study.name}: {work.finished}/{work.target} done{why and f'; {why}'}"


def _end(outcome: RunOutcome, options: RunOptions, pages: Path, *, storage: str | None) -> None:
    """Print the front, write the page, judge."""
    study = outcome.study
    rows, run = front_rows(outcome.trials), run_words(study, options.location, storage)
    if rows:
        print(f"\nfront: {len(rows)} of {outcome.work.finished} finished trials")
        output.print_front(rows, study, run=run)
    elif any(trial.infeasible for trial in outcome.trials):
        words = study_words(study.name, options.location, storage)
        print(f"\n{output.no_front(words)}")
    with _page_or_warning():
        print(f"\nreport: {_write_page(study, options, pages)}")
    _judge(outcome, run)


@contextmanager
def _page_or_warning() -> Iterator[None]:
    """Warn of a page that cannot be written: what was trained counts without it."""
    try:
        yield
    except DiskError as error:
        output.tell(f"warning: {error} with --report-dir; the study goes on without its page")


def _write_page(study: StudyRecord, options: RunOptions, pages: Path) -> Path:
    """Write the page; where it is."""
    path = pages / f"{study.name}.html"
    write_report(read_study(options.location, study.name), path=path)
    return path


def _judge(outcome: RunOutcome, run: str) -> None:
    """Say what is missing; ``run`` is what follows ``run --study``."""
    work = outcome.work
    target = work.target
    if work.exhausted and not work.is_searching:
        space = outcome.study.definition.space
        found = f"the space has {target} configurations and all have been evaluated"
        if space is not None and not space.is_finite:
            found = f"no configuration but these {target} was found in the space"
        advice = "; --runs-on-front 5 says how sure the front is"
        print(
            f"{found}: there is none left for a budget of {outcome.study.budget}"
            f"{'' if outcome.study.front_runs else advice}"
        )
    if gone := without_network(outcome.trials):
        output.tell(f"warning: {output.without_network(gone, study=run)}")
    if work.tests:
        output.tell(
            f"warning: {len(work.tests)} networks of the front have no test accuracy; the same "
            "line tries again"
        )
    if outcome.all_failed:
        reasons = {
            trial.failure.message: trial.number for trial in outcome.trials if trial.failure
        }
        raise RunError(
            "every trial failed: "
            + "; ".join(f"trial {number}: {reason}" for reason, number in reasons.items())
        )
    if work.is_searching or work.repeats:
        repeats = f" and {len(work.repeats)} runs of the front are left" if work.repeats else ""
        raise RunError(
            f"{work.finished}/{target} trials are done{repeats}, but no worker is left; "
            "run the same line again"
        )


def _stopping(words: str) -> threading.Event:
    """An event that Ctrl-C, SIGTERM and the like set; a second Ctrl-C ends at once.

    Args:
        words: What happens then.
    """
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            output.tell(f"\nstopping: {words}")
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    handle_stops(handle)
    return stop
