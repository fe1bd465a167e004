"""The script examples/over-ssh, with real servers of ssh on what believe to be two machines."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import locate
from tests.machines import on_a_clone
from tests.sshd import reachable

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "examples/over-ssh"
HOSTS = ("gpu1", "gpu2")


def end_what_is_left(folder: Path) -> None:
    """Kill what was started and has not ended: it is nobody's child."""
    for file in folder.glob("*/home/*.pid"):
        with suppress(OSError, ValueError):
            pid = int(file.read_text())
            if b"fastrcaps_search" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def test_workers_over_ssh_go_on_without_the_connection_and_stop_when_asked(
    tmp_path: Path,
    steady_text: str,
    postgres_server: PostgresServer,
    postgres_url: str,
    make_home: Callable[[Path, str], None],
    until: Callable[[Callable[[], object]], None],
    request: pytest.FixtureRequest,
) -> None:
    (tmp_path / "steady.toml").write_text(steady_text.replace("epochs = 20", "epochs = 200"))
    study = load_study(str(tmp_path / "steady.toml"))
    enter_study(locate(postgres_url), study, seed=None, budget=2)
    text = SCRIPT.read_text(encoding="utf-8").replace("/shared", f"{tmp_path}/shared")
    (tmp_path / "over-ssh").write_text(text)

    def over_ssh(do: str, *hosts: str) -> str:
        done = subprocess.run(
            ["sh", str(tmp_path / "over-ssh"), do, "steady", *hosts],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def begun() -> set[int]:
        rows = postgres_server.run_sql(postgres_url, "select number from fastrcaps_epochs")
        return {number for (number,) in rows}

    usage = subprocess.run(
        ["sh", str(SCRIPT)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert (usage.returncode, usage.stdout) == (2, "")
    assert "over-ssh stop mnist gpu1" in usage.stderr
    request.addfinalizer(lambda: end_what_is_left(tmp_path))  # of a failed test
    with ExitStack() as servers:
        known = []
        for name in HOSTS:
            for kind in ("keys", "home", "clone"):
                (tmp_path / name / kind).mkdir(parents=True)
            make_home(tmp_path / name / "home", postgres_url)
            place = reachable(
                name,
                folder=tmp_path / name / "keys",
                home=tmp_path / name / "home",
                within=on_a_clone(tmp_path / name / "clone", boot=name),
            )
            known.append(servers.enter_context(place).read_text())
        (tmp_path / "known").write_text("".join(known))
        (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {tmp_path}/known "$@"\n')
        (tmp_path / "ssh").chmod(0o700)
        assert over_ssh("start", *HOSTS) == ""
        for name in HOSTS:
            pid = (tmp_path / name / f"home/fastrcaps-steady-{name}.pid").read_text().strip()
            assert postgres_url.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        until(lambda: begun() == {0, 1})
        # Another one of that name could not be stopped any more.
        assert over_ssh("start", HOSTS[0]) == "fastrcaps-steady-gpu1 runs already\n"
        assert over_ssh("stop", HOSTS[0]) == ""
        until(lambda: "the state is saved" in over_ssh("log", HOSTS[0]))
        # It says so a moment before it has ended.
        until(lambda: over_ssh("stop", HOSTS[0]) == "fastrcaps-steady-gpu1 runs no more\n")
    ended = "select count(accuracy), sum(deaths) from fastrcaps_runs"
    until(lambda: postgres_server.run_sql(postgres_url, ended) == [(2, 0)])
    log = tmp_path / "gpu2/home/fastrcaps-steady-gpu2.log"
    until(lambda: "steady: 2/2 done" in log.read_text())
    assert "continues at epoch" in log.read_text()
