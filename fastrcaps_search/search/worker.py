"""A worker process: its environment, its signals, its words and its exit code.

Started by the supervisor with the storage in the environment, never on the command line. It
speaks to the supervisor in JSON lines on its standard output, and stops cleanly on SIGTERM, SIGINT
and the like, or when its standard input is closed, which happens when the supervisor dies.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import traceback
from contextlib import closing, suppress

from fastrcaps_search.errors import DeviceError, FastrcapsError, InterruptedRunError, importing
from fastrcaps_search.processes import handle_stops, start_thread
from fastrcaps_search.search.events import Tell, WorkerEvent
from fastrcaps_search.search.files import LOG
from fastrcaps_search.search.launch import WorkerSpec, own_spec
from fastrcaps_search.store.db_errors import note_used
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store

DEVICE_EXIT_CODE = 75


def main() -> int:
    """Run a worker; its exit code is the error's."""
    stop = threading.Event()
    handle_stops(lambda *_: stop.set())
    tell = _teller()
    LOG.setLevel("INFO")
    LOG.propagate = False
    spec = own_spec(sys.argv[1], os.environ)
    try:
        _work(spec, tell=tell, stop=stop)
    except Exception as error:
        trace = traceback.format_exc()
        if isinstance(error, InterruptedRunError):
            trace = f"{error}\n"
        # To the worker's log, unless the disk that holds it is full.
        with suppress(OSError):
            sys.stderr.write(spec.location.redacted(trace))
        if isinstance(error, DeviceError):
            # Not told as an error: the supervisor starts a fresh process, a few times.
            return DEVICE_EXIT_CODE
        if not isinstance(error, FastrcapsError):
            return FastrcapsError.exit_code
        tell(WorkerEvent.ERROR, message=str(error), exit_code=error.exit_code)
        return error.exit_code
    return 0


def _work(spec: WorkerSpec, *, tell: Tell, stop: threading.Event) -> None:
    start_thread(_stop_with_supervisor, stop)
    # Torch and Optuna take seconds to import; the signals are in place before.
    with importing():
        from fastrcaps_search.search.study_worker import Worker

    def tell_outage(reason: str | None) -> None:
        tell(WorkerEvent.STORE_OUT if reason else WorkerEvent.STORE_BACK, reason=reason)

    patience = RetryPolicy(spec.store_patience, stop, tell_outage)
    # By the process that started this one.
    note_used(spec.location)
    with (
        closing(Store.writing(spec.location, patience=patience)) as store,
        closing(Worker(store, spec, tell=tell, stop=stop)) as worker,
    ):
        worker.work()


def _teller() -> Tell:
    """Tells on the standard output; what libraries print there goes to the worker's log."""
    events = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)

    def tell(event: WorkerEvent, **facts: object) -> None:
        try:
            # A supervisor that is suspended reads nothing: the training goes on unheard.
            if not select.select([], [events], [], 0)[1]:
                return
            events.write(json.dumps({"event": event, **facts}) + "\n")
        except (BrokenPipeError, ValueError):
            # The supervisor is gone; the closed standard input says so too.
            return

    return tell


def _stop_with_supervisor(stop: threading.Event) -> None:
    """Wait for the end of the standard input, which the supervisor holds open."""
    while os.read(0, 1):
        continue
    stop.set()
