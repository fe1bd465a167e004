"""The workers of one run: start, hear, restart, stop."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastrcaps_search.errors import FastrcapsError, InterruptedRunError, RunError
from fastrcaps_search.processes import ending
from fastrcaps_search.search.events import Events, WorkerEvent
from fastrcaps_search.search.launch import Launcher, WorkerHandle, WorkerSpec

RESTARTS = 3
"""Restarts of a worker in a row, without an epoch or a trial ended, before the run gives up."""
STOP_SECONDS = 30.0
POLL_SECONDS = 0.25
ADVANCES = (WorkerEvent.EPOCH, WorkerEvent.COMPLETE, WorkerEvent.FAILED)
"""Events after which a worker has got on."""
DOING = {
    WorkerEvent.BEGINS: "trains",
    WorkerEvent.WAITING: "waits",
    WorkerEvent.NO_CORES: "waits for cores",
    WorkerEvent.TESTING: "tests",
}


@dataclass(slots=True)
class WorkerView:
    """What is known of a worker, for the live lines.

    Attributes:
        name: Name.
        doing: ``starts``, ``trains``, ``waits``, ``waits for cores``, ``tests`` or ``ended``.
        trial: Trial at hand.
        run: Its run at hand; ``None`` where the trial has only one.
        policy: Its policy.
        epochs: Epochs of the trial's training.
        epoch: Last epoch that it ended or is in.
        accuracy: After its last epoch.
        images_per_second: Of the current epoch.
        store_is_out: Whether it waits for the database meanwhile.
    """

    name: str
    doing: str = "starts"
    trial: int | None = None
    run: int | None = None
    policy: str | None = None
    epochs: int | None = None
    epoch: int | None = None
    accuracy: float | None = None
    images_per_second: float | None = None
    store_is_out: bool = False


Heard = tuple[str, dict[str, Any]]
"""A worker's name and its event."""
Views = Mapping[str, WorkerView]
"""All workers by name."""
Observer = Callable[[Views, Heard | None], None]
"""Called with all workers, and with what was heard just now, if anything was."""


class Supervisor:
    """Runs the workers of one ``run`` until they find nothing more to do.

    Args:
        specs: Workers to start.
        launcher: Starts them.
        stop: Set when the run is to stop.
        observe: Called after every event and a few times a second.
        max_failures: Trials that fail in a row before the run gives up. One that diverged does
            not count: that is the fault of its configuration alone.

    Attributes:
        parting: Why a worker has ended although work is left, in words.
    """

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        *,
        launcher: Launcher,
        stop: threading.Event,
        observe: Observer,
        max_failures: int,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._launcher = launcher
        self._stop = stop
        self._observe = observe
        self._max_failures = max_failures
        self._events: Events = queue.Queue()
        self._workers: dict[str, WorkerHandle] = {}
        self._views: dict[str, WorkerView] = {}
        self._restarts: Counter[str] = Counter()
        self._failures: list[str] = []
        self._error: FastrcapsError | None = None
        self._is_over = False
        self._is_interrupted = False
        self.parting = ""

    def run(self) -> None:
        """Start the workers and wait for them.

        Raises:
            InterruptedRunError: Asked to stop; all workers have saved their state.
            RunError: Workers died, could not work, or trials failed in a row.
        """
        try:
            for name in self._specs:
                self._start(name)
            while self._workers and self._error is None and not self._stop.is_set():
                self._hear()
        finally:
            self._end_workers()
        if self._error is not None:
            raise self._error
        if self._stop.is_set() or (self._is_interrupted and not self._is_over):
            raise InterruptedRunError(
                "interrupted; the state is saved, the same line continues the study"
            )

    def _start(self, name: str) -> None:
        self._views[name] = WorkerView(name)
        self._workers[name] = self._launcher.start(self._specs[name], self._events)

    def _hear(self) -> None:
        try:
            name, event = self._events.get(timeout=POLL_SECONDS)
        except queue.Empty:
            self._observe(self._views, None)
            for worker in self._workers.values():
                # When the study is over, a worker that was suspended would be waited for.
                if self._is_over and worker.is_suspended:
                    worker.kill()
            return
        if event is None:
            event = self._ended(name)
        else:
            self._note(name, event)
        self._observe(self._views, None if event is None else (name, event))

    def _note(self, name: str, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind in ADVANCES:
            self._restarts[name] = 0
        if kind in DOING:
            self._views[name] = WorkerView(name, DOING[kind])
        view = self._views[name]
        for fact in event.keys() & WorkerView.__dataclass_fields__.keys():
            setattr(view, fact, event[fact])
        if kind in (WorkerEvent.STORE_OUT, WorkerEvent.STORE_BACK):
            view.store_is_out = kind == WorkerEvent.STORE_OUT
        self._judge(kind, event)

    def _judge(self, kind: str, event: dict[str, Any]) -> None:
        """Whether the run goes on."""
        if kind == WorkerEvent.DONE:
            self._is_over = True
        elif kind == WorkerEvent.IDLE:
            self.parting = f"nothing to claim for {event['seconds']:g} s"
        elif kind == WorkerEvent.COMPLETE:
            self._failures.clear()
        elif kind == WorkerEvent.FAILED:
            self._note_failure(event)
        elif kind == WorkerEvent.ERROR and event["exit_code"] != InterruptedRunError.exit_code:
            # A worker that says why it cannot work: the others could not either.
            error = RunError(event["message"])
            error.exit_code = event["exit_code"]
            self._error = self._error or error

    def _note_failure(self, event: dict[str, Any]) -> None:
        if event.get("diverged"):
            return
        run = f" run {event['run']}" if "run" in event else ""
        self._failures.append(f"trial {event['trial']}{run}: {event['reason']}")
        count = len(self._failures)
        if count >= self._max_failures:
            what = (
                "run" if any(" run " in one.split(":")[0] for one in self._failures) else "trial"
            )
            failed = f"{count} {what}s failed in a row" if count > 1 else f"a {what} failed"
            self._error = RunError(
                f"{failed}, so the run stops: {'; '.join(self._failures)}; --max-failures allows "
                "more"
            )

    def _ended(self, name: str) -> dict[str, Any] | None:
        """Start a worker again that has died; the event to show then."""
        worker = self._workers.pop(name)
        code = worker.wait(STOP_SECONDS)
        # One that says no more, but does not end, would train beside its successor.
        worker.kill()
        self._views[name] = WorkerView(name, "ended")
        self._is_interrupted |= code == InterruptedRunError.exit_code
        is_clean = code in (0, InterruptedRunError.exit_code)
        if is_clean or self._error or self._stop.is_set() or self._is_over:
            return None
        self._restarts[name] += 1
        reason = ending(code)
        if self._restarts[name] > RESTARTS:
            log = self._specs[name].log
            has_words = log.exists() and log.stat().st_size
            self._error = RunError(
                f"{name} died {self._restarts[name]} times without finishing an epoch ({reason}), "
                f"so the run stops{f'; {log} may say why' if has_words else ''}"
            )
            return None
        self._start(name)
        return {"event": WorkerEvent.DIED, "reason": reason}

    def _end_workers(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        end = time.monotonic() + STOP_SECONDS
        for worker in self._workers.values():
            worker.wait(max(end - time.monotonic(), 0.0))
            worker.kill()
            worker.wait(STOP_SECONDS)
        self._workers.clear()
