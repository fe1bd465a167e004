"""What the parts of a worker's life cost a PostgreSQL server, and the worker."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from fastrcaps_search.analysis.estimates import estimated
from fastrcaps_search.analysis.remaining_work import remaining_work
from fastrcaps_search.search.configurations import configurations
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.search.suggest import propose as propose_by_sampler
from fastrcaps_search.store import schema
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import locate
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from tests.benchmarks.server_load import Meter, Received, cpu_seconds
from tests.crowd import STUDY, propose, study_of
from tests.end_to_end.stub_worker import EPOCHS, SETTING, stub_epoch, stub_result
from tests.pgbouncer import PgBouncer
from tests.postgres import PostgresServer

SIZES = 1500
"""Batch sizes of the space: some 6,000 configurations."""
ROUNDS = 3
HITS = bytes(625)
"""A bit for each of the 5,000 images by which a study of MNIST evaluates."""
LONG_SECONDS = 3600.0
"""A lease that nobody need renew while it is watched."""

RENEWAL, CONNECTING = "renewal", "renewal, connecting"
POOLED, POOLER = "renewal, connecting to pgbouncer", "the same: pgbouncer itself"
EPOCH, END = "epoch", "end of a run"
SNAPSHOT, CLAIM = "reading the study", "claim of a new trial"
ANALYSIS, PROPOSAL = "working out what is left", "proposal by TPE"
VAIN, VAIN_CONNECTING = "question in vain", "question in vain, connecting"


def entered(server: PostgresServer, *, trials: int, more: int) -> tuple[str, StudyRecord]:
    """A database with so many complete trials, and a budget of some more."""
    url = server.new_database()
    study = enter_study(locate(url), study_of(SIZES), seed=None, budget=trials + more)
    if trials:
        with Store.writing(locate(url)) as store:
            claim = queue_of(store, study).claim_next()
            assert isinstance(claim, Claim)
            lease = RunLease(store, claim)
            lease.begin(SETTING, fresh=True)
            for epoch in range(1, EPOCHS + 1):
                lease.store_epoch(stub_epoch("", epoch), setting=SETTING)
            lease.finish(replace(stub_result("0000"), hits=HITS))
            store.write(lambda connection: fill(connection, study, trials))
        server.run_sql(url, "ANALYZE")
    return url, study


def fill(connection: Connection, study: StudyRecord, trials: int) -> None:
    """Copy the one complete trial, each time with another configuration and other values."""
    first = connection.scalar(select(schema.trials.c.configuration_key))
    known = configurations(study.definition).items()
    others = list(islice((one for one in known if one[0] != first), trials - 1))
    drawn = random.Random(0)

    def copies(table: Table, **changed: Callable[[int], Any]) -> None:
        found = [dict(row._mapping) for row in connection.execute(select(table))]
        rows = [
            {**row, "number": number, **{name: of(number) for name, of in changed.items()}}
            for number in range(1, trials)
            for row in found
        ]
        if rows:
            connection.execute(insert(table), rows)

    copies(
        schema.trials,
        configuration_key=lambda number: others[number - 1][0],
        assignment=lambda number: json.dumps(others[number - 1][1].to_dict()),
    )
    copies(
        schema.runs,
        accuracy=lambda number: drawn.uniform(0.9, 0.99),
        training_seconds=lambda number: drawn.uniform(1, 100),
    )
    copies(schema.epochs)
    copies(schema.claims)


def queue_of(store: Store, study: StudyRecord) -> TrialQueue:
    """The queue of a worker of the study, who need not renew its leases."""
    claimant = Claimant(
        store=store, study=study, worker="w", device="cpu", lease_seconds=LONG_SECONDS
    )
    return TrialQueue(claimant, propose)


@dataclass(frozen=True, slots=True)
class Cost:
    """What something takes, medians of :data:`ROUNDS` rounds.

    Attributes:
        server: Milliseconds of computing of the server.
        worker: The same of the worker.
        wall: Milliseconds in all.
        kilobytes: That the worker receives.
        spread: Least and most of the server's milliseconds.
    """

    server: float
    worker: float
    wall: float
    kilobytes: float
    spread: tuple[float, float]


class Costs:
    """Measures what the parts of a worker's life cost the server and the worker.

    Args:
        server: The server.
        store: The worker's store.
        url: Its database.
    """

    def __init__(self, server: PostgresServer, store: Store, url: str) -> None:
        self._meter = Meter(server, url)
        self._received = Received(store.engine)

    def of(self, work: Callable[[], object], *, times: int) -> Cost:
        """What one time costs."""
        work()
        rounds = [self._round(work, times) for _ in range(ROUNDS)]
        server, worker, wall, kilobytes = (
            statistics.median(column) for column in zip(*rounds, strict=True)
        )
        servers = [one[0] for one in rounds]
        return Cost(server, worker, wall, kilobytes, (min(servers), max(servers)))

    def _round(self, work: Callable[[], object], times: int) -> tuple[float, ...]:
        server, worker = self._meter.cpu_seconds(), time.process_time()
        wall, received = time.perf_counter(), self._received.bytes
        for _ in range(times):
            work()
        return (
            1000 * (self._meter.cpu_seconds() - server) / times,
            1000 * (time.process_time() - worker) / times,
            1000 * (time.perf_counter() - wall) / times,
            (self._received.bytes - received) / 1000 / times,
        )


def costs_at(server: PostgresServer, trials: int) -> dict[str, Cost]:
    """What a worker's questions cost in a study of so many trials, by name."""
    url, study = entered(server, trials=trials, more=500)
    with closing(Store.writing(locate(url))) as store:
        costs, queue = Costs(server, store, url), queue_of(store, study)
        times = max(5, 20_000 // (trials + 100))
        found = {SNAPSHOT: costs.of(lambda: store.snapshot(STUDY), times=times)}
        found[CLAIM] = costs.of(queue.claim_next, times=max(5, times // 4))
        seen = store.snapshot(STUDY)

        def think() -> None:
            remaining_work(study, estimated(seen.trials, study=study), possible=None)

        found[ANALYSIS] = costs.of(think, times=times)
        names = map(str, count())
        found[PROPOSAL] = costs.of(
            lambda: propose_by_sampler(study, seen.trials, next(names)), times=2
        )
        # Nothing to claim from now on: all trials have begun, and those at hand are held.
        server.run_sql(url, "UPDATE fastrcaps_studies SET budget = 1")
        assert queue.claim_next() is Idle.WAIT
        found[VAIN] = costs.of(queue.claim_next, times=4 * times)

        def ask_anew() -> None:
            store.engine.dispose()
            assert queue.claim_next() is Idle.WAIT

        found[VAIN_CONNECTING] = costs.of(ask_anew, times=2 * times)
    return found


def costs_of_runs(server: PostgresServer) -> dict[str, Cost]:
    """What a worker that trains costs, by name."""
    url, study = entered(server, trials=0, more=1000)
    with closing(Store.writing(locate(url))) as store:
        costs, queue = Costs(server, store, url), queue_of(store, study)
        claims = (queue.claim_next() for _ in range(1000))
        leases = [RunLease(store, one) for one in islice(claims, 150) if isinstance(one, Claim)]
        lease, epochs, rest = leases[0], count(1), iter(leases[1:])

        def connect_and_renew() -> None:
            store.engine.dispose()
            assert lease.renew()

        def store_epoch() -> None:
            lease.store_epoch(stub_epoch("", next(epochs)), setting=SETTING)

        found = {
            CONNECTING: costs.of(connect_and_renew, times=100),
            RENEWAL: costs.of(lease.renew, times=100),
            EPOCH: costs.of(store_epoch, times=50),
            END: costs.of(
                lambda: next(rest).finish(replace(stub_result("0000"), hits=HITS)), times=30
            ),
        }
        with PgBouncer(server, auth="scram-sha-256") as pooler:
            pooled = Store.writing(locate(pooler.url(url)))
            with closing(pooled):
                lease = RunLease(pooled, lease.claim)

                def renew_by_pooler() -> None:
                    pooled.engine.dispose()
                    assert lease.renew()

                used = cpu_seconds(pooler.pid)
                found[POOLED] = Costs(server, pooled, url).of(renew_by_pooler, times=100)
                used = 1000 * (cpu_seconds(pooler.pid) - used) / (100 * ROUNDS + 1)
                found[POOLER] = Cost(used, 0.0, 0.0, 0.0, (used, used))
    return found
