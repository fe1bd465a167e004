"""What a PostgreSQL server does for its clients: its processes' seconds, transactions, locks."""

from __future__ import annotations

import os
import socket
import statistics
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from tests.postgres import PostgresServer

WATCH_SECONDS = 0.1
REPORT_SECONDS = 1.2
"""A server's process reports at the end of its connection, or within a second."""
TICKS = os.sysconf("SC_CLK_TCK")
RECEIVED = struct.Struct("128x Q")
"""``tcpi_bytes_received`` of ``struct tcp_info`` in Linux's ``linux/tcp.h``."""
WATCHED = (
    "SELECT count(*) FILTER (WHERE application_name = 'fastrcaps-search'),"
    " count(*) FILTER (WHERE wait_event_type = 'Lock')"
    " FROM pg_stat_activity WHERE datname = current_database()"
)
COUNTED = (
    "SELECT xact_commit, xact_rollback, tup_returned, tup_inserted + tup_updated + tup_deleted,"
    " deadlocks, sessions FROM pg_stat_database WHERE datname = current_database()"
)


@dataclass(frozen=True, slots=True)
class Load:
    """What a server did for its clients.

    Attributes:
        seconds: Length of the time.
        cpu_seconds: Of all its processes.
        transactions: That were committed.
        rolled_back: That were not.
        rows_read: Rows that it looked at.
        rows_written: Rows that it wrote.
        deadlocks: Deadlocks.
        connects: Connections that were made.
        connections: Most at once.
        waiting: Mean number of transactions that waited for a lock of another one.
    """

    seconds: float
    cpu_seconds: float
    transactions: int
    rolled_back: int
    rows_read: int
    rows_written: int
    deadlocks: int
    connects: int
    connections: int
    waiting: float


class Meter:
    """Watches a server from :meth:`begin` to :meth:`end`.

    Args:
        server: The server.
        url: The database whose transactions are counted.
    """

    def __init__(self, server: PostgresServer, url: str) -> None:
        self._pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        self._url = url
        self._over = threading.Event()
        self._seen: list[tuple[int, int]] = []

    def begin(self) -> None:
        """Begin to count."""
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        self._before = (time.monotonic(), self.cpu_seconds(), self._counters())

    def end(self) -> Load:
        """What was counted."""
        began, cpu, counters = self._before
        seconds, used = time.monotonic() - began, self.cpu_seconds() - cpu
        self._over.set()
        self._watcher.join()
        time.sleep(REPORT_SECONDS)
        committed, rolled_back, read, written, deadlocks, connects = (
            now - then for now, then in zip(self._counters(), counters, strict=True)
        )
        connections, waiting = zip(*self._seen, strict=True)
        return Load(
            seconds=seconds,
            cpu_seconds=used,
            transactions=committed,
            rolled_back=rolled_back,
            rows_read=read,
            rows_written=written,
            deadlocks=deadlocks,
            connects=connects,
            connections=max(connections),
            waiting=statistics.fmean(waiting),
        )

    def cpu_seconds(self) -> float:
        """Seconds of computing of the server's processes so far, of those that ended too."""
        return cpu_seconds(self._pid)

    def _counters(self) -> tuple[int, ...]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            row = connection.execute(COUNTED).fetchone()
        assert row is not None
        return tuple(row)

    def _watch(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while True:
                row = connection.execute(WATCHED).fetchone()
                assert row is not None
                self._seen.append((row[0], row[1]))
                if self._over.wait(WATCH_SECONDS):
                    return


def cpu_seconds(pid: int) -> float:
    """Seconds of computing of a process and its children so far, of those that ended too."""
    # utime and stime; then the same of children that have ended.
    used = sum(_ticks(pid)[:4])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (used + sum(sum(_ticks(int(child))[:2]) for child in children)) / TICKS


def _ticks(pid: int) -> list[int]:
    """The four times of a process in the kernel's ticks; none where it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return [int(field) for field in fields[11:15]]
    return []


class Received:
    """Counts the bytes that the connections of an engine receive, by the kernel's own count."""

    def __init__(self, engine: Engine) -> None:
        self.bytes = 0
        # Before the product's own, which may close the connection.
        event.listen(engine, "checkin", self._count, insert=True)

    def _count(self, connection: psycopg.Connection, entry: ConnectionPoolEntry) -> None:
        with socket.socket(fileno=os.dup(connection.fileno())) as copy:
            told = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        (received,) = RECEIVED.unpack_from(told)
        self.bytes += received - entry.info.get("received", 0)
        entry.info["received"] = received
