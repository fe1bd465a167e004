"""Many stub workers on one study at once, forked from one process that has imported everything.

Each has a store, and so connections, of its own. All but the training is the product's: the loop
of a worker, the queue, claims, leases with their renewals, epochs, ends, checkpoints that are
looked through, and the export to Optuna's tables. The proposal is drawn at random among the
configurations that are left, so that a claim's time is the store's and not the sampler's.

Run as a program with a number of workers it lets them end the study of the database that
``FASTRCAPS_STORAGE`` names, each in a process of its own, and prints what each process has seen as
JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import reprlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import InterruptedRunError
from fastrcaps_search.search.configurations import configurations
from fastrcaps_search.search.events import WorkerEvent
from fastrcaps_search.search.launch import WorkerSpec
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import STORAGE_VARIABLE, locate
from fastrcaps_search.store.records import RunKey, StudyRecord, TrialState
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.end_to_end.stub_worker import PAUSE_VARIABLE, STUBBED, StubWorker

STUDY = "crowd"
FORKING = multiprocessing.get_context("fork")
PATIENCE_SECONDS = 120.0


def study_of(sizes: int) -> StudyDefinition:
    """A study of four configurations and more for each batch size, from 1 on."""
    return StudyDefinition.from_dict(
        {
            **STUBBED.to_dict(),
            "name": STUDY,
            "train_images": 4000,
            "space": {"batch_size": [*range(1, sizes + 1)], "adabatch_exponent": [2]},
        }
    )


def propose(
    study: StudyRecord, trials: Sequence[TrialRecord], worker: str
) -> tuple[TrialParameters, str] | None:
    """Any configuration that is left: others may propose the same one."""
    taken = {trial.configuration_key for trial in trials}
    known = configurations(study.definition)
    left = [(parameters, key) for key, parameters in known.items() if key not in taken]
    return random.choice(left) if left else None


@dataclass(slots=True)
class Tally:
    """What one process of workers has seen.

    Attributes:
        began: When its workers were let go, on the monotonic clock of the machine.
        ended: When the last of them had ended.
        cpu_seconds: Of the process, in between.
        claim_seconds: Of each question that gave a run.
        completed: Trials that its workers have completed.
        lost: Claims that another worker was quicker to make.
        words: How often its workers said what.
        faults: How workers ended that should not have.
    """

    began: float = 0.0
    ended: float = 0.0
    cpu_seconds: float = 0.0
    claim_seconds: list[float] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    lost: int = 0
    words: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def said(self, word: str) -> None:
        """Count a word."""
        self.words[word] = self.words.get(word, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How many workers, where, and what they do.

    Attributes:
        url: The database, which holds the study.
        workers: How many.
        processes: In which they are: each has a thread for each of its workers.
        epoch_seconds: Length of each of the five epochs.
        until_stopped: Whether they work until all are asked to stop, not until nothing is left.
    """

    url: str
    workers: int
    processes: int
    epoch_seconds: float = 0.0
    until_stopped: bool = False


class CrowdWorker(StubWorker):
    """A worker that tallies, and needs neither images nor the main thread."""

    def __init__(
        self, store: Store, spec: WorkerSpec, tally: Tally, stop: threading.Event
    ) -> None:
        super().__init__(store, spec, tell=self._note, stop=stop)
        self._tally = tally
        claimant = CountingClaimant(
            store=store,
            study=self._study,
            worker=spec.name,
            device=spec.device,
            lease_seconds=spec.lease_seconds,
            tally=tally,
        )
        self._queue = TimedQueue(claimant, propose)

    def _note(self, event: WorkerEvent | str, **facts: Any) -> None:  # noqa: ANN401
        self._tally.said(str(event))
        if event == "complete":
            self._tally.completed.append(facts["trial"])

    def _staged(self) -> Any:  # noqa: ANN401  # nothing
        return None

    def _train(self, lease: RunLease) -> None:
        super()._train(lease)
        self._collector.collect()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingClaimant(Claimant):
    """Counts the claims that came too late."""

    tally: Tally

    def _leased(self, *change: Any) -> Claim | None:  # noqa: ANN401  # the claimant's own
        claim = Claimant._leased(self, *change)
        self.tally.lost += claim is None
        return claim


class TimedQueue(TrialQueue):
    """Measures how long a worker is without a run that is there for it."""

    def claim_next(self) -> Claim | Idle:
        """As the queue does."""
        began = time.perf_counter()
        found = TrialQueue.claim_next(self)
        if isinstance(found, Claim):
            tally: Tally = self._claimant.tally  # type: ignore[attr-defined]  # it counts
            tally.claim_seconds.append(time.perf_counter() - began)
        return found


