"""Places where commands are really run: cloned machines, moved databases, pasted values."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.machines import on_a_clone

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil
    from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow


def test_cloned_machines_train_one_study_without_taking_each_others_trials(
    quick: Command, postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    started = []
    for name, command in (("a", ("run", "--trials", "3")), ("b", ("worker",))):
        place = tmp_path / name
        place.mkdir()
        line = [*on_a_clone(place, boot=name), *quick.line(*command, "--study", "quick.toml")]
        process = subprocess.Popen(
            [*line, "--workers", "1", "--storage", postgres_url, "--verbose"],
            cwd=quick.folder,
            # As on a machine of its own, each with its cores.
            env={**quick.environment(), "FASTRCAPS_RUNTIME_DIR": str(place / "slots")},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        if name == "a":
            process.stdout.readline()
    for process in started:
        process.communicate()
        assert process.returncode == 0
    rows = postgres_server.run_sql(
        postgres_url,
        "select number, count(distinct token), sum(token) from fastrcaps_claims "
        "where purpose = 'train' group by number order by number",
    )
    assert rows == [(number, 1, 1) for number in range(3)]
    ended = "select count(accuracy), sum(deaths) from fastrcaps_runs"
    assert postgres_server.run_sql(postgres_url, ended) == [(3, 0)]


def test_a_database_that_was_renamed_says_where_its_files_are(
    quick: Command, read_until: ReadUntil
) -> None:
    file, text = quick.folder / "quick.toml", (quick.folder / "quick.toml").read_text()
    file.write_text(text.replace("epochs = 2", "epochs = 30"))
    line = ("run", "--study", "quick.toml", "--trials", "1", "--workers", "1", "--verbose")
    process = quick.start(*line, "--storage", "a.db")
    read_until(process, "trial 0 epoch 1:")
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate()
    (quick.folder / "a.db").rename(quick.folder / "b.db")
    refused = quick(*line, "--storage", "b.db", rc=2)
    old = quick.folder / "a-files"
    assert f"got none of trial 0, which are in {old}: go on with them by --files {old}" in (
        refused.stderr
    )
    assert not (quick.folder / "b-files").exists()
