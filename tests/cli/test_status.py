"""``status --watch`` on pipes, terminals and through outages."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.cli import streams
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import locate
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.conftest import Cli
    from tests.postgres import PostgresServer

WATCH = ("status", "--study", "tiny", "--watch", "1")
FIRST, SECOND = values_of(0.9, 10.0, 1000.0), values_of(0.95, 20.0, 1000.0)
HEAD = "tiny: {}/2 trials done ({} complete, 0 failed), 0 running"


@pytest.fixture
def file(store_study: Callable[..., None], tmp_path: Path) -> Path:
    """A study with one of two trials."""
    found = tmp_path / "fastrcaps.db"
    store_study(found, [FIRST], budget=2)
    return found


@contextmanager
def watching(folder: Path, *more: str, **given: Any) -> Iterator[subprocess.Popen[str]]:  # noqa: ANN401
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | given
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "fastrcaps_search", *WATCH, *more],
        cwd=folder,
        text=True,
        **pipes,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("is_json", [False, True])
def test_a_pipe_gets_what_has_changed_and_no_more(
    call: Cli,
    file: Path,
    store_study: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    is_json: bool,
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            store_study(file, [SECOND], budget=2)
        assert len(waited) < 10

    monkeypatch.setattr(streams, "wait_for_reader", wait)
    done = call(*WATCH, *(["--json"] if is_json else []))
    assert (done.returncode, done.stderr, waited) == (0, "", [1.0, 1.0, 1.0])
    if is_json:
        before, after = map(json.loads, done.stdout.splitlines())
        assert [one["complete"] for one in (before, after)] == [1, 2]
        assert [one["kind"] for one in before["stuck"]] == ["no_worker"]
        assert after["stuck"] == []
        return
    before, after = done.stdout.split("\n\n")
    assert before.splitlines()[0] == HEAD.format(1, 1)
    assert "stuck: no worker is at work: " in before
    assert after.splitlines()[0] == HEAD.format(2, 2)
    assert "stuck" not in after


def test_who_reads_no_more_ends_it_without_a_word(tmp_path: Path, file: Path) -> None:
    with watching(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == HEAD.format(1, 1) + "\n"
        process.stdout.close()
        process.stdout = None
        _, error = process.communicate(timeout=30)
        assert (process.returncode, error) == (1, "")


def read_screen(master: int, until_there: str) -> str:
    """What comes to a terminal up to some text, or to its end."""
    seen = ""
    with suppress(OSError):
        # The end of a terminal is an error.
        while until_there not in seen:
            assert select.select([master], [], [], 60)[0], f"{until_there!r} never came: {seen!r}"
            seen += os.read(master, 65536).decode()
    return seen


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_is_drawn_over_and_a_dumb_one_is_not(
    tmp_path: Path, file: Path, store_study: Callable[..., None], term: str
) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": "200", "LINES": "50"}
    with watching(tmp_path, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        seen = read_screen(master, "disk: ")
        if term == "xterm":
            # Again, though nothing has changed.
            seen += read_screen(master, "disk: ")
        store_study(file, [SECOND], budget=2)
        seen += read_screen(master, HEAD.format(2, 2))
        assert process.wait(30) == 0
        seen += read_screen(master, "an end")
    os.close(master)
    assert ("\x1b" in seen) == (term == "xterm")
    assert HEAD.format(1, 1) in seen
    assert (seen.count("disk: ") == 2) == (term == "dumb")


def test_a_terminal_that_goes_away_ends_it(tmp_path: Path, file: Path) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    with watching(tmp_path, stdout=slave, env=environment) as process:
        os.close(slave)
        read_screen(master, "disk: ")
        os.close(master)
        _, error = process.communicate(timeout=30)
        assert (process.returncode, error) == (1, "")


def test_an_outage_is_told_once_and_waited_for(
    own_postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = own_postgres_server.new_database()
    definition = StudyDefinition.from_dict({"name": "tiny", "network": "lenet5"})
    enter_study(locate(url), definition, seed=None, budget=2)
    with watching(tmp_path, "--storage", url) as process:
        out, error = process.stdout, process.stderr
        assert out is not None
        assert error is not None
        assert out.readline() == "tiny: 0/2 trials done (0 complete, 0 failed), 0 running\n"
        own_postgres_server.stop()
        assert error.readline().startswith("waits for the database: ")
        own_postgres_server.start()
        assert error.readline() == "the database is back\n"
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=30)
        assert (process.returncode, told) == (130, "fastrcaps-search: interrupted\n")
        # Nothing has changed.
        assert not re.search("trials done", rest)
