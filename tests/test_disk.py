"""Files whole or not at all, and one line where the disk refuses."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fastrcaps_search.disk import disk_errors, replace_file
from fastrcaps_search.errors import DiskError

# Killed when everything is written but the renaming.
KILLED = """
import os, signal, sys
from pathlib import Path
from fastrcaps_search.disk import replace_file
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
replace_file(Path(sys.argv[1]), b"new")
"""


def test_a_file_is_replaced_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a"
    replace_file(path, b"old")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace_file(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            replace_file(path, bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]


def test_a_killed_writer_leaves_the_old_file_and_a_name_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    replace_file(path, b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = set(tmp_path.iterdir()) - {path}
    assert re.fullmatch(r"\.a\.json\.[0-9a-f]{8}\.part", left.name)


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        (None, "free space there or name another path"),
        ("the trial goes on", "the trial goes on"),
    ],
)
def test_what_the_system_says_becomes_a_line(advice: str | None, said: str) -> None:
    message = f"^the page must be writable at a/b, got: No space left on device; {said}$"
    with (
        pytest.raises(DiskError, match=message),
        disk_errors("the page", Path("a/b"), advice=advice),
    ):
        raise OSError(28, "No space left on device")
