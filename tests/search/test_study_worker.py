"""What a worker does between its trials: it waits for cores, sees the end, is heard or not."""

from __future__ import annotations

import logging
import os
import queue
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DeviceError, InterruptedRunError, StoreUnavailableError
from fastrcaps_search.search import launch
from fastrcaps_search.search.files import LOG, logging_to
from fastrcaps_search.search.launch import LOCAL, LocalWorker, WorkerSpec
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.search.slots import Slots
from fastrcaps_search.search.study_worker import Worker, wait_seconds
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.supervise import Supervisor
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import Purpose, StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import Limit
from tests.store.workers import claimed, complete, fail

pytestmark = pytest.mark.usefixtures("torch_as_it_was")

STUDY = StudyDefinition.from_dict(
    {
        "name": "tiny",
        "network": "lenet5",
        "data_set": "mnist-mini",
        "epochs": 2,
        "boundaries": [1],
        "train_images": 64,
        "space": {"lr_policy": ["fixed", "one_cycle"], "batch_policy": ["constant"]},
    }
)


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return locate(str(tmp_path / "a.db"))


@pytest.fixture
def open_store(location: Location) -> Iterator[Callable[[], Store]]:
    """Opens the store."""
    with ExitStack() as stack:

        def opened() -> Store:
            store = Store.writing(location)
            stack.callback(store.close)
            return store

        yield opened


@pytest.fixture
def all_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Slots]:
    """All cores of a machine with two, held by somebody else."""
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "slots"))
    monkeypatch.setattr("fastrcaps_search.search.study_worker.cores", lambda: Limit(1))
    with Slots(owner="worker-7 of study other") as slots:
        assert slots.try_claim(len(os.sched_getaffinity(0)))
        yield slots


def queue_of(store: Store, study: StudyRecord) -> TrialQueue:
    return TrialQueue(Claimant(store=store, study=study, worker="other", device="cpu"), propose)


def worker(
    store: Store,
    told: queue.Queue[tuple[str, dict[str, Any]]],
    *,
    idle_limit: float | None = None,
) -> Worker:
    spec = WorkerSpec(
        study="tiny",
        name="worker-0",
        device="cpu",
        threads=1,
        location=store.location,
        log=Path("log"),
        lease_seconds=30.0,
        store_patience=600.0,
        idle_limit=idle_limit,
    )
    return Worker(
        store,
        spec,
        tell=lambda event, **facts: told.put((event, facts)),
        stop=threading.Event(),
    )


def test_a_worker_tells_the_length_of_each_training(
    location: Location,
    open_store: Callable[[], Store],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "slots"))
    space = {"lr_policy": ["fixed"], "batch_policy": ["constant"], "epochs": [1, 3]}
    definition = StudyDefinition.from_dict({**STUDY.to_dict(), "space": space})
    enter_study(location, definition, seed=None, budget=2)
    told: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
    worker(open_store(), told).work()
    begun, epochs = {}, dict.fromkeys((0, 1), 0)
    trial = -1
    while not told.empty():
        event, facts = told.get()
        if event == "begins":
            trial = facts["trial"]
            begun[trial] = (facts["policy"], facts["epochs"])
        epochs[trial] = facts["epoch"] if event == "epoch" else epochs.get(trial, 0)
    assert sorted(begun.values()) == [("fixed epochs=1", 1), ("fixed epochs=3", 3)]
    assert {number: length for number, (_, length) in begun.items()} == {
        number: epochs[number] for number in begun
    }


def test_a_worker_ends_that_finds_nothing_to_claim_for_too_long(
    location: Location,
    open_store: Callable[[], Store],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "slots"))
    study = enter_study(location, STUDY, seed=None, budget=1)
    store, told = open_store(), queue.Queue[tuple[str, dict[str, Any]]]()
    # Its only run is held by another one.
    assert isinstance(queue_of(store, study).claim_next(), Claim)
    begun = time.monotonic()
    worker(store, told, idle_limit=1.0).work()
    assert 1 <= time.monotonic() - begun < 60
    events = [event for event, _ in told.queue]
    assert events == ["waiting", "idle"]


def test_a_worker_says_that_it_waits_for_the_lease_of_a_lost_machine(
    location: Location,
    open_store: Callable[[], Store],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "slots"))
    study = enter_study(location, STUDY, seed=None, budget=1)
    store, told = open_store(), queue.Queue[tuple[str, dict[str, Any]]]()
    claimed(queue_of(store, study))
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(
            "update fastrcaps_leases set host = 'far/1', pid = 7, renewed_at = renewed_at - 400"
        )
    connection.close()
    made = worker(store, told)
    # It waits no longer than until it has said so.
    monkeypatch.setattr(made._stop, "wait", lambda seconds: made._stop.set())
    with pytest.raises(InterruptedRunError):
        made.work()
    event, facts = told.get_nowait()
    assert event == "waiting"
    assert re.fullmatch(
        r"trial 0 \(other, process 7 on far, is silent for 4\d\d s, free in \d+ s\)", facts["held"]
    )


def test_a_worker_without_a_core_sees_that_the_study_is_over(
    location: Location, open_store: Callable[[], Store], all_cores: Slots
) -> None:
    study = enter_study(location, STUDY, seed=None, budget=2)
    store = open_store()
    others = queue_of(store, study)
    first, second = claimed(others), claimed(others)
    fail(store, first)
    told: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
    waiting = worker(open_store(), told)
    thread = threading.Thread(target=waiting.work)
    thread.start()
    event, facts = told.get(timeout=60)
    assert (event, facts["cores"]) == ("no_cores", 1)
    assert not others.is_over()
    fail(store, second)
    assert told.get(timeout=60) == ("done", {})
    thread.join(60)
    assert not thread.is_alive()
    waiting.close()


