"""What 64 workers cost one PostgreSQL, and what 1,000 would.

    python -m tests.benchmarks.many_workers                  # all of it: five minutes
    python -m tests.benchmarks.many_workers --workers 1 64 --stored 1000 --seconds 5

Prints the tables of ``docs/many-workers.md`` as Markdown. The server is a real one on loopback,
its fsync on, in a folder of its own. The workers are real but for their training and its proposals
(``tests/crowd.py``): up to 64 are a process each, of more there are 16 in a process. Server and
workers share the cores of this machine, so that rates and waits are those of both together;
seconds of the server's processes are its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime

import sqlalchemy

from fastrcaps_search.search.configurations import configurations
from fastrcaps_search.search.study_worker import LONGEST_WAIT_SECONDS, WAIT_SECONDS
from fastrcaps_search.store.claiming import Claim
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import LEASE_SECONDS, RENEWALS, locate
from fastrcaps_search.store.store import Store
from tests.benchmarks import worker_costs
from tests.benchmarks.server_load import Load, Meter
from tests.benchmarks.worker_costs import (
    LONG_SECONDS,
    ROUNDS,
    Cost,
    costs_at,
    costs_of_runs,
    entered,
    queue_of,
)
from tests.crowd import Crowd, Tally, faults_of, gather, study_of
from tests.postgres import PostgresServer

MANY = 1000
"""Workers whose load is worked out from the costs."""
RUN_SECONDS, RUN_EPOCHS = 600.0, 20
"""What each of them trains."""


def trials_of(workers: int) -> int:
    """Budget of a crowd: enough to be at it for some seconds."""
    return 40 + 5 * min(workers, 64)


def processes_of(workers: int) -> int:
    """Processes of so many workers."""
    return workers if workers <= 64 else workers // 16


def claiming(server: PostgresServer, workers: int) -> tuple[Load, list[Tally], list[str]]:
    """As many claims as there can be: the training takes no time at all."""
    budget = trials_of(workers)
    url, _ = entered(server, trials=0, more=budget)
    meter = Meter(server, url)
    crowd = Crowd(url=url, workers=workers, processes=processes_of(workers))
    tallies = gather(crowd, before=meter.begin)
    load = meter.end()
    return load, tallies, faults_of(url, tallies, budget=budget)


def steady(
    server: PostgresServer, workers: int, *, seconds: float, idle_at: int | None = None
) -> Load:
    """What workers cost that all train, or all wait for one that does.

    Args:
        server: The server.
        workers: How many.
        seconds: For which they are watched.
        idle_at: Complete trials of the study in which all wait; ``None`` where all train.
    """
    more = workers if idle_at is None else 1
    url, study = entered(server, trials=idle_at or 0, more=more)
    meter, loads = Meter(server, url), list[Load]()

    def watch() -> None:
        # What the claims or the first questions cost is over.
        while server.run_sql(url, "SELECT count(*) FROM fastrcaps_leases") != [(more,)]:
            time.sleep(0.1)
        time.sleep(1.0)
        meter.begin()
        time.sleep(seconds)
        loads.append(meter.end())

    with closing(Store.writing(locate(url))) as store:
        held = queue_of(store, study).claim_next() if idle_at is not None else None
        crowd = Crowd(
            url=url,
            workers=workers,
            processes=processes_of(workers),
            epoch_seconds=LONG_SECONDS,
            until_stopped=True,
        )
        if isinstance(held, Claim):
            with RunLease(store, held).renewed():
                gather(crowd, meanwhile=watch)
        else:
            gather(crowd, meanwhile=watch)
    return loads[0]


def rates_of(
    runs: Mapping[str, Cost], asked: Mapping[str, Cost]
) -> dict[str, tuple[float, float, bool]]:
    """What :data:`MANY` workers ask of a server.

    Args:
        runs: Costs of a worker that trains.
        asked: Costs of one that asks what to do.

    Returns:
        How often in a second, milliseconds of the server each time, and whether it connects for
        that, as for all that is more than a second apart.
    """
    connecting = runs[worker_costs.CONNECTING].server - runs[worker_costs.RENEWAL].server
    ends, minutes = MANY / RUN_SECONDS, RUN_SECONDS / 60
    reads = asked[worker_costs.CLAIM].server + 2 * asked[worker_costs.SNAPSHOT].server
    end = runs[worker_costs.END].server + connecting
    vain = asked[worker_costs.VAIN_CONNECTING].server
    renewals, questions = MANY * RENEWALS / LEASE_SECONDS, MANY / LONGEST_WAIT_SECONDS
    return {
        "renew leases every 5 s": (renewals, runs[worker_costs.CONNECTING].server, True),
        f"store {RUN_EPOCHS} epochs in {minutes:g} minutes": (
            RUN_EPOCHS * ends,
            runs[worker_costs.EPOCH].server + connecting,
            True,
        ),
        f"end a run after {minutes:g} minutes, claim one": (ends, reads + end, True),
        "all wait and ask every 5 s": (questions, vain, True),
        "all wait and read all twice a second": (
            MANY / WAIT_SECONDS,
            asked[worker_costs.SNAPSHOT].server,
            False,
        ),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
    print(flush=True)


def _of_claiming(server: PostgresServer, workers: int) -> Sequence[object]:
    load, tallies, faults = claiming(server, workers)
    assert not faults, faults
    waits = sorted(1000 * one for tally in tallies for one in tally.claim_seconds)
    seconds = max(tally.ended for tally in tallies) - min(tally.began for tally in tallies)
    budget = trials_of(workers)
    worst = (
        f"{statistics.median(waits):.0f} / {waits[int(0.95 * len(waits))]:.0f} / {waits[-1]:.0f}"
    )
    return (
        workers,
        f"{budget}, each once",
        f"{budget / seconds:.1f}",
        worst,
        sum(tally.lost for tally in tallies),
        load.rolled_back,
        f"{load.transactions / budget:.0f}",
        f"{1000 * load.cpu_seconds / budget:.0f}",
        f"{1000 * sum(tally.cpu_seconds for tally in tallies) / budget:.0f}",
        load.connections,
        f"{load.waiting:.1f}",
        f"{load.cpu_seconds / load.seconds:.2f}",
    )


def _of_steady(what: str, workers: int, load: Load) -> Sequence[object]:
    return (
        what,
        workers,
        f"{load.transactions / load.seconds:.0f}",
        f"{load.connects / load.seconds:.1f}",
        f"{load.rows_read / load.seconds:.0f}",
        load.connections,
        f"{load.cpu_seconds / load.seconds:.3f}",
    )


def _of_cost(name: str, cost: Cost, *stored: object) -> Sequence[object]:
    low, high = cost.spread
    return (
        name,
        *stored,
        f"{cost.server:.2f} ({low:.2f} to {high:.2f})",
        f"{cost.worker:.2f}",
        f"{cost.wall:.1f}",
        f"{cost.kilobytes:.1f}",
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 4, 16, 64])
    parser.add_argument("--steady", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--stored", type=int, nargs="*", default=[100, 1000, 5000])
    parser.add_argument("--seconds", type=float, default=10.0, help="each crowd is watched")
    arguments = parser.parse_args()
    # Listed once for all.
    configurations(study_of(worker_costs.SIZES))
    with PostgresServer({"fsync": "on", "max_connections": "1100"}) as server:
        ((version,),) = server.run_sql(server.url, "SHOW server_version")
        print(
            f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, load "
            f"{os.getloadavg()[0]:.1f}, PostgreSQL {version.split()[0]}, Python "
            f"{platform.python_version()}, sqlalchemy {sqlalchemy.__version__}; medians of "
            f"{ROUNDS} rounds (least to most)"
        )
        table(
            (
                *("workers", "trials", "trials/s", "claim ms: median / 95 % / worst"),
                *("claims lost to others", "rolled back", "transactions a trial"),
                *("server ms a trial", "worker ms a trial", "connections", "waiting for a lock"),
                "server cores",
            ),
            (_of_claiming(server, workers) for workers in arguments.workers),
        )
        runs = costs_of_runs(server)
        table(
            ("", "server ms", "worker ms", "in all ms", "KB"),
            (_of_cost(name, cost) for name, cost in runs.items()),
        )
        asked = {trials: costs_at(server, trials) for trials in arguments.stored}
        table(
            ("", "trials stored", "server ms", "worker ms", "in all ms", "KB"),
            (
                _of_cost(name, cost, trials)
                for trials, costs in asked.items()
                for name, cost in costs.items()
            ),
        )
        if asked:
            saved = runs[worker_costs.CONNECTING].server - runs[worker_costs.POOLED].server
            table(
                (f"{MANY} workers", "a second", "server cores", "and through pgbouncer"),
                (
                    (
                        what,
                        f"{rate:.1f}",
                        f"{rate * ms / 1000:.2f}",
                        f"{rate * (ms - (saved if connects else 0.0)) / 1000:.2f}",
                    )
                    for what, (rate, ms, connects) in rates_of(runs, asked[max(asked)]).items()
                ),
            )
        kinds = {"train": None, "wait": 1000}
        table(
            (
                "all",
                "workers",
                "transactions/s",
                "connects/s",
                "rows read/s",
                "connections",
                "server cores",
            ),
            (
                _of_steady(
                    kind,
                    workers,
                    steady(server, workers, seconds=arguments.seconds, idle_at=idle_at),
                )
                for kind, idle_at in kinds.items()
                for workers in arguments.steady
            ),
        )


if __name__ == "__main__":
    main()
