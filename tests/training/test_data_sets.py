"""The three layouts, what each check refuses, and the download."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastrcaps_search.definition import data_facts
from fastrcaps_search.definition.choices import DataSet
from fastrcaps_search.definition.data_facts import (
    FILE_NAMES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
)
from fastrcaps_search.errors import DataError
from fastrcaps_search.training import data_sets
from fastrcaps_search.training.data_sets import find_files, load_images
from fastrcaps_search.training.download import download_lock

REAL = os.environ.get("FASTRCAPS_DATA")
needs_data = pytest.mark.skipif(
    REAL is None, reason="FASTRCAPS_DATA does not name the folder of the real data"
)
TORCHVISION_FOLDERS = {DataSet.MNIST: "MNIST/raw", DataSet.FASHION_MNIST: "FashionMNIST/raw"}
LARGE = [DataSet.MNIST, DataSet.FASHION_MNIST]


def real_files(data_set: DataSet) -> dict[str, Path]:
    assert REAL is not None
    files = find_files(data_set, folder=Path(REAL))
    assert files is not None
    return dict(files)


def plain(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def place(folder: Path, files: dict[str, Path], *, gzipped: bool = True) -> Path:
    """Put links to files, or decompressed copies, under their names into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        if gzipped:
            (folder / f"{name}.gz").symlink_to(path)
        else:
            (folder / name).write_bytes(plain(path))
    return folder


def idx(values: NDArray[Any]) -> bytes:
    header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    return header + values.astype(np.uint8).tobytes()


def synthetic(folder: Path, **changed: NDArray[Any]) -> Path:
    """Write a set of the right sizes, all zero but for what changed; return its folder."""
    arrays: dict[str, NDArray[Any]] = {
        "train_images": np.zeros((60_000, 28, 28), np.uint8),
        "train_labels": np.zeros(60_000, np.uint8),
        "test_images": np.zeros((10_000, 28, 28), np.uint8),
        "test_labels": np.zeros(10_000, np.uint8),
        **changed,
    }
    folder.mkdir(parents=True)
    for name, values in zip(FILE_NAMES, arrays.values(), strict=True):
        (folder / name).write_bytes(idx(values))
    return folder


def refusal(data_set: DataSet, folder: Path | None) -> str:
    with pytest.raises(DataError) as caught:
        load_images(data_set, folder=folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data_set", "sizes"),
    [
        (DataSet.MNIST, (60_000, 5_000, 10_000)),
        (DataSet.FASHION_MNIST, (60_000, 5_000, 10_000)),
        (DataSet.MNIST_MINI, (4_500, 500, 500)),
    ],
)
def test_sizes(data_set: DataSet, sizes: tuple[int, int, int]) -> None:
    assert data_facts.train_size(data_set) == sizes[0]
    assert data_facts.validation_size(data_set) == sizes[1]
    assert data_facts.test_size(data_set) == sizes[2]


# Layouts -------------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("data_set", LARGE)
def test_loads_the_real_set(data_set: DataSet) -> None:
    assert REAL is not None
    images = load_images(data_set, folder=Path(REAL))
    files = real_files(data_set)
    assert images.data_set is data_set
    assert images.train_images.shape == (60_000, 28, 28)
    assert images.test_images.shape == (10_000, 28, 28)
    assert images.train_images.tobytes() == plain(files[TRAIN_IMAGES])[16:]
    assert images.test_labels.tobytes() == plain(files[TEST_LABELS])[8:]
    assert images.train_labels.dtype == images.train_images.dtype == np.uint8
    # Published facts: the first labels, and how many of each class the training sets hold.
    first = [5, 0, 4, 1, 9] if data_set is DataSet.MNIST else [9, 0, 0, 3, 0]
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert images.train_labels[:5].tolist() == first
    expected = counts if data_set is DataSet.MNIST else [6_000] * 10
    assert np.bincount(images.train_labels).tolist() == expected


