"""A data set from outside: one file, and every command knows it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fastrcaps_search.data.data_set import DataSet, Images
from fastrcaps_search.errors import DataError, UsageError
from tests import plug_in

Cli = Callable[..., subprocess.CompletedProcess[str]]

TOY = '''
from fastrcaps_search.data.data_set import DataSet, Images
from fastrcaps_search.data.shipped import DATA_SETS


class Bars(DataSet):
    """Each class has a bar of its own height."""

    def read(self, folder):
        import numpy as np

        def drawn(count):
            labels = (np.arange(count) % 10).astype(np.uint8)
            images = np.zeros((count, 28, 28), np.uint8)
            for image, label in zip(images, labels):
                image[4 + 2 * label : 6 + 2 * label, 4:24] = 255
            return images, labels

        return Images(*drawn(self.train_size), *drawn(self.test_size))


DATA_SETS.register(
    Bars(
        name="toy",
        class_names=tuple("abcdefghij"),
        train_size=900,
        validation_size=100,
        test_size=50,
        most_frequent=(10, 5),
    )
)
'''
STUDY = """
name = "bars"
network = "lenet5"
data_set = "toy"
epochs = 1
shifts = false

[[configuration]]
lr_policy = "fixed"
batch_policy = "constant"
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed plug-in with a data set."""
    folder = tmp_path / "installed"
    folder.mkdir()
    plug_in.install(folder, TOY)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_a_study_of_it_is_run_exported_and_evaluated(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bars.toml").write_text(STUDY)
    done = cli("run", "--study", "bars.toml", "--trials", "1", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "lenet5 on toy, 800 images" in done.stdout + done.stderr
    (trial,) = json.loads(cli("trials", "--study", "bars", "--json").stdout)
    # Guessing is right in a tenth.
    assert trial["values"]["accuracy"] > 0.9
    page = (tmp_path / "reports" / "bars.html").read_text()
    assert "lenet5 on toy" in page
    # The paper's points, which name its hardware, are those of other images.
    assert "1080 Ti" not in page
    assert cli("export", "--study", "bars", "--trial", "0", "--out", "net").returncode == 0
    found = json.loads(cli("evaluate", "net", "--split", "test", "--json").stdout)
    assert (found["data_set"], found["images"]) == ("toy", 50)
    assert [sum(row) for row in found["confusion"]] == [5] * 10


@pytest.mark.usefixtures("toy")
def test_it_stands_among_the_names_that_are_allowed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bars.toml").write_text(STUDY.replace('"toy"', '"toys"'))
    done = cli("studies", "bars.toml")
    assert done.returncode == 2
    expected = 'data_set: must be mnist, fashion-mnist, mnist-mini or toy, got "toys"'
    assert expected in done.stderr
    assert "data toy            read by toy\n" in cli("doctor").stdout


class Given(DataSet):
    """Arrays of the wrong kind."""

    def read(self, folder: Path | None) -> Images:
        side = 32 if self.name == "large" else 28
        labels = np.full(20, 10 if self.name == "eleven" else 1, np.uint8)
        images = np.zeros((20, side, side), np.float32 if self.name == "float" else np.uint8)
        return Images(images, labels, images[:5], labels[: 4 if self.name == "short" else 5])


def given(name: str, *, classes: int = 10, validation: int = 5) -> Given:
    return Given(
        name=name,
        class_names=tuple(map(str, range(classes))),
        train_size=20,
        validation_size=validation,
        test_size=5,
        most_frequent=(5, 5),
    )


@pytest.mark.parametrize(
    ("name", "came"),
    [
        ("large", r"\[20, 28, 28\], \[20\], .*, got uint8 \[20, 32, 32\], uint8 \[20\]"),
        ("float", r"got float32 \[20, 28, 28\]"),
        ("short", r"\[5\], got .*, uint8 \[4\]; fix"),
        ("eleven", "the labels of eleven must be 0 to 9, got 10; fix"),
    ],
)
def test_what_it_reads_must_be_what_it_says(name: str, came: str) -> None:
    assert given("right").load(folder=None).train_labels.tolist() == [1] * 20
    with pytest.raises(DataError, match=came):
        given(name).load(folder=None)


def test_it_must_have_ten_classes_and_something_to_train_on() -> None:
    with pytest.raises(UsageError, match=r"must have 10 classes .* got 11 classes"):
        given("many", classes=11)
    with pytest.raises(UsageError, match="got 10 classes and 20 of 20 images to validate"):
        given("all", validation=20)
