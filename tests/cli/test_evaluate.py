"""``evaluate``: the stored accuracy again, or a line that says that it is another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import fastrcaps_search
from fastrcaps_search.data.shipped import MNIST_MINI
from tests.exported import sign

if TYPE_CHECKING:
    from tests.trained import Trained

Cli = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.usefixtures("torch_as_it_was")
# Read now: the fixture that calls the command takes the variable away.
DATA = os.environ.get("FASTRCAPS_DATA")


@pytest.fixture
def copied(exports: dict[str, Path], tmp_path: Path) -> Path:
    """LeNet5's export, to be changed."""
    return Path(shutil.copytree(exports["small-lenet"], tmp_path / "copied"))


def change(folder: Path, **keys: Any) -> None:  # noqa: ANN401  # whatever JSON holds
    """Change the card and fix its checksum, as another machine could have written it."""
    path = folder / "network.json"
    values = json.loads(path.read_text())
    for key, value in keys.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(values))
    sign(folder)


@pytest.mark.parametrize("name", ["small-lenet", "small-capsnet"])
@pytest.mark.parametrize("split", ["validation", "test"])
def test_the_stored_accuracy_is_repeated_exactly(
    call: Cli, exports: dict[str, Path], trained: Trained, tmp_path: Path, name: str, split: str
) -> None:
    flags = () if split == "validation" else ("--split", "test")
    done = call("evaluate", str(exports[name]), "--json", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    written = json.loads((exports[name] / "network.json").read_text())
    run = trained.read(name)[1][written["trial"]].runs[written["run"]]
    stored = run.accuracy if split == "validation" else run.test_accuracy
    assert found["accuracy"] == found["stored_accuracy"] == stored
    confusion = found.pop("confusion")
    page = f"reports/{name}-trial-{written['trial']}-run-{written['run']}-{split}.html"
    assert found == {
        "study": name,
        "trial": written["trial"],
        "run": written["run"],
        "data_set": "mnist-mini",
        "split": split,
        "images": 500,
        "accuracy": stored,
        "stored_accuracy": stored,
        "equal": True,
        "page": page,
    }
    assert [sum(row) for row in confusion] == [
        int((labels_of(split) == label).sum()) for label in range(10)
    ]
    assert sum(confusion[label][label] for label in range(10)) / 500 == stored
    assert (tmp_path / page).stat().st_size > 10_000


def labels_of(split: str) -> Any:  # noqa: ANN401
    images = MNIST_MINI.load(folder=None)
    return images.test_labels if split == "test" else images.train_labels[-500:]


def test_the_table_holds_what_was_counted(
    call: Cli, exports: dict[str, Path], tmp_path: Path
) -> None:
    done = call("evaluate", str(exports["small-lenet"]), "--split", "test", "--out", "p/a.html")
    loaded = fastrcaps_search.load_network(exports["small-lenet"])
    images = MNIST_MINI.load(folder=None)
    counted = [["."] * 10 for _ in range(10)]
    for image, label in zip(images.test_images, images.test_labels, strict=True):
        predicted = loaded.predict(image)
        assert isinstance(predicted, int)
        row = counted[int(label)]
        row[predicted] = str(int(row[predicted].replace(".", "0")) + 1)
    lines = done.stdout.splitlines()
    accuracy = f"{100 * (loaded.card.test_accuracy or 0):.2f} %"
    assert f": {accuracy} of the 500 images of mnist-mini's test set, equal to the" in lines[0]
    assert lines[4].split() == [*"0123456789", "images", "right"]
    for label, line in enumerate(lines[5:15]):
        right = int(counted[label][label].replace(".", "0"))
        assert line.split() == [str(label), *counted[label], "50", f"{2 * right:.2f}", "%"]
    assert lines[-1] == "page: p/a.html"
    assert (tmp_path / "p" / "a.html").is_file()


def test_another_accuracy_in_the_same_setting_is_an_error(call: Cli, copied: Path) -> None:
    change(copied, accuracy=0.125)
    done = call("evaluate", str(copied))
    assert done.returncode == 1
    assert "the stored accuracy is 12.50 %" in done.stdout
    assert "the accuracy must be the stored 0.125, got 0." in done.stderr
    assert done.stderr.count("\n") == 1


def test_another_accuracy_in_another_setting_is_a_warning(call: Cli, copied: Path) -> None:
    change(copied, accuracy=0.125, setting={"torch_version": "1.0", "device_name": "abacus"})
    done = call("evaluate", str(copied), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["equal"] is False
    assert done.stderr.startswith("warning: the accuracy must be the stored 0.125, got 0.")
    assert "trained on abacus with torch 1.0" in done.stderr


def test_images_that_it_was_trained_on_are_refused(call: Cli, copied: Path) -> None:
    change(copied, study={"evaluate_on": "test"}, test_accuracy=None)
    done = call("evaluate", str(copied), "--split", "validation")
    assert done.returncode == 2
    assert "--split must be test" in done.stderr


@pytest.mark.parametrize(
    ("trained_on", "flags", "images"),
    [
        ("mnist", ("--data-set", "mnist-mini"), "test set"),
        ("mnist", ("--data-set", "mnist-mini", "--split", "validation"), "validation split"),
    ],
)
def test_mnists_training_images_are_refused_under_their_other_name(
    call: Cli, copied: Path, trained_on: str, flags: tuple[str, ...], images: str
) -> None:
    change(copied, study={"data_set": trained_on})
    done = call("evaluate", str(copied), *flags)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    message = f"must not be {flags[1]} with its {images} for a network of {trained_on}, "
    assert f"--data-set {message}" in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--split", "train"), "--split: must be validation or test, got 'train'"),
        (("--data-set", "cifar"), "must be mnist or fashion-mnist or mnist-mini, got 'cifar'"),
        (("--out", "a.pdf"), "--out must end in .html, got 'a.pdf'; the page is HTML"),
    ],
)
def test_wrong_words_are_refused_in_a_line(
    call: Cli, copied: Path, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    done = call("evaluate", str(copied), *flags)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert not (tmp_path / "reports").exists()


def test_the_accuracy_is_printed_even_where_the_page_cannot_be_written(
    call: Cli, copied: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken.html").mkdir()
    done = call("evaluate", str(copied), "--out", "taken.html")
    assert done.returncode == 1
    assert "equal to the stored accuracy" in done.stdout
    assert "page:" not in done.stdout


def test_a_tampered_export_is_refused(call: Cli, copied: Path, tmp_path: Path) -> None:
    (copied / "weights.safetensors").write_bytes(b"something else")
    done = call("evaluate", str(copied))
    assert done.returncode == 2
    assert "weights.safetensors must be a file of an exported network" in done.stderr
    assert not (tmp_path / "reports").exists()


@pytest.mark.skipif(DATA is None, reason="needs MNIST in the folder that FASTRCAPS_DATA names")
@pytest.mark.parametrize(
    ("data_set", "flags", "split"),
    [
        ("mnist", (), ("test", 10_000)),
        # The digits that the network was trained on are no images of this split.
        ("mnist", ("--split", "validation"), ("validation", 5_000)),
        ("fashion-mnist", (), ("test", 10_000)),
    ],
)
def test_another_data_set_has_no_stored_accuracy(
    call: Cli,
    exports: dict[str, Path],
    tmp_path: Path,
    data_set: str,
    flags: tuple[str, ...],
    split: tuple[str, int],
) -> None:
    assert DATA is not None
    done = call(
        *("evaluate", str(exports["small-lenet"]), "--data-set", data_set, "--data-dir"),
        *(DATA, "--json", *flags),
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["split"], found["images"]) == split
    assert (found["stored_accuracy"], found["equal"]) == (None, None)
    assert (found["accuracy"] > 0.3) == (data_set == "mnist")
    page = (tmp_path / found["page"]).read_text()
    assert ("Ankle boot" in page) == (data_set == "fashion-mnist")
