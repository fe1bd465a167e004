"""A run whose workers an engine places: it keeps so many jobs as there is work for, and watches.

Jobs are found by the study's name, not by memory: a run may end and another one go on watching.
One that ended in any way is placed again while work is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import shorten

from fastrcaps_search.errors import InterruptedRunError, RunError, UsageError
from fastrcaps_search.search.again import placed_flags
from fastrcaps_search.search.engines import Cluster, JobState, PlacedJob
from fastrcaps_search.search.following import Follower
from fastrcaps_search.search.options import RunOptions
from fastrcaps_search.search.outcome import RunOutcome
from fastrcaps_search.search.placed_worker import (
    job_name,
    remove_storage,
    worker_job,
    write_storage,
)
from fastrcaps_search.search.supervise import Observer, WorkerView
from fastrcaps_search.store.holders import GIVEN_BACK, JobRecord
from fastrcaps_search.store.jobs import jobs_of, store_jobs, stored_epochs
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.words import plural

FAILURES = 3
"""Jobs that fail without the study getting on, before the run gives up."""
POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 10.0
"""Between two looks: the first after something has changed, the longest after nothing has."""
ENDING_SECONDS = 60.0
"""For running workers to find out that the study is done."""
LOG_BYTES, LOG_CHARACTERS = 4096, 500


class _SilentError(Exception):
    """The engine does not answer."""


class Placing:
    """Keeps the jobs of a study.

    Args:
        cluster: The engine.
        options: What the run was asked for.
        store: The database.
        study: The study.
        outcome: How the study stands.
        stop: Set when the run is to stop watching.
        tell: Called with what has changed of the jobs, a line each.
        observe: Called with what the workers do, as a supervisor does.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: RunOptions,
        store: Store,
        study: StudyRecord,
        *,
        outcome: Callable[[], RunOutcome],
        stop: threading.Event,
        tell: Callable[[str], None],
        observe: Observer,
    ) -> None:
        self._observe, self._follower = observe, Follower(store, study)
        self._cluster, self._options, self._store, self._study = cluster, options, store, study
        self._outcome, self._stop, self._tell = outcome, stop, tell
        self._name = job_name(study)
        self._known: dict[str, PlacedJob] = {}
        self._has_seen = False
        self._withdrawn: list[PlacedJob] = []
        self._own_flags = placed_flags(options)
        stored = jobs_of(store, study, options.launcher)
        self._flags = {job.id: job.flags for job in stored}
        self._given_back = {job.id for job in stored if job.state == GIVEN_BACK}
        self._failed: list[PlacedJob] = []
        self._fruitless = 0
        self._done = ""
        self._got_on: tuple[int, int] | None = None
        self._done_since: float | None = None
        self._not_before = 0.0
        self._is_silent = False
        self._has_changed = False
        self._has_acted = False

    def run(self) -> str:
        """Place and watch until nothing is left to do, or what was asked for is done.

        Returns:
            Why there is work left, in words; empty where none is.

        Raises:
            InterruptedRunError: Asked to stop; the jobs go on.
            UsageError: The engine refuses the jobs.
            RunError: They fail again and again.
            StoreError: The database cannot be used.
            DiskError: No job can be written.
        """
        try:
            return self._watch()
        finally:
            # Nobody is left who would read it, however the run ends.
            if self._has_seen and not self._kept:
                remove_storage(self._options, self._study)

    def _watch(self) -> str:
        wait = POLL_SECONDS
        while not self._stop.is_set():
            if self._look():
                if not self._known and (self._done_since is not None or not self._options.jobs):
                    return "no job is left" if self._done_since is None else ""
                # Seen once more, as they then are.
                if self._options.detach and self._done_since is None and not self._has_acted:
                    return self._left
            wait = POLL_SECONDS if self._has_changed else min(1.5 * wait, LONGEST_POLL_SECONDS)
            self._stop.wait(wait)
        raise InterruptedRunError(
            f"interrupted; {self._left}: the same line watches them again, and gives them back "
            "with --workers 0"
        )

    @property
    def _left(self) -> str:
        count = plural(len(self._kept), "job") if self._has_seen else "jobs may be"
        return f"{count} left to {self._options.launcher}"

    @property
    def _kept(self) -> list[PlacedJob]:
        """Jobs that wait or run and are to go on."""
        return [job for job in self._known.values() if job.id not in self._given_back]

    def _look(self) -> bool:
        """Look once, and do what is to be done; whether the engine answers.

        Raises:
            FastrcapsError: As for :meth:`run`.
        """
        self._has_changed = self._has_acted = False
        try:
            ended = self._seen()
            # Read after the jobs: one that has ended may have done the last that was left.
            outcome = self._outcome()
            self._note_progress(outcome)
            self._judge(outcome, ended)
            self._keep(outcome, ended)
        except _SilentError as error:
            if not self._is_silent:
                self._tell(f"waits for {self._options.launcher}: {error}")
            self._is_silent = True
            return False
        if self._is_silent:
            self._tell(f"{self._options.launcher} answers again")
        self._is_silent = False
        self._store_jobs()
        return True

    def _store_jobs(self) -> None:
        """Store the jobs as they are now, for ``status`` and for later runs."""
        records = [
            JobRecord(
                engine=self._options.launcher,
                id=job.id,
                state=GIVEN_BACK if job.id in self._given_back else job.state,
                host=job.host,
                reason=job.reason,
                flags=self._flags.get(job.id, ""),
            )
            for job in (*self._known.values(), *self._withdrawn)
        ]
        store_jobs(self._store, self._study, self._options.launcher, records)

    def _seen(self) -> list[PlacedJob]:
        """Ask the engine, and tell what has changed; the jobs that have ended since."""
        with self._answering():
            jobs = {job.id: job for job in self._cluster.jobs(self._name)}
        # What an engine has forgotten has ended too.
        gone = [
            jobs.get(id) or PlacedJob(id, JobState.ENDED, before.host, log=before.log)
            for id, before in self._known.items()
            if id not in jobs or jobs[id].state is JobState.ENDED
        ]
        live = [job for job in jobs.values() if job.state is not JobState.ENDED]
        waiting = {job.id for job in live if job.state is JobState.WAITING}
        if not self._has_seen:
            # What runs still is asked again, if there is reason to.
            self._given_back &= waiting
        # Ray ends what waits only once it begins.
        self._withdrawn = [job for job in live if job.id in self._given_back & waiting]
        known = {job.id: job for job in live if job not in self._withdrawn}
        for id, job in known.items():
            line = _line(job)
            if id not in self._known or line != _line(self._known[id]):
                self._change(line)
        self._known = known
        if not self._has_seen and self._options.jobs:
            self._replace_others()
        self._has_seen = True
        return gone

    def _replace_others(self) -> None:
        """Give back what waits and was placed with other flags: it may wait for ever."""
        others = [
            job
            for job in self._kept
            if self._flags.get(job.id, self._own_flags) != self._own_flags
        ]
        self._cancel([job.id for job in others if job.state is JobState.WAITING])
        for job in others:
            if job.state is JobState.RUNNING:
                self._change(f"job {job.id} goes on with the options that it was placed with")

    def _note_progress(self, outcome: RunOutcome) -> None:
        """Tell how far the study is; once it gets on, earlier failures do not count."""
        for name, event in self._follower.news(outcome):
            view = WorkerView(name, trial=event["trial"], run=event.get("run"))
            self._observe({name: view}, (name, event))
        done = f"{outcome.work.finished}/{outcome.work.target} done"
        if done != self._done:
            self._tell(done)
        # A trial that has failed is no progress: a worker ends after some in a row.
        runs = [run for trial in outcome.trials for run in trial.runs]
        complete = sum(run.accuracy is not None for run in runs)
        now = (complete, stored_epochs(self._store, self._study))
        if now != self._got_on:
            self._failed.clear()
            self._fruitless, self._not_before = 0, 0.0
        self._done, self._got_on = done, now

    def _judge(self, outcome: RunOutcome, ended: Sequence[PlacedJob]) -> None:
        """Give up where jobs fail again and again; wait where they end and end.

        Raises:
            RunError: They fail.
        """
        self._failed += [job for job in ended if job.has_failed]
        self._fruitless += len(ended)
        if len(ended) and self._fruitless > FAILURES:
            pause = min(POLL_SECONDS * 2.0**self._fruitless, 60 * LONGEST_POLL_SECONDS)
            self._not_before = time.monotonic() + pause
        # Where nothing is left, the trials say more.
        if outcome.work.is_done or len(self._failed) < FAILURES:
            return
        for job in ended:
            self._change(_line(job))
        with suppress(_SilentError):
            self._cancel([job.id for job in self._kept])
        self._store_jobs()
        last = self._failed[-1]
        raise RunError(
            f"{len(self._failed)} jobs have failed in a row without the study getting on "
            f"({last.reason}), so the run stops; {self._log_of(last)}"
        )

    def _log_of(self, job: PlacedJob) -> str:
        """How the log of a job ends, and where it is."""
        if job.log is None:
            return f"job {job.id} has no log here"
        try:
            said = job.log.read_bytes()[-LOG_BYTES:].decode(errors="replace")
        except OSError as error:
            return f"{job.log} must be its log, got: {error.strerror}"
        words = " ".join(self._options.location.redacted(said).split())
        tail = words if len(words) <= LOG_CHARACTERS else f"... {words[-LOG_CHARACTERS:]}"
        return f"{job.log} ends: {tail}" if words else f"{job.log} is empty"

    def _keep(self, outcome: RunOutcome, ended: Sequence[PlacedJob]) -> None:
        """Place jobs or cancel some, so that as many are left as there is work for."""
        work, live = outcome.work, self._kept
        most = 0 if work.is_done else min(self._options.jobs, work.at_once)
        waiting = [job.id for job in live if job.state is JobState.WAITING]
        running = [job.id for job in live if job.state is JobState.RUNNING]
        surplus = len(live) - most
        # The latest first, of those that wait; one that runs and finds nothing gives itself back.
        given_back = waiting[::-1][: max(surplus, 0)]
        beyond = len(running) - self._options.jobs
        if beyond > 0 and not work.is_done:
            given_back += running[::-1][:beyond]
        if work.is_done:
            self._done_since = self._done_since or time.monotonic()
            if time.monotonic() - self._done_since > ENDING_SECONDS:
                given_back += running
        else:
            self._done_since = None
        self._cancel(given_back)
        placed = self._place(-surplus) if time.monotonic() >= self._not_before else []
        for index in range(max(len(ended), len(placed))):
            words = [_line(job) for job in ended[index : index + 1]]
            again = "placed again as job" if words else "placed: job"
            words += [f"{again} {id}" for id in placed[index : index + 1]]
            self._change(", ".join(words))

    def _place(self, count: int) -> list[str]:
        placed: list[str] = []
        if count > 0:
            self._has_acted = True
            write_storage(self._options, self._study)
        while len(placed) < count and not self._stop.is_set():
            job = worker_job(self._options, self._study)
            with self._answering():
                id = self._cluster.place(job)
            # One that ends before the next look has ended all the same.
            self._known[id] = PlacedJob(id, JobState.WAITING, log=job.log)
            self._flags[id] = self._own_flags
            placed.append(id)
        return placed

    def _cancel(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        self._has_acted = True
        with self._answering():
            self._cluster.cancel(ids)
        self._given_back.update(ids)
        self._change(f"given back: {', '.join(f'job {id}' for id in ids)}")

    def _change(self, line: str) -> None:
        self._has_changed = True
        self._tell(line)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Ask the engine something; what it refuses ends the run, its silence does not."""
        try:
            yield
        except UsageError:
            raise
        except RunError as error:
            raise _SilentError(str(error)) from error


def _line(job: PlacedJob) -> str:
    """How a job stands."""
    reason = shorten(job.reason, LOG_CHARACTERS)
    if job.state is JobState.WAITING:
        return f"job {job.id} waits{reason and f': {reason}'}"
    if job.state is JobState.RUNNING:
        return f"job {job.id} runs{job.host and f' on {job.host}'}"
    return f"job {job.id} ended{reason and f' ({reason})'}"
