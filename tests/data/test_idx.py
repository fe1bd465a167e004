"""The three layouts, what each check refuses, and the download."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastrcaps_search.data.data_set import DataSet, default_folder
from fastrcaps_search.data.idx import FILE_NAMES, IdxDataSet
from fastrcaps_search.data.shipped import FASHION_MNIST, MNIST, MNIST_MINI
from fastrcaps_search.errors import DataError

Cli = Callable[..., subprocess.CompletedProcess[str]]

REAL = os.environ.get("FASTRCAPS_DATA")
needs_data = pytest.mark.skipif(
    REAL is None, reason="FASTRCAPS_DATA does not name the folder of the real data"
)
TRAIN_IMAGES, TRAIN_LABELS, _, TEST_LABELS = FILE_NAMES
TORCHVISION_FOLDERS = {"mnist": "MNIST/raw", "fashion-mnist": "FashionMNIST/raw"}
by_set = pytest.mark.parametrize("data_set", [MNIST, FASHION_MNIST], ids=str)


def real_files(data_set: IdxDataSet) -> dict[str, Path]:
    assert REAL is not None
    return dict(zip(FILE_NAMES, data_set.find(Path(REAL)), strict=True))


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


def synthetic(folder: Path) -> Path:
    """Write a set of the right sizes, all zero; return its folder."""
    sizes = (60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)
    folder.mkdir(parents=True)
    for name, shape in zip(FILE_NAMES, sizes, strict=True):
        (folder / name).write_bytes(idx(np.zeros(shape)))
    return folder


def refusal(data_set: DataSet, folder: Path | None) -> str:
    with pytest.raises(DataError) as caught:
        data_set.load(folder=folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Layouts -------------------------------------------------------------------------------------


@needs_data
@by_set
def test_loads_the_real_set(data_set: IdxDataSet) -> None:
    assert REAL is not None
    images = data_set.load(folder=Path(REAL))
    files = real_files(data_set)
    assert images.train_images.shape == (60_000, 28, 28)
    assert images.test_images.shape == (10_000, 28, 28)
    assert images.train_images.tobytes() == plain(files[TRAIN_IMAGES])[16:]
    assert images.test_labels.tobytes() == plain(files[TEST_LABELS])[8:]
    assert images.train_labels.dtype == images.train_images.dtype == np.uint8
    # torch warns about arrays that cannot be written.
    assert all(part.flags.writeable for part in images)
    # Published facts: the first labels, and how many of each class the training sets hold.
    first = [5, 0, 4, 1, 9] if data_set is MNIST else [9, 0, 0, 3, 0]
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert images.train_labels[:5].tolist() == first
    expected = counts if data_set is MNIST else [6_000] * 10
    assert np.bincount(images.train_labels).tolist() == expected


@needs_data
@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize("layout", ["torchvision", "debian", "flat"])
def test_finds_each_layout(tmp_path: Path, layout: str, gzipped: bool) -> None:
    data_set = MNIST
    inside = {"torchvision": "MNIST/raw", "debian": "mnist", "flat": "."}[layout]
    folder = place(tmp_path / inside, real_files(data_set), gzipped=gzipped)
    # Where the set is too, other images are nobody's business.
    (tmp_path / "cat.jpg").touch()
    data_set.look(tmp_path)
    assert data_set.place(tmp_path) == str(folder)
    images = data_set.load(folder=tmp_path)
    assert images.test_labels[:5].tolist() == [7, 2, 1, 0, 4]


@needs_data
def test_flat_and_named_folders_of_the_other_set_are_told_apart(tmp_path: Path) -> None:
    fashion = real_files(FASHION_MNIST)
    for folder in (tmp_path / "flat", tmp_path / "named"):
        inside = folder if folder.name == "flat" else folder / "mnist"
        place(inside, fashion)
        assert FASHION_MNIST.place(inside) == str(inside)
        FASHION_MNIST.look(inside)
        early = (
            f"{inside / TEST_LABELS}.gz must be a file of mnist, but its content is that of "
            f"fashion-mnist: ask for fashion-mnist, or put the files of mnist into a folder named "
            "mnist"
        )
        assert MNIST.place(folder) == early
        with pytest.raises(DataError, match=re.escape(early)):
            MNIST.look(folder)
        message = refusal(MNIST, folder)
        assert f"{inside / TRAIN_IMAGES}.gz must be a file of mnist" in message
        assert "its content is that of fashion-mnist: ask for fashion-mnist" in message


def touch_all(folder: Path, suffix: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILE_NAMES:
        (folder / f"{name}{suffix}").touch()
    return folder


@by_set
def test_first_complete_layout_wins(tmp_path: Path, data_set: IdxDataSet) -> None:
    def found() -> set[Path]:
        files = data_set.find(tmp_path)
        assert tuple(path.name.removesuffix(".gz") for path in files) in ((), FILE_NAMES)
        return {path.parent for path in files}

    assert found() == set()
    flat = touch_all(tmp_path, ".gz")
    assert found() == {flat}
    debian = touch_all(tmp_path / str(data_set))
    assert found() == {debian}
    torchvision = touch_all(tmp_path / TORCHVISION_FOLDERS[str(data_set)])
    assert found() == {torchvision}
    (torchvision / TRAIN_LABELS).unlink()
    assert found() == {debian}


@pytest.mark.parametrize(
    ("data_set", "inside"),
    [
        (MNIST, "raw"),
        (MNIST, "MNIST"),
        (MNIST, "mnist/raw"),
        # What a download into torchvision's own folder has left.
        (MNIST, "MNIST/MNIST/raw"),
        (FASHION_MNIST, "fashion_mnist"),
        (FASHION_MNIST, "Fashion-MNIST/raw"),
        (FASHION_MNIST, "fashionmnist/FashionMNIST/raw"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_other_layouts_are_found_too(
    tmp_path: Path, data_set: IdxDataSet, inside: str, suffix: str
) -> None:
    folder = touch_all(tmp_path / inside, suffix)
    assert {path.parent for path in data_set.find(tmp_path)} == {folder}
    assert f"{folder / TEST_LABELS}{suffix} must hold what was" in data_set.place(tmp_path)
    # Not for the other set.
    other = MNIST if data_set is FASHION_MNIST else FASHION_MNIST
    assert bool(other.find(tmp_path)) == (inside == "raw")


@pytest.mark.parametrize("name", ["{}", "{}.gz", "{}/{}"])
def test_names_with_a_dot_are_found_too(tmp_path: Path, name: str) -> None:
    for one in FILE_NAMES:
        dotted = one.replace("-idx", ".idx")
        path = tmp_path / name.format(dotted, dotted)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert [path.name.removesuffix(".gz") for path in MNIST.find(tmp_path)] == [
        "train-images.idx3-ubyte",
        "train-labels.idx1-ubyte",
        "t10k-images.idx3-ubyte",
        "t10k-labels.idx1-ubyte",
    ]


@pytest.mark.parametrize("photo", ["cat.JPG", "0/a.png", "train/cats/1.tiff"])
def test_nothing_is_downloaded_beside_other_images(tmp_path: Path, photo: str) -> None:
    path = tmp_path / photo
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    before = sorted(tmp_path.rglob("*"))
    message = refusal(MNIST, tmp_path)
    assert f"must be under {tmp_path}, but it holds others, as {path}, and nothing" in message
    for word in ("or an empty one to download into", "--data-dir", "FASTRCAPS_DATA", "plug-in"):
        assert word in message
    assert sorted(tmp_path.rglob("*")) == before
    assert MNIST.place(tmp_path) == message
    # Where the set is too, the others are nobody's business.
    touch_all(tmp_path / "MNIST" / "raw")
    assert len(MNIST.find(tmp_path)) == 4


def test_a_run_looks_before_it_starts_anything(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('name = "a"\nnetwork = "lenet5"\ndata_set = "mnist"\n')
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "train-images.idx3-ubyte").touch()
    # Nothing can be started: what would measure and train is not even asked for.
    for folder, said in (("photos", "it holds others, as"), ("part", f"{TRAIN_LABELS}, t10k")):
        done = cli(
            *("run", "--study", "a.toml", "--trials", "1", "--data-dir", folder),
            FASTRCAPS_RUNTIME_DIR=str(tmp_path / "no" / "such" / "folder"),
        )
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert said in done.stderr
        assert str(tmp_path / folder) in done.stderr
        assert done.stdout == ""
    assert not list((tmp_path / "no" / "such" / "folder").iterdir())
    assert not (tmp_path / "fastrcaps-files").exists()


@pytest.mark.parametrize("name", FILE_NAMES)
@pytest.mark.parametrize("inside", ["MNIST/raw", "mnist", "."])
def test_a_missing_file_is_named(tmp_path: Path, inside: str, name: str) -> None:
    folder = touch_all(tmp_path / inside)
    (folder / name).unlink()
    message = refusal(MNIST, tmp_path)
    assert f"{folder} must hold all four files of mnist, but {name} is missing" in message


def test_a_folder_named_like_a_file_does_not_count(tmp_path: Path) -> None:
    folder = touch_all(tmp_path / "mnist")
    (folder / TRAIN_LABELS).unlink()
    (folder / TRAIN_LABELS).mkdir()
    assert f"{TRAIN_LABELS} is missing" in refusal(MNIST, tmp_path)


# Content -------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["mnist", "flat"])
def test_refuses_other_content_of_the_right_sizes(tmp_path: Path, inside: str) -> None:
    folder = synthetic(tmp_path / inside)
    message = refusal(MNIST, tmp_path if inside == "mnist" else folder)
    assert f"{folder / TRAIN_IMAGES} must hold what was published as mnist" in message
    zeros = hashlib.sha256(idx(np.zeros((60_000, 28, 28)))).hexdigest()
    assert f"{zeros[:12]}..." in message


@needs_data
def test_refuses_one_changed_pixel(tmp_path: Path) -> None:
    folder = place(tmp_path / "mnist", real_files(MNIST), gzipped=False)
    with (folder / TRAIN_IMAGES).open("r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte[0] ^ 1]))
    message = refusal(MNIST, tmp_path)
    assert f"{folder / TRAIN_IMAGES} must hold what was published as mnist" in message


def small(folder: Path) -> IdxDataSet:
    """Write two and one images with their labels; return a set that knows their checksums."""
    arrays = (
        np.arange(2 * 784).reshape(2, 28, 28) % 251,
        np.array([7, 2]),
        np.arange(784).reshape(1, 28, 28) % 241,
        np.array([9]),
    )
    folder.mkdir()
    contents = [idx(values) for values in arrays]
    for name, content in zip(FILE_NAMES, contents, strict=True):
        (folder / name).write_bytes(content)
    one, two, three, four = (hashlib.sha256(content).hexdigest() for content in contents)
    return IdxDataSet(
        name="small",
        class_names=tuple("0123456789"),
        train_size=2,
        validation_size=1,
        test_size=1,
        most_frequent=(1, 1),
        checksums=(one, two, three, four),
        own_folder=folder,
    )


@pytest.mark.parametrize("name", [TRAIN_IMAGES, f"{TRAIN_IMAGES}.gz"])
@pytest.mark.parametrize("members", [0, 1, 2])
def test_reads_values_in_order_gzipped_or_not_whatever_the_name(
    tmp_path: Path, name: str, members: int
) -> None:
    data_set = small(tmp_path / "small")
    content = (tmp_path / "small" / TRAIN_IMAGES).read_bytes()
    (tmp_path / "small" / TRAIN_IMAGES).unlink()
    parts = {0: [content], 1: [gzip.compress(content)]}.get(
        members, [gzip.compress(content[:9]), gzip.compress(content[9:])]
    )
    (tmp_path / "small" / name).write_bytes(b"".join(parts))
    images = data_set.load(folder=None)
    assert images.train_images[1, 27].tolist() == [i % 251 for i in range(1540, 1568)]
    assert images.train_labels.tolist() == [7, 2]
    assert images.test_labels.tolist() == [9]


def test_names_a_file_that_is_not_whole(tmp_path: Path) -> None:
    data_set = small(tmp_path / "small")
    file = tmp_path / "small" / TRAIN_IMAGES
    plain = file.read_bytes()
    whole = gzip.compress(plain)
    damaged = "must be a whole file that can be read"
    another = "must hold what was published as small, but its content is not whole"
    for content, expected in {
        b"": another,
        plain[:4]: another,
        plain[:9]: another,
        plain[:-1]: another,
        plain + b"0": another,
        b"PK\x03\x04" + plain: another,
        whole[:-12]: damaged,
        whole[:-3]: damaged,
        whole[:2]: damaged,
        whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]: damaged,
        whole[:40] + bytes([whole[40] ^ 0xFF]) + whole[41:]: damaged,
        whole + b"rubbish": damaged,
        gzip.compress(plain[:-1]): another,
    }.items():
        file.write_bytes(content)
        message = refusal(data_set, None)
        assert f"{file} {expected}" in message, content[:20]
        assert message.endswith("replace it with a fresh copy")


def test_own_images_in_idx_files_are_no_damaged_copy(tmp_path: Path) -> None:
    data_set = small(tmp_path / "small")
    file = tmp_path / "small" / TRAIN_IMAGES
    for content in (idx(np.zeros((7, 28, 28))), gzip.compress(idx(np.zeros((7, 28, 28))))):
        file.write_bytes(content)
        message = refusal(data_set, None)
        assert "published as small, but its content is another [7, 28, 28] (SHA-256 of" in message
        assert "replace it with a fresh copy if it is meant to be small; images of your" in message
        assert message.endswith("own are read by a plug-in (docs/where-files-go.md)")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_names_an_unreadable_file(tmp_path: Path) -> None:
    data_set = small(tmp_path / "small")
    (tmp_path / "small" / TRAIN_IMAGES).chmod(0)
    assert f"{TRAIN_IMAGES} must be a whole file that can be read" in refusal(data_set, None)


def test_a_set_that_torchvision_does_not_have_is_not_downloaded(tmp_path: Path) -> None:
    data_set = small(tmp_path / "small")
    for name in FILE_NAMES:
        (tmp_path / "small" / name).unlink()
    message = refusal(data_set, None)
    assert f"must be under {tmp_path / 'small'}, but they are not" in message
    assert "torchvision has no such data set" in message
    assert list((tmp_path / "small").iterdir()) == []


# Folders -------------------------------------------------------------------------------------


def test_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/cache")
    assert default_folder() == Path("/var/tmp/cache/fastrcaps-search")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path("/home/somebody/.cache/fastrcaps-search")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path("/home/somebody/.cache/fastrcaps-search")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert f"must be under {path}, but they are not" in refusal(MNIST, path)


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
    folder = place(tmp_path / "served", real_files(MNIST))
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
        for name, path in real_files(MNIST).items()
    ]


DOWNLOADING = """
import json, sys
from pathlib import Path
import torchvision
from fastrcaps_search.data.data_set import DataSet
from fastrcaps_search.data.shipped import FASHION_MNIST, MNIST, MNIST_MINI