@needs_data
@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize("layout", ["torchvision", "debian", "flat"])
def test_finds_each_layout(tmp_path: Path, layout: str, gzipped: bool) -> None:
    data_set = DataSet.MNIST
    inside = {"torchvision": "MNIST/raw", "debian": "mnist", "flat": "."}[layout]
    place(tmp_path / inside, real_files(data_set), gzipped=gzipped)
    images = load_images(data_set, folder=tmp_path)
    assert images.test_labels[:5].tolist() == [7, 2, 1, 0, 4]


@needs_data
def test_flat_and_named_folders_of_the_other_set_are_told_apart(tmp_path: Path) -> None:
    fashion = real_files(DataSet.FASHION_MNIST)
    for folder in (tmp_path / "flat", tmp_path / "named"):
        inside = folder if folder.name == "flat" else folder / "mnist"
        place(inside, fashion)
        message = refusal(DataSet.MNIST, folder)
        assert f"{inside / TRAIN_IMAGES}.gz must be a file of mnist" in message
        assert "its content is that of fashion-mnist: ask for fashion-mnist" in message


def touch_all(folder: Path, suffix: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILE_NAMES:
        (folder / f"{name}{suffix}").touch()
    return folder


@pytest.mark.parametrize("data_set", LARGE)
def test_first_complete_layout_wins(tmp_path: Path, data_set: DataSet) -> None:
    assert find_files(data_set, folder=tmp_path) is None
    flat = touch_all(tmp_path, ".gz")
    assert find_files(data_set, folder=tmp_path) == {n: flat / f"{n}.gz" for n in FILE_NAMES}
    debian = touch_all(tmp_path / data_set)
    assert find_files(data_set, folder=tmp_path) == {n: debian / n for n in FILE_NAMES}
    torchvision = touch_all(tmp_path / TORCHVISION_FOLDERS[data_set])
    assert find_files(data_set, folder=tmp_path) == {n: torchvision / n for n in FILE_NAMES}
    (torchvision / TRAIN_LABELS).unlink()
    assert find_files(data_set, folder=tmp_path) == {n: debian / n for n in FILE_NAMES}


@pytest.mark.parametrize("name", FILE_NAMES)
@pytest.mark.parametrize("inside", ["MNIST/raw", "mnist", "."])
def test_a_missing_file_is_named(tmp_path: Path, inside: str, name: str) -> None:
    folder = touch_all(tmp_path / inside)
    (folder / name).unlink()
    message = refusal(DataSet.MNIST, tmp_path)
    assert f"{folder} must hold all four files of mnist, but {name} is missing" in message


def test_a_folder_named_like_a_file_does_not_count(tmp_path: Path) -> None:
    folder = touch_all(tmp_path / "mnist")
    (folder / TRAIN_LABELS).unlink()
    (folder / TRAIN_LABELS).mkdir()
    assert f"{TRAIN_LABELS} is missing" in refusal(DataSet.MNIST, tmp_path)


# Content -------------------------------------------------------------------------------------


def test_refuses_images_of_another_side(tmp_path: Path) -> None:
    synthetic(tmp_path / "mnist", train_images=np.zeros((60, 32, 32)))
    message = refusal(DataSet.MNIST, tmp_path)
    assert f"{tmp_path / 'mnist' / TRAIN_IMAGES} must hold images of 28 x 28 pixels" in message
    assert "(60, 32, 32)" in message


def test_refuses_labels_that_do_not_match(tmp_path: Path) -> None:
    synthetic(tmp_path / "mnist", train_labels=np.zeros(59_999))
    message = refusal(DataSet.MNIST, tmp_path)
    assert f"{tmp_path / 'mnist' / TRAIN_LABELS} must hold one label for each" in message
    assert "60,000 images in train-images-idx3-ubyte" in message
    assert "(59999,)" in message


def test_refuses_a_short_set(tmp_path: Path) -> None:
    folder = tmp_path / "fashion-mnist"
    synthetic(folder, train_images=np.zeros((500, 28, 28)), train_labels=np.zeros(500))
    message = refusal(DataSet.FASHION_MNIST, tmp_path)
    assert "must hold the 60,000 images of fashion-mnist, but it holds 500" in message


def test_refuses_labels_beyond_nine(tmp_path: Path) -> None:
    synthetic(tmp_path / "mnist", train_labels=np.full(60_000, 10))
    message = refusal(DataSet.MNIST, tmp_path)
    assert f"{tmp_path / 'mnist' / TRAIN_LABELS} must hold labels from 0 to 9" in message
    assert "it holds 10" in message


@pytest.mark.parametrize("inside", ["mnist", "flat"])
def test_refuses_other_content_of_the_right_sizes(tmp_path: Path, inside: str) -> None:
    folder = synthetic(tmp_path / inside)
    message = refusal(DataSet.MNIST, tmp_path if inside == "mnist" else folder)
    assert f"{folder / TRAIN_IMAGES} must hold what was published as mnist" in message
    assert "SHA-256 ba891046e650..." in message


@needs_data
def test_refuses_one_changed_pixel(tmp_path: Path) -> None:
    folder = place(tmp_path / "mnist", real_files(DataSet.MNIST), gzipped=False)
    with (folder / TRAIN_IMAGES).open("r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte[0] ^ 1]))
    message = refusal(DataSet.MNIST, tmp_path)
    assert f"{folder / TRAIN_IMAGES} must hold what was published as mnist" in message


@needs_data
def test_refuses_a_truncated_file(tmp_path: Path) -> None:
    files = real_files(DataSet.MNIST)
    folder = place(tmp_path / "mnist", files)
    (folder / f"{TRAIN_IMAGES}.gz").unlink()
    (folder / f"{TRAIN_IMAGES}.gz").write_bytes(files[TRAIN_IMAGES].read_bytes()[:500_000])
    message = refusal(DataSet.MNIST, tmp_path)
    assert f"{folder / TRAIN_IMAGES}.gz must be a whole gzip file" in message


# Folders -------------------------------------------------------------------------------------


def test_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/cache")
    assert data_sets.default_folder() == Path("/var/tmp/cache/fastrcaps-search")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_sets.default_folder() == Path("/home/somebody/.cache/fastrcaps-search")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_sets.default_folder() == Path("/home/somebody/.cache/fastrcaps-search")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert f"must be under {path}, but they are not" in refusal(DataSet.MNIST, path)


# Download ------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Serves the real files as torchvision's mirrors do, and remembers what was asked of it."""

    asked: list[str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep the output of the tests clean."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = place(tmp_path / "served", real_files(DataSet.MNIST))
    server = Server(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    server.asked = []
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def resources() -> list[tuple[str, str]]:
    """Return torchvision's list of files, with the MD5 sums of these copies of them."""
    return [
        (f"{name}.gz", hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())
        for name, path in real_files(DataSet.MNIST).items()
    ]


DOWNLOADING = """
import json, sys
from pathlib import Path
import torchvision
from fastrcaps_search.definition.choices import DataSet
from fastrcaps_search.training.data_sets import load_images

mirror, resources, folder = json.loads(sys.argv[1])
torchvision.datasets.MNIST.mirrors = [mirror]
torchvision.datasets.MNIST.resources = resources
print("ready", flush=True)
sys.stdin.readline()
print(load_images(DataSet.MNIST, folder=Path(folder)).test_labels[:5].tolist(), flush=True)
"""


def started(server: Server, folder: Path) -> subprocess.Popen[str]:
    """Start a process that is about to download."""
    message = json.dumps([server.address, resources(), str(folder)])
    return subprocess.Popen(
        [sys.executable, "-c", DOWNLOADING, message],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "no_proxy": "*", "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@needs_data
def test_two_processes_download_once(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # The other process imports torchvision while this one does.
    other = started(server, tmp_path / "two")
    import torchvision

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [server.address])
    monkeypatch.setattr(torchvision.datasets.MNIST, "resources", resources())

    # One process alone, which also shows what one download asks for.
    alone = tmp_path / "a" / "new folder"
    # What a killed download leaves must neither be taken for data nor stand in the way.
    touch_all(alone / ".mnist.arriving" / "MNIST" / "raw", ".gz")
    images = load_images(DataSet.MNIST, folder=alone)
    assert images.test_labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert sorted(path.name for path in (alone / "MNIST/raw").iterdir()) == sorted(FILE_NAMES)
    assert sorted(path.name for path in alone.iterdir()) == [".mnist.lock", "MNIST"]
    assert socket.getdefaulttimeout() is None
    assert capfd.readouterr() == ("", "")
    asked_alone = Counter(server.asked)
    assert set(asked_alone) == {f"/{name}.gz" for name in FILE_NAMES}
    server.asked.clear()
    load_images(DataSet.MNIST, folder=alone)
    assert server.asked == []

    with other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("\n")
        other.stdin.flush()
        images = load_images(DataSet.MNIST, folder=tmp_path / "two")
        assert images.test_labels[:5].tolist() == [7, 2, 1, 0, 4]
        assert other.communicate(timeout=60) == ("[7, 2, 1, 0, 4]\n", "")
    assert Counter(server.asked) == asked_alone


@needs_data
def test_a_download_with_a_wrong_checksum_leaves_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torchvision

    wrong = [(name, "0" * 32) for name, _ in resources()]
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [server.address])
    monkeypatch.setattr(torchvision.datasets.MNIST, "resources", wrong)
    message = refusal(DataSet.MNIST, tmp_path / "data")
    assert "the download failed" in message
    assert "corrupted" in message
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".mnist.lock"]


@pytest.mark.parametrize("named", [True, False])
def test_without_a_network_the_error_says_what_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    import torchvision

    # A port that was free a moment ago refuses at once, as an unreachable network does.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(
        torchvision.datasets.FashionMNIST, "mirrors", [f"http://127.0.0.1:{port}/"]
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data" if named else tmp_path / "cache" / "fastrcaps-search"
    message = refusal(DataSet.FASHION_MNIST, folder if named else None)
    assert f"must be under {folder}" in message
    assert "Connection refused" in message
    assert f"into {folder / 'fashion-mnist'}" in message
    for name in FILE_NAMES:
        assert f"{name}.gz" in message
    for word in ("--data-dir", "FASTRCAPS_DATA", "mnist-mini"):
        assert word in message
    assert [path.name for path in folder.iterdir()] == [".fashion-mnist.lock"]


def test_lock_keeps_another_process_out(tmp_path: Path) -> None:
    code = (
        "import fcntl, sys\n"
        "try: fcntl.flock(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError: print('locked')\n"
        "else: print('free')\n"
    )
    asking = [sys.executable, "-c", code, str(tmp_path / "new" / ".mnist.lock")]
    with download_lock(DataSet.MNIST, folder=tmp_path / "new"):
        held = subprocess.run(asking, capture_output=True, text=True, check=True)
    after = subprocess.run(asking, capture_output=True, text=True, check=True)
    assert (held.stdout, after.stdout) == ("locked\n", "free\n")


@pytest.mark.parametrize("data_set", list(DataSet))
def test_the_largest_class_of_each_split_is_as_large_as_is_known(data_set: DataSet) -> None:
    folder = None
    if data_set is not DataSet.MNIST_MINI:
        if REAL is None:
            pytest.skip("FASTRCAPS_DATA does not name the folder of the real data")
        folder = Path(REAL)
    images = load_images(data_set, folder=folder)
    held_out = data_facts.validation_size(data_set)
    for labels, is_test in ((images.train_labels[-held_out:], False), (images.test_labels, True)):
        counts = Counter(int(label) for label in labels)
        assert max(counts.values()) == data_facts.most_frequent(data_set, test=is_test)
