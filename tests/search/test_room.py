"""The room that files take: on disks, elsewhere, and in object storage that does not answer."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.search import room as room_module
from fastrcaps_search.search.files import study_folder
from fastrcaps_search.search.room import Room, used_room
from fastrcaps_search.store.location import Location, locate

if TYPE_CHECKING:
    from tests.conftest import Cli

STUDY: Any = SimpleNamespace(name="a", uid="0123456789", asked=None)


def trials(*places: str | None) -> Any:  # noqa: ANN401  # stand for records
    """Trials of a run each, whose files are in these places."""
    return [SimpleNamespace(runs=[SimpleNamespace(files=place)]) for place in places]


def only(location: Location, *places: str | None, is_named: bool = False) -> Room:
    (found,) = used_room(location, STUDY, trials(*places), is_named=is_named)
    return found


def fill(location: Location, size: int) -> Path:
    folder = study_folder(location, STUDY)
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(size))
    return folder


def test_the_room_of_files_that_may_not_be_seen_is_unknown(tmp_path: Path) -> None:
    location = locate(str(tmp_path / "a.db"))
    assert only(location).bytes == 0
    run = study_folder(location, STUDY) / "trial-0000" / "run-0"
    run.mkdir(parents=True)
    (run / "weights").write_bytes(bytes(1_000))
    (run.parent / "run-0.log").write_bytes(bytes(10))
    # A link counts for nothing.
    (run / "link").symlink_to("weights")
    assert only(location).bytes == 1_010
    run.chmod(0)
    # Root may see all: its child is another user.
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        if os.getuid() == 0:
            os.setuid(54321)
        found = only(location)
        assert (found.bytes, found.reason) == (None, "for want of permission (Permission denied)")
        os._exit(0)
    finally:
        os._exit(1)


def test_it_is_looked_for_where_the_runs_were_told_to_keep_it(tmp_path: Path) -> None:
    here, there, gone = (str(tmp_path / name) for name in ("here", "there", "gone"))
    location = locate(str(tmp_path / "a.db"), files=here)
    folder = fill(locate(str(tmp_path / "a.db"), files=there), 500)
    assert only(location, there, None, there) == Room(str(folder), 500)
    lost = Room(f"{gone}/{folder.name}", None, "no such folder on this machine")
    assert used_room(location, STUDY, trials(there, gone), is_named=False) == (
        lost,
        Room(str(folder), 500),
    )
    # A database that was moved has its files beside it.
    fill(location, 20)
    found = used_room(location, STUDY, trials(there, gone), is_named=False)
    assert [room.bytes for room in found] == [20, None, 500]
    # What was named is meant.
    assert only(location, there, gone, is_named=True).bytes == 20


def test_before_the_first_run_it_is_looked_for_where_the_files_are_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = str(tmp_path / "there")
    monkeypatch.setattr(STUDY, "asked", json.dumps([["--files", there]]))
    location = locate(str(tmp_path / "a.db"))
    assert only(location) == Room(f"{there}/a-01234567", 0)
    # A database that was moved has its files beside it.
    fill(location, 20)
    assert [room.bytes for room in used_room(location, STUDY, [], is_named=False)] == [20, 0]
    assert only(location, is_named=True).bytes == 20


@pytest.fixture
def silent_server(s3fs_anew: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of object storage that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "nobody")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield port


@pytest.mark.usefixtures("silent_server")
def test_object_storage_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_module, "ANSWER_SECONDS", 0.5)
    location = locate(str(tmp_path / "a.db"), files="s3://bucket/x")
    disk = fill(locate(str(tmp_path / "a.db"), files=tmp_path / "disk"), 7)
    begun = time.monotonic()
    found = used_room(location, STUDY, trials("s3://bucket/x", str(disk.parent)), is_named=False)
    assert time.monotonic() - begun < 10
    assert found == (
        Room("s3://bucket/x/a-01234567", None, "no answer within 0.5 s"),
        Room(str(disk), 7),
    )


@pytest.mark.usefixtures("silent_server")
def test_status_says_so_and_ends(cli: Cli, tmp_path: Path, store_study: Any) -> None:  # noqa: ANN401
    store_study(tmp_path / "fastrcaps.db", [], budget=2)
    begun = time.monotonic()
    done = cli("status", "--study", "tiny", "--files", "s3://bucket/x")
    # Three seconds, beside what Python takes.
    assert time.monotonic() - begun < 20
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    assert last.startswith("disk: room unknown in s3://bucket/x/tiny-")
    assert last.endswith(": no answer within 3 s")


def test_a_server_that_is_down_is_no_want_of_permission(
    silent_server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    reason = only(locate(str(tmp_path / "a.db"), files="s3://down/x")).reason
    assert reason is not None
    assert "permission" not in reason
    assert "connect" in reason or reason == "no answer within 3 s"
