"""Whole runs where connections are few: through pgbouncer, and as a user who may have four."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil
    from tests.pgbouncer import PgBouncer
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do the work in a thread until the end."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_six_trials_through_pgbouncer_leave_other_programs_alone(
    command: Command,
    quick_text: str,
    make_pgbouncer: Callable[..., PgBouncer],
    postgres_url: str,
) -> None:
    few = quick_text.replace("train_images = 400", "train_images = 100")
    (command.folder / "quick.toml").write_text(few)
    found: list[str] = []
    written = itertools.count()
    looks: list[int] = []

    with make_pgbouncer() as pooler:
        url = pooler.url(postgres_url)

        def write(over: threading.Event) -> None:
            # Every time a new client, to which any of the sessions falls.
            while not over.wait(0.05):
                try:
                    with psycopg.connect(url, autocommit=True) as to:
                        to.execute(f"INSERT INTO app.written VALUES ({next(written)})")
                except psycopg.Error as error:
                    found.append(str(error))

        def look(over: threading.Event) -> None:
            line = command.line("status", "--study", "quick", "--storage", url)
            while not over.wait(1.0):
                done = subprocess.run(line, cwd=command.folder, capture_output=True, check=False)
                looks.append(done.returncode)

        with psycopg.connect(url, autocommit=True) as to:
            to.execute("CREATE SCHEMA app CREATE TABLE written (n int)")
        with meanwhile(write), meanwhile(look):
            arguments = ("--study", "quick.toml", "--trials", "6", "--workers", "1")
            done = command("run", *arguments, "--storage", url)
        with psycopg.connect(url, autocommit=True) as to:
            rows = to.execute("SELECT count(*) FROM app.written").fetchone()
    assert found == []
    assert rows == (next(written),)
    # The first ones come before the study.
    assert looks == sorted(looks, reverse=True)
    assert set(looks) <= {2, 0}
    assert looks.count(0) > 1
    assert "front: " in done.stdout
    assert "of 6 finished trials" in done.stdout
    assert done.stderr == ""


def test_two_workers_of_a_user_with_four_connections_and_a_switchover(
    quick: Command,
    postgres_server: PostgresServer,
    postgres_url: str,
    read_until: ReadUntil,
) -> None:
    limited = postgres_server.limited(postgres_url, 4)
    arguments = ("--study", "quick.toml", "--trials", "3", "--workers", "2", "--storage", limited)
    run = quick.start("run", *arguments)
    read_until(run, "begins")
    postgres_server.set_read_only(postgres_url, read_only=True)
    waits = read_until(run, "waits for the database")
    postgres_server.set_read_only(postgres_url, read_only=False)
    printed, errors = run.communicate(timeout=120)
    assert run.returncode == 0, f"{printed}\n{errors}"
    assert "must be writable, as it was, got: cannot execute" in waits
    assert "of 3 finished trials" in printed
    for said in (waits, printed, errors):
        assert "too many connections" not in said
