"""What the store costs a trial and an epoch, beside Optuna's own storage.

    python -m tests.benchmarks.store_overhead [--workers 1 8] [--trials 20]

Each worker is a process that claims trials, stores five epochs of each and completes it, without
any training between: as many writes at once as there can be. Optuna's workers ask, set one
attribute for each epoch, and tell. Both on an SQLite file and on a PostgreSQL server on loopback
that this program starts (with its fsync on). The proposal is left out on both sides: it is a
random number.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.metrics import EpochMetrics, RunResult, RunSetting
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import Purpose, StudyRecord
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

EPOCHS = 5
SETTING = RunSetting("cpu", "CPU", "2", "fp32", 1, "eager")
STUDY = StudyDefinition.from_dict(
    {
        "name": "overhead",
        "network": "lenet5",
        "data_set": "mnist-mini",
        "space": {"batch_policy": ["constant"]},
    }
)
PARAMETERS = next(iter(STUDY.assignments()))


def metrics(epoch: int) -> EpochMetrics:
    """Figures of an epoch that nobody trained."""
    return EpochMetrics(epoch, 16, 1e-3, 1e-3, 0.5, 0.4, 0.1, 0.8, 0.9, 2.0, 0.1, 4, 64)


class Times:
    """Milliseconds by name of what was done."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure what is done within."""
        began = time.perf_counter()
        yield
        self.found.setdefault(name, []).append(1000 * (time.perf_counter() - began))


def work(url: str, *, name: str, times: Times) -> None:
    """Claim and complete trials until none is left."""
    store = Store.writing(locate(url), patience=RetryPolicy(60))

    def propose(study: StudyRecord, trials: list[TrialRecord], worker: str) -> tuple[object, str]:
        return PARAMETERS, f"configuration {len(trials)} of {worker}"

    claimant = Claimant(store=store, study=store.study("overhead"), worker=name, device="cpu")
    queue = TrialQueue(claimant, propose)  # type: ignore[arg-type]  # for a benchmark
    # Its configurations are not those of the space, which are fewer.
    queue._possible = None
    while True:
        with times.of("claim"):
            claim = queue.claim_next()
        if claim is Idle.WAIT:
            times.found["claim"].pop()
            continue
        if not isinstance(claim, Claim) or claim.purpose is not Purpose.TRAIN:
            break
        lease = RunLease(store, claim)
        with lease.renewed():
            with times.of("begin"):
                lease.begin(SETTING, fresh=True)
            for epoch in range(1, EPOCHS + 1):
                with times.of("epoch"):
                    lease.store_epoch(metrics(epoch), setting=SETTING)
            with times.of("complete"):
                lease.finish(RunResult(0.9, 2.0, 10, 1))
    store.close()


def work_with_optuna(url: str, *, trials: int, times: Times) -> None:
    """The same number of writes through Optuna's storage, as it is by default."""
    import optuna

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(
        study_name="overhead", storage=url, sampler=optuna.samplers.RandomSampler()
    )
    for _ in range(trials):
        with times.of("claim"):
            trial = study.ask()
            trial.suggest_float("x", 0, 1)
        for epoch in range(1, EPOCHS + 1):
            with times.of("epoch"):
                trial.set_user_attr(f"epoch {epoch}", metrics(epoch).accuracy)
        with times.of("complete"):
            study.tell(trial, [0.9, 2.0, 10.0])


def child(arguments: argparse.Namespace) -> None:
    """One worker: wait for the word, work, print the times."""
    times = Times()
    print("ready", flush=True)
    sys.stdin.readline()
    if arguments.child == "optuna":
        work_with_optuna(arguments.url, trials=arguments.trials, times=times)
    else:
        work(arguments.url, name=arguments.name, times=times)
    print(json.dumps(times.found), flush=True)


def begin(url: str, *, kind: str, trials: int) -> None:
    """Make the study."""
    if kind == "ours":
        enter_study(locate(url), STUDY, seed=None, budget=trials)
        return
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(
        study_name="overhead", storage=url, directions=["maximize", "minimize", "minimize"]
    )


def measure(url: str, *, kind: str, workers: int, trials: int) -> str:
    """A line of the table."""
    begin(url, kind=kind, trials=workers * trials)
    module = "tests.benchmarks.store_overhead"
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", module, "--child", kind, "--url", url),
                *("--trials", str(trials), "--name", f"worker-{index}"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(workers)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    began = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outs = [process.communicate()[0] for process in processes]
    wall = time.perf_counter() - began
    times: dict[str, list[float]] = {}
    for out in outs:
        for name, found in json.loads(out).items():
            times.setdefault(name, []).extend(found)
    per_trial = sum(map(sum, times.values())) / (workers * trials)
    parts = "  ".join(f"{name} {_spread(found)}" for name, found in times.items())
    return f"{per_trial:8.1f} ms a trial  {wall:5.1f} s in all   {parts}"


def _spread(found: list[float]) -> str:
    p95 = statistics.quantiles(found, n=20)[-1] if len(found) > 1 else found[0]
    return f"{statistics.median(found):.1f} ({p95:.0f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--trials", type=int, default=20, help="trials of each worker")
    parser.add_argument("--child", choices=("ours", "optuna"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    import optuna
    import sqlalchemy

    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"optuna {optuna.__version__}, sqlalchemy {sqlalchemy.__version__}; {arguments.trials} "
        f"trials of {EPOCHS} epochs a worker; milliseconds: median (95th percentile)"
    )
    with tempfile.TemporaryDirectory() as folder, _server() as new_database:
        stores: dict[str, Callable[[str], str]] = {
            "sqlite": lambda name: f"sqlite:///{Path(folder) / name}.db",
            "postgresql": lambda name: new_database(),
        }
        for store, place in stores.items():
            for workers in arguments.workers:
                for kind in ("ours", "optuna"):
                    url = place(f"{kind}-{workers}")
                    if kind == "optuna":
                        url = url.replace("postgresql://", "postgresql+psycopg://")
                    line = measure(url, kind=kind, workers=workers, trials=arguments.trials)
                    print(f"{store:10} {workers} workers {kind:6} {line}", flush=True)


@contextmanager
def _server() -> Iterator[Callable[[], str]]:
    from tests.postgres import PostgresServer

    with PostgresServer({"fsync": "on"}) as server:
        yield server.new_database


if __name__ == "__main__":
    main()
