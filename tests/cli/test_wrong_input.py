"""Every wrong input: one line on standard error, the right exit code, nothing written."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fastrcaps_search.training.resources import granted_cores
from tests.triples import values_of

Cli = Callable[..., subprocess.CompletedProcess[str]]

TINY = """
name = "tiny"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
boundaries = [1]
train_images = 64
[space]
lr_policy = ["fixed", "one_cycle"]
batch_policy = ["constant"]
"""
STORED = 'name = "tiny"\nnetwork = "lenet5"\n'
"""The study that ``store_study`` stores."""


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line that a refusal prints, without the program's name."""
    assert done.returncode == code, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("fastrcaps-search: ")
    return lines[0].removeprefix("fastrcaps-search: ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("train",), "argument COMMAND: invalid choice: 'train'"),
        (("run",), "the following arguments are required: --study"),
        (("run", "--study", "mnist-mini"), "--trials must be given to begin a search"),
        (
            ("run", "--study", "mnist-mini", "--trials", "0"),
            "argument --trials: must be a whole number from 1 to 1000000, got '0'",
        ),
        (
            ("run", "--study", "mnist-mini", "--trials", "many"),
            "argument --trials: must be a whole number from 1 to 1000000, got 'many'",
        ),
        (
            ("run", "--study", "mnist-mini", "--trials", "2", "--workers", "-1"),
            "argument --workers: must be auto or a whole number from 0 to 1024, got '-1'",
        ),
        (
            ("run", "--study", "mnist-mini", "--trials", "2", "--threads", "0"),
            "argument --threads: must be a whole number from 1 to 1024, got '0'",
        ),
        (
            ("run", "--study", "mnist-mini", "--trials", "2", "--threads", "1024"),
            f"threads must be at most the cores that this command may use, {granted_cores().words}"
            ", got 1024; use fewer threads",
        ),
        (
            ("run", "--study", "mnist-mini", "--trials", "2", "--workers-per-device", "0"),
            "argument --workers-per-device: must be a whole number from 1 to 1024, got '0'",
        ),
        (
            (
                *("run", "--study", "mnist-mini", "--trials", "2"),
                *("--workers", "2", "--workers-per-device", "3"),
            ),
            "workers must be given for the whole run or per device, got both (2 and 3); leave one",
        ),
        (
            ("run", "--study", "mnist-mini", "--trials", "2", "--device", "tpu"),
            "devices must be auto, cpu, cuda, or cards as in cuda:0,cuda:2; got 'tpu'",
        ),
        (
            ("run", "--study", "nosuch", "--trials", "2"),
            'study "nosuch" must be a study file or one of fashion-mnist, mnist, mnist-mini, '
            "paper-fashion-mnist, paper-lenet5, paper-mnist; got no such file, and it is not "
            "stored in ",
        ),
        (("status", "--study", "mnist"), "fastrcaps.db must be a database with a study"),
        (("report", "--study", "mnist"), "fastrcaps.db must be a database with a study"),
        (("studies", "nosuch.toml"), 'study "nosuch.toml" must be a study file or one of'),
        (
            ("run", "--study", "mnist", "--trials", "1", "--storage", "mysql://u:pw@h/d"),
            "storage must be a path, sqlite:///path or postgresql://user@host/database, "
            "got a mysql URL",
        ),
        (
            ("status", "--study", "mnist", "--storage", "postgresql://u:pw/1@h/d"),
            "storage must be postgresql://user@host:port/database, got a URL without a",
        ),
        (
            ("worker", "--study", "mnist", "--lease-seconds", "0"),
            "argument --lease-seconds: must be seconds from 1 to 86400, got '0'",
        ),
        (
            ("worker", "--study", "mnist", "--store-patience", "-5"),
            "argument --store-patience: must be seconds from 0 to 31536000, got '-5'",
        ),
        (
            ("run", "--study", "mnist", "--trials", "1", "--devices", "cuda:0,cpu"),
            "devices must be auto, cpu, cuda, or cards as in cuda:0,cuda:2; got 'cuda:0,cpu'",
        ),
        (
            ("run", "--study", "mnist", "--trials", "1", "--store", "postgresql://u:pw@h/d"),
            "unrecognized arguments: --store postgresql://***@h/d",
        ),
        (
            ("run", "--study", "mnist-mini", "--trials", "1" + "0" * 20),
            "argument --trials: must be a whole number from 1 to 1000000, got '1000",
        ),
    ],
)
def test_wrong_usage(call: Cli, tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    done = call(*arguments)
    assert line in refused(done, 2)
    assert "pw" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            'netwrok = "capsnet"',
            "w.toml: netwrok: unknown key; allowed are extends, name, network,",
        ),
        ('epochs = "many"', 'w.toml: epochs: must be a whole number from 1 to 10000, got "many"'),
        ("epochs = 0", "w.toml: epochs: must be a whole number from 1 to 10000, got 0"),
        ("epochs = true", "w.toml: epochs: must be a whole number from 1 to 10000, got true"),
        (
            'data_set = "cifar"',
            'w.toml: data_set: must be mnist, fashion-mnist or mnist-mini, got "cifar"',
        ),
        (
            "boundaries = [3, 2]",
            "w.toml: boundaries: must be one to three increasing epochs, got [3, 2]",
        ),
        ("lr_min = 0.1", "w.toml: lr_min: must be below lr_max (0.001), got 0.1"),
        ("[space]\ndecoder = []", "w.toml: space.decoder: must offer at least one choice, got []"),
        (
            "[space]\nadabatch_exponent = [3, 99]",
            "w.toml: space.adabatch_exponent: must be a whole number from 0 to 10, got 99",
        ),
        (
            'network = "lenet5"\n[space]\ndecoder = ["full"]',
            "w.toml: space.decoder: must be left out: lenet5 has no decoder",
        ),
        ("epochs = ", "w.toml: must be valid TOML:"),
    ],
)
def test_wrong_study_files(call: Cli, tmp_path: Path, change: str, line: str) -> None:
    (tmp_path / "w.toml").write_text(f'name = "w"\n{change}\n')
    assert refused(call("run", "--study", "w.toml", "--trials", "2"), 2).startswith(line)
    assert refused(call("studies", "w.toml"), 2).startswith(line)
    assert [path.name for path in tmp_path.iterdir()] == ["w.toml"]


