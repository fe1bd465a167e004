from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

LISTENS = "0A"
LOOPBACK = "0100007F"


def test_an_empty_database_takes_a_table_and_gives_its_rows(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.run_sql(postgres_url, "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)")
    assert postgres_server.run_sql(postgres_url, "SELECT n FROM t ORDER BY n") == [(1,), (2,)]
    assert postgres_server.run_sql(postgres_url, "DELETE FROM t") == []


def test_each_database_is_a_new_one(postgres_server: PostgresServer, postgres_url: str) -> None:
    other = postgres_server.new_database()
    postgres_server.run_sql(other, "CREATE TABLE t ()")
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert postgres_server.run_sql(other, tables) == [("t",)]
    assert postgres_server.run_sql(postgres_url, tables) == []
    with psycopg.connect(other):
        postgres_server.drop_database(other)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        postgres_server.run_sql(other, "SELECT 1")


def test_a_wrong_password_is_refused(postgres_url: str) -> None:
    wrong = postgres_url.replace("s3cr3t-w0rd", "guess")
    assert wrong != postgres_url
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_a_reader_reads_and_changes_nothing(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.run_sql(postgres_url, "CREATE TABLE before (n int)")
    reader = postgres_server.read_only(postgres_url)
    postgres_server.run_sql(postgres_url, "CREATE TABLE after (n int)")
    for table in ("before", "after"):
        assert postgres_server.run_sql(reader, f"SELECT * FROM {table}") == []
    for change in (
        "INSERT INTO before VALUES (1)",
        "UPDATE after SET n = 1",
        "DELETE FROM before",
        "CREATE TABLE mine ()",
        "CREATE TEMPORARY TABLE mine ()",
        "CREATE SCHEMA mine",
        "ALTER TABLE before ADD COLUMN m int",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            postgres_server.run_sql(reader, change)


def test_the_server_listens_on_loopback_alone(postgres_server: PostgresServer) -> None:
    assert listeners("tcp", postgres_server.port) == [LOOPBACK]
    assert listeners("tcp6", postgres_server.port) == []


def listeners(protocol: str, port: int) -> list[str]:
    """The local addresses on which this machine listens to a port, in the kernel's hexadecimal."""
    path = Path("/proc/net") / protocol
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines()[1:]:
        _, local, _, state = line.split()[:4]
        address, _, number = local.partition(":")
        if state == LISTENS and int(number, 16) == port:
            found.append(address)
    return found


def test_the_machines_own_address_is_refused(postgres_server: PostgresServer) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but picks the address to send from
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address = probe.getsockname()[0]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, postgres_server.port), timeout=10)


def test_a_stop_refuses_clients_and_a_start_finds_the_data_at_the_same_url(
    own_postgres_server: PostgresServer,
) -> None:
    server = own_postgres_server
    url = server.new_database()
    server.run_sql(url, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
    with psycopg.connect(url):
        server.stop()
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(url)
    server.start()
    assert server.run_sql(url, "SELECT n FROM t") == [(7,)]
    assert "automatic recovery in progress" not in server.log()


def test_an_immediate_stop_keeps_what_was_committed_and_only_that(
    own_postgres_server: PostgresServer,
) -> None:
    server = own_postgres_server
    url = server.new_database()
    server.run_sql(url, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO t VALUES (8)")
        server.stop("immediate")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.start()
    assert server.run_sql(url, "SELECT n FROM t") == [(7,)]
    assert "automatic recovery in progress" in server.log()


def test_the_server_is_gone_with_its_folder_at_the_end(
    make_postgres_server: Callable[..., PostgresServer],
) -> None:
    with make_postgres_server({"max_connections": "7"}) as server:
        assert server.run_sql(server.url, "SHOW max_connections") == [("7",)]
        assert server.folder.is_dir()
    assert not server.folder.exists()
    assert listeners("tcp", server.port) == []


START_AND_WAIT = """
from tests.postgres import PostgresServer

with PostgresServer() as server:
    pid = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    print(server.folder, server.port, pid, flush=True)
    input()
"""


@pytest.mark.usefixtures("make_postgres_server")
def test_the_server_does_not_outlive_a_killed_test_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        folder, port, pid = starter.stdout.readline().split()
        watched = os.pidfd_open(int(pid))
        starter.kill()
    try:
        ended, _, _ = select.select([watched], [], [], 60)
        assert ended, "the server still runs"
        assert listeners("tcp", int(port)) == []
    finally:
        os.close(watched)
        shutil.rmtree(folder)


# What a client finds with its clock: the server's time less its own, and its waits.
ASK_THE_TIME = """
import sys, threading, time
import sqlalchemy

engine = sqlalchemy.create_engine(sys.argv[1].replace("://", "+psycopg://"))
with engine.connect() as connection:
    asked = sqlalchemy.text("SELECT extract(epoch FROM clock_timestamp())")
    print(time.time() - float(connection.scalar(asked)))
began = time.monotonic()
time.sleep(0.01)
threading.Event().wait(0.01)
print(time.monotonic() - began)
"""


@pytest.mark.parametrize("ahead", [5 * 3600, -5 * 3600])
def test_a_client_can_have_another_clock_and_waits_as_long_as_it_says(
    postgres_url: str, another_clock: Callable[[int], dict[str, str]], ahead: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASK_THE_TIME, postgres_url],
        env=another_clock(ahead),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    difference, waited = map(float, done.stdout.split())
    assert difference == pytest.approx(ahead, abs=60)
    assert 0.02 <= waited < 30
