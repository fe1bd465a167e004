"""``export`` and ``export_network``: which trial, which run, and a folder that is whole or not."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fastrcaps_search
from fastrcaps_search.data.shipped import MNIST_MINI
from fastrcaps_search.errors import CheckpointError, UsageError
from fastrcaps_search.store.records import Values
from tests.triples import values_of

if TYPE_CHECKING:
    from tests.trained import Trained

Cli = Callable[..., subprocess.CompletedProcess[str]]

WRITTEN = {"network.json", "weights.safetensors"}


@pytest.fixture
def export(call: Cli, trained: Trained) -> Cli:
    """Runs ``export`` on LeNet5's study."""

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return call("export", "--study", "small-lenet", "--storage", str(trained.file), *more)

    return run


@pytest.fixture
def copy(trained: Trained, tmp_path: Path) -> Trained:
    """A copy of the database and its files, to be spoilt."""
    shutil.copytree(trained.file.parent, tmp_path / "copy")
    return replace(trained, file=tmp_path / "copy" / trained.file.name)


def record(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "network.json").read_text()))


@pytest.mark.parametrize(
    "criteria", [(), ("--prefer", "time"), ("--prefer", "knee", "--max-seconds", "1000")]
)
def test_the_trial_is_the_one_that_select_picks(
    export: Cli, call: Cli, trained: Trained, tmp_path: Path, criteria: tuple[str, ...]
) -> None:
    picked = json.loads(
        call(
            *("select", "--study", "small-lenet", "--storage", str(trained.file), "--json"),
            *criteria,
        ).stdout
    )
    done = export("--out", "out/deep", *criteria)
    assert (done.returncode, done.stderr) == (0, "")
    folder = tmp_path / "out" / "deep"
    assert {path.name for path in folder.iterdir()} == WRITTEN
    assert record(folder)["trial"] == picked["trial"]
    first, second, *rest = done.stdout.splitlines()
    assert first.startswith(f"small-lenet: trial {picked['trial']}, {picked['why']}; run ")
    assert f"{100 * float(str(record(folder)['accuracy'])):.2f} % on the validation" in second
    sizes = sorted(
        f"wrote out/deep/{p.name} ({p.stat().st_size:,} bytes)" for p in folder.iterdir()
    )
    assert rest[:2] == sizes
    assert "fastrcaps-search evaluate out/deep" in done.stdout
    assert "fastrcaps_search.load_network('out/deep')" in done.stdout


@pytest.mark.parametrize("number", [0, 1])
def test_the_run_is_the_first_of_the_highest_accuracy(
    export: Cli, trained: Trained, tmp_path: Path, number: int
) -> None:
    assert export("--trial", str(number), "--out", "a").returncode == 0
    runs = trained.read("small-lenet")[1][number].runs
    accuracies = [run.accuracy or 0.0 for run in runs]
    best = accuracies.index(max(accuracies))
    found = record(tmp_path / "a")
    assert [found[key] for key in ("trial", "run", "seed", "accuracy")] == [
        *(number, best, 3 + best, accuracies[best])
    ]


