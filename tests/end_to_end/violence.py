"""Signals at random moments to the workers of a study, and what must be true in the end."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import optuna

from fastrcaps_search.analysis.remaining_work import untested_front
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics
from fastrcaps_search.search.events import Events
from fastrcaps_search.search.launch import LOCAL, WorkerSpec
from fastrcaps_search.search.optuna_export import OptunaExport
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from tests.end_to_end import stub_worker

SECONDS = {"training_seconds", "evaluation_seconds"}
STOP_SECONDS = 30.0
STUB_CODE = Path(stub_worker.__file__)
TIME_ZONES = ("UTC", "Asia/Tokyo", "America/New_York")


class Process(Protocol):
    """A worker to be struck."""

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""

    def exit_code(self) -> int:
        """Of a worker that has said its last word."""


class StubProcess:
    """A forked worker with a stub of a training.

    Args:
        name: Name of the worker.
        events: Receives its words, and ``None`` after the last.
        order: Starts it; is given the end of a pipe for its words.
        strike: Sends its process a signal.
    """

    def __init__(
        self,
        name: str,
        events: Events,
        order: Callable[[int], None],
        strike: Callable[[int, int], None],
    ) -> None:
        self.pid: int | None = None
        self._code: int | None = None
        self._strike = strike
        words, pipe = os.pipe()
        order(pipe)
        os.close(pipe)
        threading.Thread(target=self._listen, args=(name, events, words), daemon=True).start()

    def _listen(self, name: str, events: Events, words: int) -> None:
        with open(words, encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                self.pid = event.get("pid", self.pid)
                self._code = event.get("exit_code", self._code)
                events.put((name, event))
        events.put((name, None))

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.pid is not None:
            self._strike(self.pid, number)

    def exit_code(self) -> int:
        """Of a worker that has said its last word."""
        assert self._code is not None, "the process that forks the workers has died"
        return self._code


@dataclass(frozen=True, kw_only=True)
class Stubs:
    """Starts stub workers.

    Attributes:
        orders: Socket of the process that forks them.
        location: The database.
        study: Name of the study.
        lease_seconds: Silence after which a worker counts as lost.
        pause_seconds: Of an epoch.
        store_patience: Seconds for which an outage of the database is borne.
        events: Receives the words of all.
    """

    orders: socket.socket
    location: Location
    study: str
    lease_seconds: float
    pause_seconds: float = 0.02
    store_patience: float = 600.0
    events: Events = field(default_factory=queue.Queue)

    def start(self, name: str) -> StubProcess:
        """Start one."""
        order = stub_worker.start_order(
            name=name,
            study=self.study,
            storage=self.location.url,
            files=self.location.files,
            lease_seconds=self.lease_seconds,
            store_patience=self.store_patience,
            pause_seconds=self.pause_seconds,
            # Nobody's clock but the database's counts.
            time_zone=TIME_ZONES[len(name) * ord(name[-1]) % len(TIME_ZONES)],
        )

        def send(pipe: int) -> None:
            socket.send_fds(self.orders, [json.dumps(order).encode()], [pipe])

        def strike(pid: int, number: int) -> None:
            self.orders.send(json.dumps({"pid": pid, "signal": number}).encode())

        return StubProcess(name, self.events, send, strike)


@contextmanager
def nursery() -> Iterator[socket.socket]:
    """The process that forks stub workers; its socket. All workers end with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, str(STUB_CODE), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                # Threads of a library would not survive a fork.
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        try:
            yield ours
        finally:
            ours.close()
            process.wait(STOP_SECONDS)


class RealProcess:
    """A worker as a run starts it."""

    def __init__(self, spec: WorkerSpec, events: Events) -> None:
        self._worker = LOCAL.start(spec, events)
        self.pid = self._worker.process.pid

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        self._worker.process.send_signal(number)

    def exit_code(self) -> int:
        """Of a worker that has said its last word."""
        code = self._worker.wait(STOP_SECONDS)
        assert code is not None, "a worker that says no more must end"
        self._worker.kill()
        return code


@dataclass(frozen=True, slots=True)
class Stroke:
    """What may befall a worker, with how often as a weight."""

    name: str
    weight: int


