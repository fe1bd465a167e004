"""A run whose output goes nowhere, or whose page cannot be written, trains all the same."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command

RUN = ("run", "--study", "quick.toml", "--trials", "2", "--workers", "1")


def trained(command: Command) -> list[str]:
    """States of the trials."""
    return [row["state"] for row in command.json("trials", "--study", "quick")]


def environment(command: Command) -> dict[str, str]:
    """As a user's Python buffers, whatever tests run under."""
    return {**command.environment(), "PYTHONUNBUFFERED": "", "TERM": "xterm"}


@pytest.mark.parametrize(
    "where",
    [
        "<&- >&- 2>&-",
        # Lines are read and the reader leaves, as `head` does.
        "2>&1 | (read line; echo $line); exit ${PIPESTATUS[0]}",
    ],
)
def test_a_run_that_nobody_reads_goes_on(begun: Command, where: str) -> None:
    line = f"python -P -m fastrcaps_search {' '.join(RUN)} --verbose {where}"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=begun.folder,
        env=environment(begun),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert trained(begun) == ["complete", "complete"]
    assert (begun.folder / "reports" / "quick.html").exists()


def test_a_terminal_that_goes_away_ends_no_run(begun: Command) -> None:
    master, slave = pty.openpty()
    run = subprocess.Popen(
        begun.line(*RUN),
        cwd=begun.folder,
        env=environment(begun),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    seen = b""
    while b"worker-" not in seen:
        # The live lines have begun.
        seen += os.read(master, 65536)
    os.close(master)
    assert run.wait() == 0
    assert trained(begun) == ["complete", "complete"]


def test_a_page_that_cannot_be_written_is_a_warning_before_and_after(begun: Command) -> None:
    (begun.folder / "reports" / "quick.html").unlink()
    (begun.folder / "reports").rmdir()
    (begun.folder / "reports").write_text("a file in the way")
    done = begun(*RUN)
    first, last = done.stderr.splitlines()
    for line, place in ((first, "reports"), (last, "reports/quick.html")):
        assert line == (
            f"warning: the report must be writable at {place}, got: File exists; name another "
            "path with --report-dir; the study goes on without its page"
        )
    assert "front: " in done.stdout
    assert trained(begun) == ["complete", "complete"]
    # Nor is it one for the same line again, in a folder where nothing can be made.
    storage = str(begun.folder / "fastrcaps.db")
    elsewhere = (*RUN[:2], str(begun.folder / "quick.toml"), *RUN[3:], "--storage", storage)
    again = subprocess.run(
        begun.line(*elsewhere),
        cwd="/sys",
        env=begun.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0
    assert again.stderr.count("warning: the report must be writable at reports") == 2


def test_the_folder_of_the_page_has_a_flag_and_a_variable(begun: Command) -> None:
    done = begun("run", "--study", "quick", "--trials", "1", "--report-dir", "a/b")
    assert done.stdout.endswith("\nreport: a/b/quick.html\n")
    assert (begun.folder / "a/b/quick.html").exists()
    for line, path in (
        (("run", "--study", "quick", "--trials", "1"), "c/quick.html"),
        (("report", "--study", "quick", "--format", "csv"), "c/quick.csv"),
    ):
        done = subprocess.run(
            begun.line(*line),
            cwd=begun.folder,
            env={**begun.environment(), "FASTRCAPS_REPORT_DIR": "c"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1].removeprefix("report: ") == path
        assert (begun.folder / path).exists()


def test_a_folder_whose_name_is_no_utf_8(begun: Command) -> None:
    folder = Path(os.fsdecode(os.fsencode(begun.folder) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "quick.toml").write_text((begun.folder / "quick.toml").read_text())
    (begun.folder / "fastrcaps.db").rename(folder / "fastrcaps.db")
    (begun.folder / "fastrcaps-files").rename(folder / "fastrcaps-files")
    out = folder / "network"
    for line, printed in (
        (("run", "--study", "quick", "--trials", "1", "--report-dir", str(folder)), "quick.html"),
        (("export", "--study", "quick", "--out", str(out)), "network/weights.safetensors ("),
    ):
        done = subprocess.run(
            begun.line(*line), cwd=folder, env=begun.environment(), capture_output=True, check=True
        )
        assert done.stderr == b""
        assert os.fsencode(folder / printed) in done.stdout
    line = ("evaluate", str(out), "--out", str(folder / "e.html"), "--json")
    measured = json.loads(type(begun)(folder)(*line).stdout)
    assert measured["page"] == f"{folder}/e.html"
    assert measured["equal"]