def test_a_study_with_a_changed_space_is_refused_and_kept(
    cli: Cli, tmp_path: Path, store_study: Callable[..., None]
) -> None:
    store_study(tmp_path / "fastrcaps.db", [values_of(0.9, 10.0, 61_706.0)])
    before = cli("trials", "--study", "tiny", "--json").stdout
    (tmp_path / "tiny.toml").write_text(f'{STORED}[space]\nlr_policy = ["fixed"]\n')
    line = refused(cli("run", "--study", "tiny.toml", "--trials", "2"), 2)
    assert (
        'must be resumed as it was begun; space.lr_policy: stored ["fixed", "exponential_decay", '
        '"one_cycle", "warm_restarts", "warm_adabatch"], asked ["fixed"]; give the file another '
        "name, or choose another --storage"
    ) in line
    assert cli("trials", "--study", "tiny", "--json").stdout == before


def test_a_database_of_something_else_is_refused(cli: Cli, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "fastrcaps.db")
    connection.execute("create table recipes (name text)")
    connection.close()
    (tmp_path / "tiny.toml").write_text(TINY)
    line = refused(cli("run", "--study", "tiny.toml", "--trials", "1"), 2)
    assert (
        "must be a database of fastrcaps-search or Optuna, got one with the tables recipes" in line
    )
    line = refused(cli("status", "--study", "tiny"), 2)
    assert "got one with the tables recipes; begin one with `run`, or name another" in line
    sqlite3.connect(tmp_path / "empty.db").close()
    line = refused(cli("status", "--study", "tiny", "--storage", "empty.db"), 2)
    assert "must hold studies of fastrcaps-search, got an empty database; begin one with" in line


def test_a_file_that_is_no_database_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fastrcaps.db").write_text("a letter " * 200)
    for command in ("status", "trials", "front", "report"):
        line = refused(cli(command, "--study", "tiny"), 2)
        assert "must be an SQLite database, got: file is not a database" in line


def test_a_study_that_is_not_there_names_those_that_are(
    cli: Cli, tmp_path: Path, store_study: Callable[..., None]
) -> None:
    store_study(tmp_path / "fastrcaps.db", [None])
    line = refused(cli("front", "--study", "mnist"), 2)
    assert line.startswith('study "mnist" must be in ')
    assert line.endswith("it holds: tiny")


def test_a_data_folder_that_is_not_there_is_not_made(cli: Cli, tmp_path: Path) -> None:
    line = refused(cli("run", "--study", "mnist", "--trials", "1", "--data-dir", "nosuch"), 2)
    assert line.startswith("--data-dir must be a folder that exists, got nosuch, which is not")
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    line = refused(cli("run", "--study", "tiny.toml", "--trials", "1", "--device", "cuda:63"), 2)
    assert line.startswith("device cuda:63 must be on this machine, but it is not;")


