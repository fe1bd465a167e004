"""One contract for folders on a disk, in memory and on a real S3 server; what only URLs can do."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search import object_storage
from fastrcaps_search.errors import CheckpointError, DiskError, UsageError
from fastrcaps_search.folders import Folder, LocalFolder
from fastrcaps_search.object_storage import RemoteFolder

if TYPE_CHECKING:
    from tests.s3 import S3Server

# A plus, a blank, a percent sign and a letter beyond ASCII mean themselves.
HARD = "a b+c%41\u00e9.safetensors"


@pytest.fixture(params=["disk", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "disk":
        return LocalFolder(tmp_path / "study" / "run-0")
    place = f"memory://{tmp_path}"
    if request.param == "s3":
        place = request.getfixturevalue("s3_url")
    return RemoteFolder(f"{place}/study/run-0")


def above(folder: Folder) -> Folder:
    """The folder of the study."""
    if isinstance(folder, LocalFolder):
        return LocalFolder(folder.path.parent)
    return RemoteFolder(str(folder).rpartition("/")[0])


def test_a_folder_keeps_what_was_written(folder: Folder) -> None:
    assert (folder.names(), folder.sizes()) == ([], {})
    # More than one packet, and nothing at all.
    large = bytes(range(256)) * 20_000
    folder.write("one", large)
    folder.write(HARD, b"")
    assert sorted(folder.names()) == [HARD, "one"]
    assert folder.sizes() == {"one": 5_120_000, HARD: 0}
    assert above(folder).sizes() == {"run-0/one": 5_120_000, f"run-0/{HARD}": 0}
    assert (folder.read("one"), folder.read(HARD)) == (large, b"")
    folder.write("one", b"another")
    assert folder.read("one") == b"another"


def test_a_file_gets_another_name_in_place_of_one_that_had_it(folder: Folder) -> None:
    folder.write("old", b"1")
    folder.write("new", b"2")
    folder.rename("old", "new")
    assert (folder.names(), folder.read("new")) == (["new"], b"1")
    folder.rename("new", "new")
    assert folder.read("new") == b"1"
    with pytest.raises(FileNotFoundError):
        folder.rename("old", "new")
    assert folder.read("new") == b"1"


def test_what_is_not_there_is_no_checkpoint_and_needs_no_removal(folder: Folder) -> None:
    with pytest.raises(CheckpointError, match=r"/run-0/gone must be a checkpoint, got: "):
        folder.read("gone")
    folder.write("kept", b"1")
    folder.write("two", b"2")
    folder.remove(["gone", "two"])
    assert folder.names() == ["kept"]
    folder.remove(["kept"])
    assert folder.names() == []


def test_a_file_that_is_too_large_is_not_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("large", bytes(11))
    monkeypatch.setattr("fastrcaps_search.disk.MOST_BYTES", 10)
    monkeypatch.setattr(object_storage, "MOST_BYTES", 10)
    with pytest.raises(CheckpointError, match=r"/large must be a checkpoint, got: 11 bytes$"):
        folder.read("large")


def test_what_another_machine_has_done_is_seen_at_once(s3_url: str, s3_server: S3Server) -> None:
    here, files = RemoteFolder(s3_url), s3_server.files()
    here.write("one", b"1")
    assert here.names() == ["one"]
    files.pipe_file(f"{s3_url}/two", b"2")
    files.pipe_file(f"{s3_url}/one", b"11")
    assert sorted(here.names()) == ["one", "two"]
    assert (here.read("two"), here.sizes()) == (b"2", {"one": 2, "two": 1})
    files.rm_file(f"{s3_url}/two")
    assert here.names() == ["one"]
    with pytest.raises(CheckpointError):
        here.read("two")


def test_a_place_that_can_be_used_is_left_as_it_was(s3_url: str) -> None:
    RemoteFolder(s3_url).require_usable()
    assert RemoteFolder(s3_url).sizes() == {}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wr0ng-w0rd"}, "signature we calculated does not match"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "key ID you provided does not exist"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "Unable to locate credentials"),
        ({"bucket": "another"}, "Access Denied"),
    ],
)
def test_a_place_that_cannot_be_used_is_told_in_a_line(
    s3_url: str, wrong: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    url = s3_url.replace("bucket", wrong.get("bucket", "bucket"))
    with pytest.raises(DiskError) as caught:
        RemoteFolder(url).require_usable()
    said = str(caught.value)
    assert said.startswith(f"files must be writable at {url}, got: ")
    assert reason in said
    assert said.endswith("; check bucket, credentials and permissions")
    assert not [word for word in ("\n", "wr0ng-w0rd", "s3cr3t") if word in said]


@pytest.mark.parametrize("server", ["down", "frozen", "nowhere"])
def test_a_server_that_does_not_answer_is_called_that(
    server: str, s3_url: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"down": "http://127.0.0.1:1", "nowhere": "http://nowhere.invalid"}
    if server in wrong:
        monkeypatch.setenv("AWS_ENDPOINT_URL", wrong[server])
    # In less than a second it has tried again where it was refused.
    monkeypatch.setattr(object_storage, "ANSWER_SECONDS", 0.7)
    begun = time.monotonic()
    if server == "frozen":
        s3_server.suspend()
    try:
        with pytest.raises(DiskError) as caught:
            RemoteFolder(s3_url).require_usable()
    finally:
        s3_server.resume()
    assert time.monotonic() - begun < 10
    got, _, advice = str(caught.value).partition("; ")
    assert re.fullmatch(
        rf"files must be writable at {s3_url}, got: (no answer in time|EndpointConn.*)", got
    )
    assert advice == (
        "check that its server runs and can be reached from here (network, proxy, "
        "AWS_ENDPOINT_URL), and that there are credentials"
    )


def test_who_waits_for_an_answer_stops_when_asked_to(s3_url: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "fastrcaps_search", "run", "--study", "mnist-mini"),
                *("--trials", "1", "--files", s3_url, "--storage", str(tmp_path / "new.db")),
            ],
            env=os.environ | {"AWS_ENDPOINT_URL": address},
            stderr=subprocess.PIPE,
            text=True,
        )
        # It has asked.
        asked, _ = silent.accept()
        with asked:
            begun = time.monotonic()
            process.terminate()
            _, said = process.communicate()
    assert process.returncode == 130
    assert said.splitlines() == [
        "",
        "stopping: workers finish their step and save",
        "fastrcaps-search: stopped on request while object storage was awaited",
    ]
    # Of fifteen that it would have waited, on a machine that may be busy.
    assert time.monotonic() - begun < 10


def test_what_is_said_has_no_query_which_may_be_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str) -> None:
        raise ValueError('no "http://host:1/bucket/x?list-type=2&X-Signature=s3cr3t" today')

    monkeypatch.setattr("fsspec.url_to_fs", refuse)
    with pytest.raises(DiskError, match=r'got: ValueError: no "http://host:1/bucket/x" today; '):
        RemoteFolder("memory://x").require_usable()


def test_schemes_that_are_not_known_or_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"URL that fsspec knows, as s3://b.*, got nope://"):
        RemoteFolder("nope://bucket/x").names()
    for name, scheme in (("adlfs", "abfs"), ("gcsfs", "gs")):
        monkeypatch.setitem(sys.modules, name, None)
        wanted = rf"^files at {scheme}:// need a package that is not .*; pip install {name}$"
        with pytest.raises(UsageError, match=wanted):
            RemoteFolder(f"{scheme}://bucket/x").require_usable()
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=r"^files at memory:// need a package .*\[remote\]'$"):
        RemoteFolder("memory://x").names()


def test_what_a_library_refuses_when_it_is_opened_is_no_unknown_scheme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(url: str) -> None:
        raise ValueError("an account must be named")

    monkeypatch.setattr("fsspec.url_to_fs", refuse)
    with pytest.raises(DiskError, match=r"got: ValueError: an account must be named; check bu"):
        RemoteFolder("memory://x").require_usable()


def test_a_server_that_does_not_answer_is_waited_for_and_then_told(
    s3_url: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RemoteFolder(s3_url)
    folder.write("one", b"1")
    monkeypatch.setattr(object_storage, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(object_storage, "CONTENT_SECONDS", 1.0)
    monkeypatch.setattr(object_storage, "AGAIN_SECONDS", 0.0)
    begun = time.monotonic()
    s3_server.suspend()
    try:
        calls: list[Callable[[], object]] = [folder.names, folder.sizes]
        calls += [lambda: folder.write("two", b"2"), lambda: folder.rename("one", "two")]
        for call in calls:
            with pytest.raises(OSError, match="no answer in time"):
                call()
        with pytest.raises(DiskError, match=r"must be readable at s3://.*, got: no answer in t"):
            folder.read("one")
        folder.remove(["another"])
    finally:
        s3_server.resume()
    # Each of six, none of which waits for longer than twice its second.
    assert time.monotonic() - begun < 20
    assert folder.read("one") == b"1"


def test_a_short_outage_costs_nothing(s3_url: str, s3_server: S3Server) -> None:
    folder = RemoteFolder(s3_url)
    folder.write("one", b"1")
    s3_server.suspend()
    waker = subprocess.Popen(
        ["sh", "-c", f"sleep 2; kill -CONT {s3_server.pid}"], start_new_session=True
    )
    assert folder.read("one") == b"1"
    assert waker.wait() == 0


KILLED = """
import sys
from fastrcaps_search.object_storage import RemoteFolder
folder = RemoteFolder(sys.argv[1])
folder.write("small", b"1")
print("begins", flush=True)
folder.write("one", b"new" * 40_000_000)
"""


def test_an_upload_that_is_killed_leaves_what_was_there(s3_url: str, s3_server: S3Server) -> None:
    folder = RemoteFolder(s3_url)
    folder.write("one", b"old")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, s3_url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "begins\n"
        # 120 MB go in parts, for which an upload is open.
        while (
            not s3_server.files().call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads")
        ):
            assert process.poll() is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert folder.read("one") == b"old"
    assert sorted(folder.names()) == ["one", "small"]