mirror, resources, folder = json.loads(sys.argv[1])
torchvision.datasets.MNIST.mirrors = [mirror]
torchvision.datasets.MNIST.resources = resources
print("ready", flush=True)
sys.stdin.readline()
print(MNIST.load(folder=Path(folder)).test_labels[:5].tolist(), flush=True)
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
    touch_all(alone / ".MNIST.arriving" / "MNIST" / "raw", ".gz")
    images = MNIST.load(folder=alone)
    assert images.test_labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert sorted(path.name for path in (alone / "MNIST/raw").iterdir()) == sorted(FILE_NAMES)
    assert sorted(path.name for path in alone.iterdir()) == [".mnist.lock", "MNIST"]
    assert socket.getdefaulttimeout() is None
    assert capfd.readouterr() == ("", "")
    asked_alone = Counter(server.asked)
    assert set(asked_alone) == {f"/{name}.gz" for name in FILE_NAMES}
    server.asked.clear()
    MNIST.load(folder=alone)
    assert server.asked == []

    with other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("\n")
        other.stdin.flush()
        images = MNIST.load(folder=tmp_path / "two")
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
    message = refusal(MNIST, tmp_path / "data")
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
    message = refusal(FASHION_MNIST, folder if named else None)
    assert f"must be under {folder}" in message
    assert "Connection refused" in message
    assert f"into {folder / 'fashion-mnist'}" in message
    for name in FILE_NAMES:
        assert f"{name}.gz" in message
    for word in ("--data-dir", "FASTRCAPS_DATA", "mnist-mini"):
        assert word in message
    assert [path.name for path in folder.iterdir()] == [".fashion-mnist.lock"]


@pytest.mark.parametrize("data_set", [MNIST, FASHION_MNIST, MNIST_MINI], ids=str)
def test_classes_and_shades_are_as_is_known(data_set: DataSet) -> None:
    folder = None
    if data_set is not MNIST_MINI:
        if REAL is None:
            pytest.skip("FASTRCAPS_DATA does not name the folder of the real data")
        folder = Path(REAL)
    images = data_set.load(folder=folder)
    held_out = data_set.validation_size
    for labels, is_test in ((images.train_labels[-held_out:], False), (images.test_labels, True)):
        counts = Counter(int(label) for label in labels)
        assert max(counts.values()) == data_set.most_frequent[is_test]
    pixels = images.train_images / np.float64(255)
    edge = np.ones((28, 28), dtype=bool)
    edge[1:27, 1:27] = False
    found = (pixels.mean(), pixels.std(), pixels[:, edge].mean())
    assert data_set.shades == pytest.approx(found, abs=5e-5)
