"""Files whole or not at all, and one line where the disk refuses."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastrcaps_search.disk import disk_errors, rename_over, replace_file
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


def refuse(
    monkeypatch: pytest.MonkeyPatch, name: str, code: int, when: Callable[..., bool]
) -> None:
    """Lets a call of the system fail where ``when`` says so of its arguments."""
    real = getattr(os, name)

    def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401  # those of the call
        if when(*arguments):
            raise OSError(code, os.strerror(code))
        return real(*arguments, **named)

    monkeypatch.setattr(os, name, call)


def is_folder(file: int) -> bool:
    return stat.S_ISDIR(os.fstat(file).st_mode)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO, errno.ENOTSUP, errno.EACCES])
@pytest.mark.parametrize(
    ("name", "when"),
    [("fsync", is_folder), ("open", lambda path, *_: Path(path).is_dir())],
    ids=["fsync", "open"],
)
def test_folders_that_cannot_be_flushed_are_not(
    name: str,
    when: Callable[..., bool],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(monkeypatch, name, code, when)
    replace_file(tmp_path / "a", b"new")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"new"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_files_that_know_no_flushing_are_written(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "fsync", code, lambda file: True)
    replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_file_that_did_not_reach_the_disk_leaves_the_old_one(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file(tmp_path / "a", b"old")
    refuse(monkeypatch, "fsync", code, lambda file: not is_folder(file))
    with pytest.raises(OSError, match=os.strerror(code)):
        replace_file(tmp_path / "a", b"new")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("code", [errno.EEXIST, errno.EACCES, errno.EPERM])
def test_where_nothing_can_be_replaced_what_stands_there_goes_aside_first(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file(tmp_path / "a" / "file", b"new")
    (tmp_path / "empty").mkdir()
    refuse(monkeypatch, "replace", code, lambda old, new: Path(new).exists())
    rename_over(tmp_path / "a", tmp_path / "empty")
    assert (tmp_path / "empty" / "file").read_bytes() == b"new"
    replace_file(tmp_path / "b" / "file", b"other")
    with pytest.raises(OSError, match=os.strerror(code)):
        rename_over(tmp_path / "b", tmp_path / "empty")
    assert [each.read_bytes() for each in (tmp_path / "empty").iterdir()] == [b"new"]
    replace_file(tmp_path / "empty" / "file", b"other")
    assert [each.read_bytes() for each in (tmp_path / "empty").iterdir()] == [b"other"]


@pytest.mark.parametrize("code", [errno.EEXIST, errno.EACCES, errno.EPERM])
def test_what_stands_there_comes_back_where_its_successor_cannot_have_the_name(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file(tmp_path / "file", b"old")
    refuse(monkeypatch, "replace", code, lambda old, new: Path(old).read_bytes() == b"new")
    with pytest.raises(OSError, match=os.strerror(code)):
        replace_file(tmp_path / "file", b"new")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]


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
