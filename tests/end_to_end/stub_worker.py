"""Workers whose training is a stub, forked by the dozen from one process that imported once.

All else is the product's own: the signals, the words and the exit codes of a worker process, the
claims, the renewals, the fencing, the settling, the patience. A fork takes a few hundredths of a
second where a start takes seconds, nearly all of them for the import of torch.

Run as a program with the descriptor of a socket. Each message on it starts a worker, and brings
the pipe for its words, or sends a signal to one. The program ends, and all workers with it, when
the socket is closed.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import selectors
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import DiskError, InterruptedRunError, StoreError
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search import study_worker, worker
from fastrcaps_search.search.configurations import configurations
from fastrcaps_search.search.launch import WorkerSpec, worker_command
from fastrcaps_search.store import ending
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import FILES_VARIABLE, STORAGE_VARIABLE, locate
from fastrcaps_search.store.records import Values

EPOCHS = 5
STUBBED = StudyDefinition.from_dict(
    {
        "name": "stubbed",
        "network": "lenet5",
        "data_set": "mnist-mini",
        "epochs": EPOCHS,
        "boundaries": [1, 2],
        "train_images": 64,
        "space": {
            "adabatch_exponent": [1, 2, 3, 4, 5],
            "batch_size": [4, 8, 12, 16, 20, 24, 32, 48, 64],
        },
    }
)
PAUSE_VARIABLE = "STUB_PAUSE_SECONDS"
SETTING = RunSetting("cpu", "a stub", "0", "fp32", 1, "stub")
LONGEST_MESSAGE = 1 << 16
IMPORTED_LATE = (
    "fastrcaps_search.search.suggest",
    "alembic.command",
    "numpy.random",
    "psycopg",
    "sqlalchemy.dialects.sqlite",
)
"""What each worker would import for itself."""


def stub_epoch(key: str, epoch: int) -> EpochMetrics:
    """Figures of an epoch: always the same for a configuration."""
    drawn = random.Random(f"{key} {epoch}")
    loss = drawn.random()
    return EpochMetrics(
        epoch=epoch,
        batch_size=16 * epoch,
        lr_start=1e-3 / epoch,
        lr_end=1e-3 / (epoch + 1),
        loss=loss,
        classification_loss=0.75 * loss,
        reconstruction_loss=0.25 * loss,
        training_accuracy=drawn.random(),
        accuracy=drawn.random(),
        training_seconds=1.0 + drawn.random(),
        evaluation_seconds=drawn.random(),
        steps=4,
        samples=64,
    )


def stub_result(key: str) -> RunResult:
    """What the training of a configuration comes to."""
    epochs = [stub_epoch(key, epoch) for epoch in range(1, EPOCHS + 1)]
    return RunResult.from_epochs(epochs, parameters=1000 + int(key[:4], 16))


def stub_values(key: str) -> Values:
    """The same as the values of a trial."""
    result = stub_result(key)
    return Values(
        accuracy=result.accuracy,
        training_seconds=result.training_seconds,
        parameters=float(result.parameters),
    )


def stub_test_accuracy(key: str) -> float:
    """What the test set says of a configuration."""
    return random.Random(f"{key} test").random()


class StubWorker(study_worker.Worker):
    """The product's worker without images, cores and networks."""

    def __init__(self, *of_store_and_study: Any, **facts: Any) -> None:  # noqa: ANN401
        super().__init__(*of_store_and_study, **facts)
        self._cores = 0
        self._pause_seconds = float(os.environ[PAUSE_VARIABLE])

    def _train(self, lease: RunLease) -> None:
        claim = lease.claim
        number = claim.key.number
        self._tell("begins", trial=number, token=claim.token)
        (record,) = self._store.trials(self._study, epochs=True, number=number)
        epochs = [stored.metrics for stored in record.epochs]
        lease.begin(SETTING, fresh=not epochs)
        for epoch in range(len(epochs) + 1, EPOCHS + 1):
            lease.require_held()
            if self._stop.wait(self._pause_seconds):
                raise InterruptedRunError("stopped on request")
            epochs.append(stub_epoch(record.configuration_key, epoch))
            lease.store_epoch(epochs[-1], setting=SETTING)
            self._tell("epoch", trial=number, epoch=epoch)
        # From the epochs as they were stored, by whichever worker.
        parameters = stub_result(record.configuration_key).parameters
        lease.finish(RunResult.from_epochs(epochs, parameters=parameters))
        self._tell("complete", trial=number)
        with suppress(StoreError, DiskError):
            self._export.add()

    def _test(self, lease: RunLease) -> None:
        number = lease.claim.key.number
        self._tell("testing", trial=number)
        (record,) = self._store.trials(self._study, number=number)
        lease.store_test_accuracy(stub_test_accuracy(record.configuration_key))
        lease.release()


