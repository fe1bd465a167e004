"""What workers of the tests store, and workers in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search.queue import TrialQueue
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import Failure, Purpose, RunRecord, StudyRecord, Values
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.triples import values_of

VALUES = values_of(0.9, 2.0, 61_706)
FAILURE = Failure("E", "no", "", "")
SETTING = RunSetting("cpu", "CPU", "2.14", "fp32", 1, "eager")
METRICS = EpochMetrics(1, 16, 1e-3, 1e-3, 0.5, 0.4, 0.1, 0.8, 0.9, 2.0, 0.1, 4, 64)

LONGEST_WAIT_SECONDS = 60.0
POLL_SECONDS = 0.02

# The search of a worker takes torch and two seconds to import. This proposal is the next in a row.
BEGIN = """
import json, os, sys, time
from fastrcaps_search.errors import FastrcapsError
from fastrcaps_search.search.configurations import configurations
from fastrcaps_search.metrics import RunResult
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.store.claiming import Claimant
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store


def propose(study, trials, worker):
    taken = {trial.configuration_key for trial in trials}
    for key, parameters in configurations(study.definition).items():
        if key not in taken:
            return parameters, key
    return None


def queue_of(store, worker, **more):
    study = store.study("tiny")
    claimant = Claimant(store=store, study=study, worker=worker, device="cpu", **more)
    return TrialQueue(claimant, propose)


location = locate(sys.argv[1])
"""

CLAIM_AND_WAIT = (
    BEGIN
    + """
store = Store.writing(location)
print(queue_of(store, "child").claim_next().key.number, flush=True)
input()
"""
)


def child(
    script: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A Python process with the script, whose standard input and output are the test's."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def line(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints; empty once it has ended."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def say(process: subprocess.Popen[str], text: str = "") -> None:
    """Give a process a line to read."""
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def until(
    condition: Callable[[], object],
    seconds: float = LONGEST_WAIT_SECONDS,
    *,
    every: float = POLL_SECONDS,
    said: Callable[[], str] = str,
) -> None:
    """Wait for what another process is about to bring about.

    Args:
        condition: Whether it has come about.
        seconds: The longest that it may take.
        every: Seconds between two looks.
        said: What the other process said, for where it does not come about.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it must come true within {seconds:g} s; {said()}"
        time.sleep(every)


def queue_of(store: Store, study: StudyRecord, worker: str = "w0") -> TrialQueue:
    """The queue of a worker of the study."""
    return TrialQueue(Claimant(store=store, study=study, worker=worker, device="cpu"), propose)


def claimed(queue: TrialQueue, purpose: Purpose = Purpose.TRAIN) -> Claim:
    """What the queue gives next: a run for that purpose."""
    claim = queue.claim_next()
    assert isinstance(claim, Claim)
    assert claim.purpose is purpose
    return claim


@contextmanager
def renewing(lease: RunLease) -> Iterator[None]:
    """Renew the lease; the last renewal has ended before the store can be closed."""
    before = threading.enumerate()
    with lease.renewed():
        (thread,) = [one for one in threading.enumerate() if one not in before]
        yield
    thread.join()


def result_of(values: Values = VALUES) -> RunResult:
    """The result of a run with these values."""
    return RunResult(values.accuracy, values.training_seconds, int(values.parameters), 1)


def complete(store: Store, claim: Claim, values: Values = VALUES) -> None:
    """End a run as if it had been trained."""
    lease = RunLease(store, claim)
    lease.begin(SETTING, fresh=True)
    lease.finish(result_of(values))


def fail(store: Store, claim: Claim, failure: Failure = FAILURE) -> None:
    """End a planned run, and with it its trial, without values."""
    RunLease(store, claim).fail(failure, ends_trial=True)


def run_of(store: Store, study: StudyRecord, number: int = 0, run: int = 0) -> RunRecord:
    """A run as it is stored."""
    return store.trials(study)[number].runs[run]


def file_of(location: Location) -> Path:
    """The SQLite file."""
    assert location.path is not None
    return location.path


def trial_of(store: Store, study: StudyRecord, number: int = 0) -> TrialRecord:
    """A trial as it is stored."""
    return store.trials(study)[number]


class Clock:
    """Moves the times of all leases back, as if the time had passed that the tests speak of."""

    def __init__(self, sql: Callable[[str], object]) -> None:
        self._sql = sql

    def silence(self, seconds: float) -> None:
        """All workers have been silent for so much longer."""
        self._sql(f"update fastrcaps_leases set renewed_at = renewed_at - {seconds}")

    def pass_by(self, seconds: float) -> None:
        """The same, and all suspicions are so much older."""
        self._sql(
            f"update fastrcaps_leases set renewed_at = renewed_at - {seconds}, "
            f"suspected_at = suspected_at - {seconds}"
        )

    def kill(self) -> None:
        """The processes of all leases have ended; their ids are those of others now."""
        self._sql("update fastrcaps_leases set process_start = process_start + 1")