def test_another_run_can_be_named(export: Cli, trained: Trained, tmp_path: Path) -> None:
    (one, other) = trained.read("small-lenet")[1][0].runs
    for run in (one, other):
        assert (
            export("--trial", "0", "--run", str(run.run), "--out", f"r{run.run}").returncode == 0
        )
        found = record(tmp_path / f"r{run.run}")
        assert (found["run"], found["seed"], found["accuracy"]) == (
            run.run,
            run.seed,
            run.accuracy,
        )
        assert found["test_accuracy"] == run.test_accuracy
    weights = [(tmp_path / f"r{n}" / "weights.safetensors").read_bytes() for n in (0, 1)]
    assert weights[0] != weights[1]


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--trial", "0", "--prefer", "accuracy"), 2, "--trial must be left out with"),
        (("--trial", "0", "--min-accuracy", "10%"), 2, "--trial must be left out with"),
        (("--trial", "7"), 2, "--trial must be one of the 2 trials of small-lenet, got 7"),
        (
            ("--trial", "1", "--run", "2"),
            2,
            "--run must be a run of trial 1 whose network is kept (0, 1)",
        ),
        (("--max-parameters", "5"), 3, "the trial must have at most 5 parameters, but "),
        (("--trial", "-1"), 2, "--trial"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_a_line(
    export: Cli, tmp_path: Path, flags: tuple[str, ...], code: int, message: str
) -> None:
    done = export("--out", "a", *flags)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_a_failed_trial_is_refused_with_its_reason(
    call: Cli, store_study: Callable[[Path, list[Values | None]], None], tmp_path: Path
) -> None:
    store_study(tmp_path / "b.db", [values_of(0.9, 1.0, 10), None])
    flags = ("export", "--study", "tiny", "--storage", "b.db", "--out", "a", "--trial")
    failed = call(*flags, "1")
    assert failed.returncode == 2
    assert "got trial 1, which is failed (diverged at epoch 2)" in failed.stderr
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        connection.execute("update fastrcaps_runs set removed = 1")
        connection.commit()
    assert "trial must be one whose network is kept (none), got 0" in call(*flags, "0").stderr
    assert not (tmp_path / "a").exists()


def test_weights_that_are_no_longer_kept_or_damaged(copy: Trained, tmp_path: Path) -> None:
    files = sorted((tmp_path / "copy").glob("*-files/small-lenet-*/trial-0001/run-*/*"))
    assert len(files) == 2
    files[0].write_bytes(b"damaged")
    files[1].unlink()
    for run, said in ((0, "must be a checkpoint"), (1, "No such file or directory")):
        message = rf"weights of trial 1, run {run} must be here, but .*{said}.*--files names"
        with pytest.raises(CheckpointError, match=message):
            fastrcaps_search.export_network(
                *("small-lenet", tmp_path / "a"), trial=1, run=run, storage=str(copy.file)
            )
    assert not (tmp_path / "a").exists()


def test_the_best_run_whose_network_is_here_is_taken(
    copy: Trained, trained: Trained, tmp_path: Path
) -> None:
    runs = trained.read("small-lenet")[1][1].runs
    best = max(runs, key=lambda run: (run.accuracy or 0.0, -run.run))
    other = next(run for run in runs if run is not best)
    files = (tmp_path / "copy").glob(f"*-files/small-lenet-*/trial-0001/run-{best.run}/*")
    for path in files:
        path.unlink()
    fastrcaps_search.export_network("small-lenet", tmp_path / "a", trial=1, storage=str(copy.file))
    assert record(tmp_path / "a")["run"] == other.run
    # A network that was removed on purpose is not looked for.
    with closing(sqlite3.connect(copy.file)) as connection:
        connection.execute("update fastrcaps_runs set removed = 1 where run = ?", (other.run,))
        connection.commit()
    with pytest.raises(CheckpointError, match=f"run {best.run} must be here"):
        fastrcaps_search.export_network(
            "small-lenet", tmp_path / "b", trial=1, storage=str(copy.file)
        )


def test_the_working_directory_is_not_swapped_away(export: Cli, tmp_path: Path) -> None:
    done = export("--out", ".")
    assert done.returncode == 2
    assert "got ., which is the working directory; name another" in done.stderr


def test_the_accuracy_is_that_of_the_run_and_the_mean_is_said(
    export: Cli, trained: Trained
) -> None:
    trial = trained.read("small-lenet")[1][1]
    assert trial.values is not None
    done = export("--out", "a", "--trial", "1")
    mean = f"the mean of the trial's 2 runs is {100 * trial.values.accuracy:.2f} %"
    assert mean in done.stdout


def test_the_files_can_be_elsewhere(copy: Trained, tmp_path: Path) -> None:
    (folder,) = (tmp_path / "copy").glob("*-files")
    folder.rename(tmp_path / "moved")
    found = fastrcaps_search.export_network(
        *("small-lenet", tmp_path / "a"), storage=str(copy.file), files=tmp_path / "moved"
    )
    assert fastrcaps_search.load_network(found).card.definition.name == "small-lenet"


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_place_in_use_is_refused_and_left_as_it_is(
    export: Cli, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "a"
    if kind == "folder":
        place.mkdir()
        (place / "mine").write_text("mine")
    elif kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / "nowhere")
    done = export("--out", "a")
    assert done.returncode == 2
    assert "--out must be a new or an empty folder, got a, which is a f" in done.stderr
    kept = place / "mine" if kind == "folder" else place
    assert place.is_symlink() if kind == "link" else kept.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_empty_folder_is_filled(export: Cli, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert export("--out", "a").returncode == 0
    assert {path.name for path in (tmp_path / "a").iterdir()} == WRITTEN
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_nothing(
    trained: Trained, call: Cli, mount_disk: Callable[[int], Path]
) -> None:
    disk = mount_disk(1)
    # LeNet5 takes a quarter of a megabyte, the capsule network seven.
    flags = ("--storage", str(trained.file), "--out", str(disk / "new" / "a"))
    done = call("export", "--study", "small-capsnet", *flags)
    assert done.returncode == 1
    assert "the network must be writable at" in done.stderr
    assert "No space left on device; free space there or name another path" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(disk.iterdir()) == []
    assert call("export", "--study", "small-lenet", *flags).returncode == 0


needs_onnx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")),
    reason="needs onnx, onnxscript and onnxruntime: pip install 'fastrcaps-search[onnx]'",
)


@needs_onnx
@pytest.mark.parametrize("name", ["small-lenet", "small-capsnet"])
def test_the_onnx_file_gives_the_classes_of_predict(
    trained: Trained, tmp_path: Path, name: str
) -> None:
    import onnxruntime

    folder = fastrcaps_search.export_network(
        name, tmp_path / "a", onnx=True, storage=str(trained.file)
    )
    assert {path.name for path in folder.iterdir()} == WRITTEN | {"network.onnx"}
    loaded = fastrcaps_search.load_network(folder)
    assert loaded.facts["versions"].keys() == {
        *("fastrcaps_search", "torch", "onnx_opset", "onnx_ir")
    }
    assert loaded.facts["versions"]["onnx_opset"] == "18"
    images = MNIST_MINI.load(folder=None).test_images
    session = onnxruntime.InferenceSession(
        folder / "network.onnx", providers=["CPUExecutionProvider"]
    )
    floats = images[:, None].astype(np.float32) / np.float32(255)
    (classes,) = session.run(["classes"], {"images": floats})
    np.testing.assert_array_equal(classes, loaded.predict(images))
    assert len(set(classes.tolist())) > 3
    # It belongs to the export as the weights do.
    content = bytearray((folder / "network.onnx").read_bytes())
    content[100] ^= 1
    (folder / "network.onnx").write_bytes(content)
    with pytest.raises(UsageError, match=r"network\.onnx must be as it was written"):
        fastrcaps_search.load_network(folder)


@needs_onnx
def test_another_opset_is_asked_for_by_a_flag(export: Cli, tmp_path: Path) -> None:
    import onnx

    assert export("--opset", "20", "--out", "a").returncode == 0
    model = onnx.load(tmp_path / "a" / "network.onnx")
    assert ([one.version for one in model.opset_import], model.ir_version) == ([20], 9)
    refused = export("--opset", "17", "--out", "b")
    assert refused.returncode == 2
    assert refused.stderr == "fastrcaps-search: --opset must be from 18 to 23, got 17\n"
    assert not (tmp_path / "b").exists()


def test_a_missing_onnx_is_said_before_anything_is_written(
    export: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = export("--onnx", "--out", "new/a", "--trial", "99")
    assert done.returncode == 2
    assert "pip install 'fastrcaps-search[onnx]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_trial_and_criteria_exclude_each_other_in_python_too(
    trained: Trained, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="trial must be left out with criteria"):
        fastrcaps_search.export_network(
            *("small-lenet", tmp_path / "a"), trial=0, prefer="time", storage=str(trained.file)
        )


def test_a_trial_that_was_set_aside_is_exported_when_it_is_named(
    copy: Trained, tmp_path: Path
) -> None:
    storage = str(copy.file)
    first = fastrcaps_search.select_trial("small-lenet", storage=storage)["trial"]
    fastrcaps_search.exclude_trial("small-lenet", first, why="a test", storage=storage)
    chosen = fastrcaps_search.export_network("small-lenet", tmp_path / "a", storage=storage)
    assert fastrcaps_search.load_network(chosen).card.trial == 1 - first
    named = fastrcaps_search.export_network(
        "small-lenet", tmp_path / "b", trial=first, storage=storage
    )
    assert fastrcaps_search.load_network(named).card.trial == first