KILL, ASK, NAP, COMA = (
    Stroke("kill -9", 40),
    Stroke("SIGTERM", 25),
    Stroke("short SIGSTOP", 20),
    Stroke("long SIGSTOP", 10),
)
STROKES = (KILL, ASK, NAP, COMA)
# Of a worker that was asked to stop: that has done so, or had not yet got so far as to listen.
ALLOWED = {KILL: {-signal.SIGKILL}, ASK: {130, -signal.SIGTERM}}
MOST_IN_COMA = 2


class Violence:
    """Strikes the workers of a study until it is done, and starts anew those that it killed.

    The strokes follow the words of the workers: a slow machine has no more of them than a fast
    one, only later.

    Args:
        start: Starts the worker of a name.
        events: Receives the words of all workers.
        names: Names of the workers.
        seed: Of the choices; the moments depend on the machine too.
        coma_seconds: Longest suspension, where nobody takes the trial over: must be longer than a
            lease. Nobody can, nor do anything else, when the worker was suspended while it held
            the lock of the study.
        words_between: Longest count of words between two strokes.
        most_strokes: Strokes after which there is peace.
        limit_seconds: Time for all.

    Until the first worker has lost a trial, one is always suspended for long.

    Attributes:
        strokes: How many of each kind.
        claims: How often each trial was claimed to be trained.
        ends: How often each trial was said to be complete.
        words: How often each word was heard.
    """

    def __init__(
        self,
        start: Callable[[str], Process],
        events: Events,
        *,
        names: Sequence[str],
        seed: int,
        coma_seconds: float,
        words_between: int,
        most_strokes: int = 1000,
        limit_seconds: float = 120.0,
    ) -> None:
        self.strokes: Counter[str] = Counter()
        self.claims: Counter[int] = Counter()
        self.ends: Counter[int] = Counter()
        self.words: Counter[str] = Counter()
        self._start = start
        self._events = events
        self._random = random.Random(seed)
        self._coma_seconds = coma_seconds
        self._most_in_coma = min(MOST_IN_COMA, len(names) // 2)
        self._words_between = words_between
        self._most_strokes = most_strokes
        self._end = time.monotonic() + limit_seconds
        self._alive = {name: start(name) for name in names}
        self._holds: dict[str, int] = {}
        self._struck: dict[str, set[Stroke]] = {name: set() for name in names}
        # Suspended workers, and when to wake them.
        self._asleep: dict[str, float] = {}
        # Those that are to find out by themselves what was done to them.
        self._spared: set[str] = set()
        # Whether the next one that ends an epoch falls asleep for long.
        self._coma_due = False
        self._words_left = words_between
        self._strike_at = float("inf")
        self._said: deque[str] = deque(maxlen=200)

    def run(self) -> None:
        """See the study through."""
        while self._alive:
            self._step()

    def run_until_completed(self, trials: int) -> None:
        """Go on until so many trials are complete."""
        while self.words["complete"] < trials:
            self._step()

    def run_for(self, seconds: float) -> None:
        """Go on for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._step()

    def close(self) -> None:
        """End all workers that are left."""
        for process in self._alive.values():
            process.send(signal.SIGKILL)
        while self._alive:
            name, event = self._events.get(timeout=STOP_SECONDS)
            if event is None:
                self._alive.pop(name).exit_code()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def told(self) -> str:
        """What was done, in a line."""
        again = sum(self.claims.values()) - len(self.claims)
        strokes = ", ".join(f"{self.strokes[stroke.name]} x {stroke.name}" for stroke in STROKES)
        return f"{strokes}; trials claimed again: {again}; leases lost: {self.words['lost']}"

    def _step(self) -> None:
        now = time.monotonic()
        assert now < self._end, "\n".join(["out of time", self.told, *self._said])
        for name in [name for name, until in self._asleep.items() if until <= now]:
            self._wake(name)
        if self._strike_at <= now:
            self._strike()
        pause = min(self._end, self._strike_at, *self._asleep.values(), now + 1.0)
        try:
            name, event = self._events.get(timeout=max(pause - time.monotonic(), 0.0))
        except queue.Empty:
            return
        self._hear(name, event)

    def _hear(self, name: str, event: dict[str, Any] | None) -> None:
        if event is None:
            self._bury(name)
            return
        self._note(f"{name}: {event}")
        kind = event["event"]
        self.words[kind] += 1
        if name not in self._asleep:
            self._spared.discard(name)
        if kind == "begins":
            self._claimed(name, event["trial"])
        elif kind == "epoch" and self._coma_due and name not in self._asleep:
            self._coma_due = False
            self._suspend(name, COMA)
        elif kind in ("complete", "failed", "lost"):
            self.ends[event["trial"]] += kind == "complete"
            self._holds.pop(name, None)
        self._words_left -= 1
        if self._words_left == 0:
            # At once, or a little later.
            later = self._random.choice((0.0, self._random.uniform(0.0, 0.1)))
            self._strike_at = time.monotonic() + later

    def _claimed(self, name: str, number: int) -> None:
        self.claims[number] += 1
        for other in [other for other, held in self._holds.items() if held == number]:
            del self._holds[other]
            if other in self._asleep:
                self._asleep[other] = time.monotonic()
        self._holds[name] = number

    def _strike(self) -> None:
        self._strike_at = float("inf")
        self._words_left = self._random.randint(1, self._words_between)
        awake = sorted(self._alive.keys() - self._asleep.keys() - self._spared)
        if not awake or self.strokes.total() >= self._most_strokes:
            return
        (stroke,) = self._random.choices(STROKES, [stroke.weight for stroke in STROKES])
        if not self.words["lost"] and not self._spared:
            stroke = COMA
        name = self._random.choice(awake)
        if stroke is COMA:
            # In the midst of its training, where it may lose its trial; now and then anywhere.
            self._coma_due = len(self._spared) < self._most_in_coma and self._random.random() < 0.8
            if self._coma_due or len(self._spared) >= self._most_in_coma:
                return
        if stroke in ALLOWED:
            self._count(name, stroke)
            self._alive[name].send(signal.SIGKILL if stroke is KILL else signal.SIGTERM)
        else:
            self._suspend(name, stroke)

    def _suspend(self, name: str, stroke: Stroke) -> None:
        self._alive[name].send(signal.SIGSTOP)
        self._count(name, stroke)
        seconds = self._random.uniform(0.01, 0.5)
        if stroke is COMA:
            seconds = self._coma_seconds
            self._spared.add(name)
        self._asleep[name] = time.monotonic() + seconds

    def _count(self, name: str, stroke: Stroke) -> None:
        self._note(f"{stroke.name}: {name}")
        self.strokes[stroke.name] += 1
        self._struck[name].add(stroke)

    def _wake(self, name: str) -> None:
        del self._asleep[name]
        self._note(f"SIGCONT: {name}")
        self._alive[name].send(signal.SIGCONT)

    def _bury(self, name: str) -> None:
        code = self._alive.pop(name).exit_code()
        self._note(f"{name}: exit code {code}")
        self._asleep.pop(name, None)
        self._spared.discard(name)
        self._holds.pop(name, None)
        if code != 0:
            allowed = {c for stroke in self._struck[name] for c in ALLOWED.get(stroke, ())}
            assert code in allowed, "\n".join([f"{name} ended with {code}", *self._said])
            self._struck[name].clear()
            self._alive[name] = self._start(name)

    def _note(self, text: str) -> None:
        self._said.append(f"{time.monotonic():.3f} {text}")


NOTE_STALE_EPOCHS = {
    "sqlite": (
        "CREATE TABLE stale (number INTEGER, epoch INTEGER, token INTEGER)",
        "CREATE TRIGGER note_stale AFTER INSERT ON fastrcaps_epochs WHEN NEW.token < ("
        "SELECT token FROM fastrcaps_runs "
        "WHERE study_id = NEW.study_id AND number = NEW.number AND run = NEW.run) "
        "BEGIN INSERT INTO stale VALUES (NEW.number, NEW.epoch, NEW.token); END",
    ),
    "postgresql": (
        "CREATE TABLE stale (number INTEGER, epoch INTEGER, token INTEGER)",
        "CREATE FUNCTION note_stale() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO stale SELECT NEW.number, NEW.epoch, NEW.token FROM fastrcaps_runs r "
        "WHERE r.study_id = NEW.study_id AND r.number = NEW.number AND r.run = NEW.run "
        "AND NEW.token < r.token; "
        "RETURN NEW; END $$",
        "CREATE TRIGGER note_stale AFTER INSERT ON fastrcaps_epochs "
        "FOR EACH ROW EXECUTE FUNCTION note_stale()",
    ),
}
"""Has the database itself note what a worker stores that has lost its trial. Afterwards nothing
could tell: the new holder trains the same figures."""


def begin(location: Location, definition: StudyDefinition, *, seed: int, budget: int) -> None:
    """Store a study in a database that notes what those store who have lost their trial."""
    enter_study(location, definition, seed=seed, budget=budget)
    store = Store.writing(location)
    statements = NOTE_STALE_EPOCHS[store.engine.dialect.name]
    try:
        store.write(lambda connection: [connection.exec_driver_sql(text) for text in statements])
    finally:
        store.close()


def figures(trials: Sequence[TrialRecord]) -> list[Any]:
    """All that must be equal bit for bit: everything but seconds, and who met the test set."""
    return [
        (
            trial.number,
            trial.parameters,
            trial.values and (trial.values.accuracy, trial.values.parameters),
            [(run.run, run.seed, run.accuracy, run.best_epoch) for run in trial.runs],
            [(epoch.run, timeless(epoch.metrics)) for epoch in trial.epochs],
        )
        for trial in trials
    ]


def timeless(metrics: EpochMetrics) -> dict[str, float]:
    """Figures of an epoch without its seconds."""
    return {name: value for name, value in asdict(metrics).items() if name not in SECONDS}


def check_study(location: Location, name: str, *, budget: int, epochs: int) -> list[TrialRecord]:
    """What is true of every study of ``begin`` that has ended, whatever befell its workers.

    Returns:
        Its trials.
    """
    store = Store.reading(location)
    try:
        study = store.study(name)
        trials = store.trials(study, epochs=True)
        assert store.leases(study) == []
        stale = "SELECT * FROM stale ORDER BY number, epoch"
        assert store.read(lambda connection: connection.exec_driver_sql(stale).fetchall()) == []
    finally:
        store.close()
    assert [trial.number for trial in trials] == list(range(budget))
    assert {trial.state for trial in trials} == {TrialState.COMPLETE}
    assert len({trial.configuration_key for trial in trials}) == budget
    assert untested_front(study, trials) == []
    for trial in trials:
        assert [run.run for run in trial.runs] == [0]
        assert [epoch.metrics.epoch for epoch in trial.epochs] == list(range(1, epochs + 1))
        tokens = [epoch.token for epoch in trial.epochs]
        assert tokens == sorted(tokens)
        assert tokens[-1] <= trial.runs[0].token
        assert trial.runs[0].bit_equal
    check_file(location)
    check_optuna(location, name, trials)
    return trials


def check_file(location: Location) -> None:
    """An SQLite file is sound."""
    if location.path is None:
        return
    connection = sqlite3.connect(location.path)
    try:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def check_optuna(location: Location, name: str, trials: Sequence[TrialRecord]) -> None:
    """Optuna's own tables say the same as ours, once what is missing was added."""
    store = Store.writing(location)
    try:
        export = OptunaExport(store, name)
        assert export.wait_and_add(seconds=60)
        export.close()
    finally:
        store.close()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.RDBStorage(location.url)
    try:
        theirs = optuna.load_study(study_name=name, storage=storage).trials
    finally:
        storage.scoped_session.remove()
        storage.engine.dispose()
    told = {trial.user_attrs["fastrcaps:trial"]: trial for trial in theirs}
    assert len(theirs) == len(told) == len(trials)
    for ours in trials:
        twin = told[ours.number]
        assert (twin.number, twin.state.name) == (ours.number, "COMPLETE")
        assert ours.values is not None
        assert tuple(twin.values) == tuple(ours.values.values())
        assert twin.params == ours.parameters.to_dict()
        assert twin.duration is not None
        assert twin.duration.total_seconds() >= 0


def check_stub_figures(trials: Sequence[TrialRecord]) -> None:
    """Every figure is the stub's own, whoever trained it and however often."""
    for trial in trials:
        key = trial.configuration_key
        assert trial.values == stub_worker.stub_values(key)
        assert [epoch.metrics for epoch in trial.epochs] == [
            stub_worker.stub_epoch(key, epoch) for epoch in range(1, stub_worker.EPOCHS + 1)
        ]
        (run,) = trial.runs
        result = stub_worker.stub_result(key)
        assert (run.accuracy, run.training_seconds, run.best_epoch, run.parameters) == (
            result.accuracy,
            result.training_seconds,
            result.best_epoch,
            result.parameters,
        )
        # Those that were on the front at some time, and at least those that are.
        assert run.test_accuracy in (None, stub_worker.stub_test_accuracy(key))