class Nursery:
    """Forks workers, sends them signals, and says in each one's pipe how it ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ)
        # By pid: the descriptor that ends the selector's wait when it ends, and its pipe.
        self._workers: dict[int, tuple[int, int]] = {}
        # The standard input of all workers; it ends when this process does.
        self._input, self._held_open = os.pipe()

    def work(self) -> None:
        """Do as told until the socket is closed."""
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is not self._orders:
                        self._bury(key.data)
                    elif not self._obey():
                        return
        finally:
            for pid in self._workers:
                os.kill(pid, signal.SIGKILL)

    def _obey(self) -> bool:
        message, pipes, _, _ = socket.recv_fds(self._orders, LONGEST_MESSAGE, 1)
        if not message:
            return False
        order = json.loads(message)
        if pipes:
            self._start(order, pipes[0])
        elif order["pid"] in self._workers:
            # Not buried yet, so the pid is still its own.
            os.kill(order["pid"], order["signal"])
        return True

    def _start(self, order: dict[str, Any], pipe: int) -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(self._be_worker(order, pipe))
        watched = os.pidfd_open(pid)
        self._workers[pid] = (watched, pipe)
        self._selector.register(watched, selectors.EVENT_READ, pid)

    def _bury(self, pid: int) -> None:
        watched, pipe = self._workers.pop(pid)
        self._selector.unregister(watched)
        os.close(watched)
        _, status = os.waitpid(pid, 0)
        said = {"event": "ended", "exit_code": os.waitstatus_to_exitcode(status)}
        os.write(pipe, (json.dumps(said) + "\n").encode())
        os.close(pipe)

    def _be_worker(self, order: dict[str, Any], pipe: int) -> int:
        """The life of a worker; its exit code."""
        try:
            self._selector.close()
            self._orders.close()
            # Else the words of the others would not end with them, nor the standard input.
            for kept in (self._held_open, *(n for pair in self._workers.values() for n in pair)):
                os.close(kept)
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for number, wanted in enumerate((self._input, pipe, log)):
                os.dup2(wanted, number)
                os.close(wanted)
            os.write(1, (json.dumps({"event": "started", "pid": os.getpid()}) + "\n").encode())
            os.environ.update(order["environment"])
            time.tzset()
            sys.argv = ["worker", *order["arguments"]]
            return worker.main()
        except BaseException:
            traceback.print_exc()
            return 70
        finally:
            sys.stderr.flush()


def start_order(
    *,
    name: str,
    study: str,
    storage: str,
    files: Path,
    lease_seconds: float,
    store_patience: float,
    pause_seconds: float,
    time_zone: str,
) -> dict[str, Any]:
    """The message that starts a worker."""
    return {
        "environment": {
            STORAGE_VARIABLE: storage,
            FILES_VARIABLE: str(files),
            PAUSE_VARIABLE: str(pause_seconds),
            "TZ": time_zone,
        },
        "arguments": worker_command(
            WorkerSpec(
                study=study,
                name=name,
                device="cpu",
                threads=1,
                location=locate(storage, files=str(files)),
                log=files / f"{name}.log",
                lease_seconds=lease_seconds,
                store_patience=store_patience,
            )
        )[-1:],
        "log": str(files / f"{name}.log"),
    }


def main() -> None:
    """Be the process that forks the workers."""
    # A worker that is killed is no sign of a trial that kills. On a slow machine the same epoch
    # may meet so many signals in a row that the trial would count as one.
    ending.MOST_DEATHS = 1000
    vars(study_worker)["Worker"] = StubWorker
    for name in IMPORTED_LATE:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    # Listed once for all.
    configurations(STUBBED)
    Nursery(socket.socket(fileno=int(sys.argv[1]))).work()


if __name__ == "__main__":
    main()