def test_the_study_is_over_when_no_configuration_is_left(
    location: Location, open_store: Callable[[], Store]
) -> None:
    study = enter_study(location, STUDY, seed=None, budget=9)
    store = open_store()
    others = queue_of(store, study)
    for _ in range(2):
        assert not others.is_over()
        fail(store, claimed(others))
    assert others.is_over()
    assert others.claim_next() is Idle.DONE


def test_a_device_that_gives_out_costs_a_reading_of_the_test_set_for_now(
    location: Location, open_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = enter_study(location, STUDY, seed=None, budget=1)
    store, told = open_store(), queue.Queue[tuple[str, dict[str, Any]]]()
    others = queue_of(store, study)
    complete(store, claimed(others))
    made = worker(store, told)

    def give_out() -> None:
        raise DeviceError("no memory")

    monkeypatch.setattr(made, "_staged", give_out)
    made._do(claimed(others, Purpose.TEST))
    made.close()
    assert [event for event, _ in (told.get(), told.get())] == ["testing", "untested"]
    assert not store.leases(study)
    assert made._queue.is_over()
    assert not others.is_over()


def test_a_run_is_given_back_when_the_database_answers_again(
    location: Location, open_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = enter_study(location, STUDY, seed=None, budget=1)
    store = open_store()
    made = worker(store, queue.Queue())
    release, refusals = RunLease.release, [StoreUnavailableError("away")]

    def refuse_once(lease: RunLease) -> None:
        if refusals:
            raise refusals.pop()
        release(lease)

    def stop(lease: RunLease) -> None:
        raise InterruptedRunError("stopped on request")

    monkeypatch.setattr(RunLease, "release", refuse_once)
    monkeypatch.setattr(made, "_train", stop)
    with pytest.raises(InterruptedRunError):
        made._do(claimed(queue_of(store, study)))
    made.close()
    assert not store.leases(study)


def test_a_worker_that_cannot_have_the_threads_of_a_run_goes_on_with_its_own(
    location: Location,
    open_store: Callable[[], Store],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    monkeypatch.setenv("FASTRCAPS_RUNTIME_DIR", str(tmp_path / "slots"))
    every = len(os.sched_getaffinity(0))
    enter_study(location, STUDY, seed=None, budget=2)
    made = worker(open_store(), queue.Queue())
    assert made._slots.try_claim(1)
    assert made._threads(every) == every
    assert made._threads(every + 1) == every
    assert made._threads(None) == 1
    with Slots(owner="other") as other:
        assert other.try_claim(1)
        assert made._threads(every) == 1
    made.close()


def test_a_full_disk_under_the_log_of_a_trial_harms_nothing(tmp_path: Path) -> None:
    full = tmp_path / "log.txt"
    full.symlink_to("/dev/full")
    LOG.setLevel(logging.INFO)
    with logging_to(full):
        LOG.info("a line that does not fit")


UNHEARD = """
import json, os, sys
from fastrcaps_search.search.worker import _teller
tell = _teller()
for number in range(20_000):
    tell("progress", epoch=number, images=1, images_per_second=1.0)
sys.stderr.write("went on\\n")
sys.stderr.flush()
"""


def test_a_worker_goes_on_when_nobody_reads_what_it_tells() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", UNHEARD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "went on\n"
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    assert 10 < len(lines) < 20_000
    assert lines[0].startswith('{"event": "progress", "epoch": 0')


SUSPENDED = """
import json, os, signal, sys
if "worker-1" in sys.argv:
    os.kill(os.getpid(), signal.SIGSTOP)
print(json.dumps({"event": "done"}), flush=True)
"""


def test_a_suspended_worker_does_not_keep_a_finished_study_from_ending(
    tmp_path: Path, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        launch, "worker_command", lambda spec: [sys.executable, "-c", SUSPENDED, spec.name]
    )
    specs = [
        WorkerSpec(
            study="tiny",
            name=f"worker-{index}",
            device="cpu",
            threads=1,
            location=location,
            log=tmp_path / f"{index}.log",
            lease_seconds=30.0,
            store_patience=600.0,
        )
        for index in range(2)
    ]
    started: list[int] = []
    supervisor = Supervisor(
        specs,
        launcher=LOCAL,
        stop=threading.Event(),
        observe=lambda views, heard: started.extend(
            made.process.pid
            for made in supervisor._workers.values()
            if isinstance(made, LocalWorker)
        ),
        max_failures=3,
    )
    supervisor.run()
    for pid in set(started):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("waited", "least", "most"),
    [(0.0, 0.4, 0.6), (10.0, 0.4, 0.6), (60.0, 2.4, 3.6), (100.0, 4.0, 6.0), (86_400.0, 4.0, 6.0)],
)
def test_it_asks_again_after_a_twentieth_of_what_it_has_waited(
    waited: float, least: float, most: float
) -> None:
    pauses = [wait_seconds(waited) for _ in range(100)]
    assert least <= min(pauses)
    assert max(pauses) <= most
    # Not all at one moment.
    assert max(pauses) - min(pauses) > (most - least) / 2