def gather(
    crowd: Crowd,
    *,
    before: Callable[[], None] = lambda: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Tally]:
    """Let a crowd work until its end; what each process has seen.

    Args:
        crowd: The crowd.
        before: Called once all have joined the study, right before they are let go.
        meanwhile: Called while they work; those that work until they are stopped are so after it.
    """
    with Store.reading(locate(crowd.url)) as store:
        # Listed once for all.
        configurations(store.study(STUDY).definition)
    gate = FORKING.Barrier(crowd.processes + 1)
    with tempfile.TemporaryDirectory() as files:
        pipes, children = [], []
        for index in range(crowd.processes):
            ours, theirs = FORKING.Pipe(duplex=False)
            names = [f"w{one}" for one in range(index, crowd.workers, crowd.processes)]
            child = FORKING.Process(target=_be_process, args=(crowd, names, files, gate, theirs))
            child.start()
            theirs.close()
            pipes.append(ours)
            children.append(child)
        try:
            gate.wait(PATIENCE_SECONDS)
            before()
            gate.wait(PATIENCE_SECONDS)
            meanwhile()
            if crowd.until_stopped:
                gate.wait(PATIENCE_SECONDS)
            tallies = [pipe.recv() for pipe in pipes]
        finally:
            for child in children:
                # One that has told all ends by itself.
                child.join(PATIENCE_SECONDS)
                child.kill()
    return tallies


def _be_process(
    crowd: Crowd,
    names: Sequence[str],
    files: str,
    gate: Any,  # noqa: ANN401  # the library names no type for a barrier
    pipe: Connection,
) -> None:
    """The life of a process of workers."""
    os.environ[PAUSE_VARIABLE] = str(crowd.epoch_seconds)
    tally, stop = Tally(), threading.Event()

    def work(name: str) -> None:
        location = locate(crowd.url, files=files)
        spec = WorkerSpec(
            study=STUDY,
            name=name,
            device="cpu",
            threads=1,
            location=location,
            log=Path(files) / name,
            lease_seconds=30.0,
            store_patience=PATIENCE_SECONDS,
        )
        patience = RetryPolicy(PATIENCE_SECONDS, stop, lambda reason: _tell_outage(tally, reason))
        try:
            with (
                closing(Store.writing(location, patience=patience)) as store,
                closing(CrowdWorker(store, spec, tally, stop)) as worker,
            ):
                joined.wait()
                with suppress(InterruptedRunError):
                    worker.work()
        except BaseException as error:
            joined.abort()
            tally.faults.append(f"{name}: {error!r}")

    joined = threading.Barrier(len(names) + 1)
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    while joined.n_waiting < len(names) and not joined.broken:
        time.sleep(0.005)
    gate.wait(PATIENCE_SECONDS)
    gate.wait(PATIENCE_SECONDS)
    tally.began, used = time.monotonic(), time.process_time()
    with suppress(threading.BrokenBarrierError):
        joined.wait()
    if crowd.until_stopped:
        gate.wait()
        stop.set()
    for thread in threads:
        thread.join()
    tally.ended, tally.cpu_seconds = time.monotonic(), time.process_time() - used
    pipe.send(tally)


def _tell_outage(tally: Tally, reason: str | None) -> None:
    if reason is not None:
        tally.said(reason.partition(",")[0])


def faults_of(url: str, tallies: Sequence[Tally], *, budget: int) -> list[str]:
    """What is not as an exact budget has it; nothing where all is."""
    with Store.reading(locate(url)) as store:
        study = store.study(STUDY)
        trials, leases, claims = store.trials(study), store.leases(study), store.claims(study)
    completed = sorted(number for tally in tallies for number in tally.completed)
    trained = [(claim.key, claim.token) for claim in claims if claim.is_training]
    wanted = {
        "numbers": ([trial.number for trial in trials], [*range(budget)]),
        "states": ({trial.state for trial in trials}, {TrialState.COMPLETE}),
        "configurations": (len({trial.configuration_key for trial in trials}), budget),
        "trials completed by a worker": (completed, [*range(budget)]),
        "training claims": (trained, [(RunKey(number, 0), 1) for number in range(budget)]),
        "leases that are left": (leases, []),
        "workers that failed": ([fault for tally in tallies for fault in tally.faults], []),
    }
    return [
        f"{name} must be {reprlib.repr(right)}, got {reprlib.repr(found)}"
        for name, (found, right) in wanted.items()
        if found != right
    ]


def main() -> None:
    """Let the workers end a study."""
    workers = int(sys.argv[1])
    crowd = Crowd(url=os.environ[STORAGE_VARIABLE], workers=workers, processes=workers)
    tallies = gather(crowd)
    print(json.dumps([asdict(tally) for tally in tallies]))


if __name__ == "__main__":
    main()