@pytest.fixture
def real_mnist() -> Path:
    """Folder with the real IDX files."""
    folder = os.environ.get("FASTRCAPS_DATA")
    if not folder:
        pytest.skip("needs FASTRCAPS_DATA, a folder with real MNIST")
    return Path(folder) / "mnist"


# What else may be wrong with the files is tested in tests/training.
@pytest.mark.parametrize(
    "fault",
    [
        "truncated",
        pytest.param("labels of another set", marks=pytest.mark.endurance),
        pytest.param("missing", marks=pytest.mark.endurance),
    ],
)
def test_bad_data_stops_the_run_before_a_trial_begins(
    cli: Cli, tmp_path: Path, real_mnist: Path, fault: str
) -> None:
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for file in real_mnist.iterdir():
        (folder / file.name).symlink_to(file)
    images = folder / "train-images-idx3-ubyte.gz"
    labels = folder / "train-labels-idx1-ubyte.gz"
    if fault == "truncated":
        content = images.read_bytes()
        images.unlink()
        images.write_bytes(content[:100_000])
        named = images
    elif fault == "missing":
        labels.unlink()
        named = Path("train-labels-idx1-ubyte")
    else:
        labels.unlink()
        labels.symlink_to(real_mnist / "t10k-labels-idx1-ubyte.gz")
        named = labels
    (tmp_path / "t.toml").write_text(TINY.replace("mnist-mini", "mnist"))
    done = cli("run", "--study", "t.toml", "--trials", "1", "--data-dir", "data")
    assert str(named) in refused(done, 1)
    if fault == "missing":
        # Seen without reading, before the study is stored.
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "t.toml"]
    else:
        assert json.loads(cli("trials", "--study", "t.toml", "--json").stdout) == []


@pytest.fixture
def small_disk(mount_disk: Callable[[int], Path]) -> Path:
    """A file system of 3 MiB: full before a few trials are done."""
    return mount_disk(3)


# A disk that is full in mid-run is tested in tests/end_to_end too.
@pytest.mark.endurance
def test_a_full_disk_is_one_line_and_the_study_goes_on_later(
    cli: Cli, tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    patience = ("--store-patience", "1")
    line = ("run", "--study", "tiny.toml", "--trials", "2", "--storage", "small/a.db", *patience)
    filler = small_disk / "filler"
    assert cli(*line[:4], "1", *line[5:]).returncode == 0
    space = os.statvfs(small_disk)
    filler.write_bytes(bytes(space.f_bavail * space.f_frsize - 100_000))
    message = refused(cli(*line), 1)
    assert "small" in message
    assert "must have room" in message
    assert "(--store-patience)" in message
    filler.unlink()
    assert cli(*line).returncode == 0
    trials = json.loads(
        cli("trials", "--study", "tiny", "--storage", "small/a.db", "--json").stdout
    )
    assert [(trial["trial"], trial["state"]) for trial in trials] == [
        (0, "complete"),
        (1, "complete"),
    ]


def test_a_folder_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "file").write_text("")
    line = refused(
        cli("run", "--study", "tiny.toml", "--trials", "1", "--storage", "file/a.db"), 1
    )
    assert "file must be a folder that can be written" in line
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a read-only tmpfs")
    try:
        line = refused(
            cli("run", "--study", "tiny.toml", "--trials", "1", "--storage", "closed/a.db"), 1
        )
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    assert "closed must be a folder that can be written, got: Read-only file system" in line


def test_debug_adds_the_trace(cli: Cli) -> None:
    done = cli("status", "--study", "mnist", "--debug")
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("fastrcaps-search: ")


def test_a_read_only_database_can_be_looked_at(
    cli: Cli, tmp_path: Path, store_study: Callable[..., None]
) -> None:
    (tmp_path / "tiny.toml").write_text(STORED)
    folder = tmp_path / "closed"
    folder.mkdir()
    storage = ("--storage", "closed/a.db")
    store_study(folder / "a.db", [values_of(0.9, 10.0, 61_706.0)])
    before = cli("trials", "--study", "tiny", "--json", *storage).stdout
    bound = ["mount", "--bind", str(folder), str(folder)]
    if subprocess.run(bound, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a folder read-only")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        after = cli("trials", "--study", "tiny", "--json", *storage)
        report = cli("report", "--study", "tiny", *storage)
        more = cli("run", "--study", "tiny.toml", "--trials", "2", *storage)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    assert (after.returncode, after.stdout) == (0, before)
    assert report.stdout == "reports/tiny.html\n"
    assert "closed/a.db must be writable, and so must its folder" in refused(more, 1)
