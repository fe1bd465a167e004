"""A study that searches the length of training and of the decay, killed in the middle."""

from __future__ import annotations

import csv
import os
import signal
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.store.workers import until

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil

pytestmark = pytest.mark.slow

# Exponential decay: 2 lengths x 2 horizons. WarmAdaBatch: two epochs have no boundary within,
# three have, for two P. 4 + 1 + 2.
LENGTHS = """
name = "lengths"
network = "lenet5"
data_set = "mnist-mini"
boundaries = [2]
train_images = 400
[space]
lr_policy = ["exponential_decay", "warm_adabatch"]
batch_policy = ["constant"]
adabatch_exponent = [2, 4]
epochs = [2, 3]
decay_steps = [25, 50]
"""
CONFIGURATIONS = 7
RUN = ("run", "--study", "lengths.toml", "--trials", "10", "--workers", "1", "--verbose")


def accuracies(command: Command) -> dict[str, float]:
    """Accuracy of each configuration, in whatever order they were proposed."""
    rows = command.json("trials", "--study", "lengths")
    found = {str(sorted(row["params"].items())): row["values"]["accuracy"] for row in rows}
    assert len(found) == len(rows) == CONFIGURATIONS
    return found


@pytest.fixture(scope="module")
def resumed(make_command: Callable[[], Command], read_until: ReadUntil) -> Command:
    """A command whose run was killed in the middle of a trial, and run again."""
    command = make_command()
    (command.folder / "lengths.toml").write_text(LENGTHS)
    process = command.start(*RUN)
    first = read_until(process, "trials done")
    assert "; lenet5 on mnist-mini, 400 images x 2 to 3 epochs x 1 run; " in first
    begins = read_until(process, " begins: warm_adabatch epochs=")
    number = begins.split()[2]
    # Another epoch of 400 batches of 1 is still to come.
    read_until(process, f"trial {number} epoch 1:")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    def counts() -> list[int]:
        status = command.json("status", "--study", "lengths")
        return [status[state] for state in ("complete", "running", "interrupted")]

    # Its worker is no child of this process, and may end a moment later.
    until(lambda: counts() == [int(number), 0, 1])
    again = command(*RUN)
    assert f"trial {number} continues at epoch 2" in again.stdout
    return command


def test_every_configuration_is_trained_once_and_for_its_own_epochs(resumed: Command) -> None:
    rows = resumed.json("trials", "--study", "lengths")
    assert [row["state"] for row in rows] == ["complete"] * CONFIGURATIONS
    connection = sqlite3.connect(resumed.folder / "fastrcaps.db")
    for row in rows:
        params: dict[str, Any] = row["params"]
        epochs = connection.execute(
            "select epoch, batch_size, lr_start from fastrcaps_epochs where number = ? "
            "order by epoch",
            (row["trial"],),
        ).fetchall()
        assert [epoch for epoch, *_ in epochs] == list(range(1, params["epochs"] + 1))
        if params["lr_policy"] == "exponential_decay":
            assert set(params) == {"lr_policy", "batch_policy", "epochs", "decay_steps"}
            # An epoch has 25 steps of 16.
            expected = [1e-3 * 0.96 ** (25 * k / params["decay_steps"]) for k in (0, 1, 2)]
            assert [size for _, size, _ in epochs] == [16] * params["epochs"]
        else:
            # One cycle to the end of two epochs, or one of two and one of the third.
            assert ("adabatch_exponent" in params) == (params["epochs"] == 3)
            expected = [1e-3, 5.5e-4, 1e-3]
            grown = 2 ** params.get("adabatch_exponent", 0)
            assert [size for _, size, _ in epochs] == [1, 1, grown][: params["epochs"]]
        rates = [rate for *_, rate in epochs]
        assert rates == pytest.approx(expected[: params["epochs"]])
    connection.close()


def test_the_same_study_in_one_go_gives_the_same_values(
    resumed: Command, command: Command
) -> None:
    (command.folder / "lengths.toml").write_text(LENGTHS)
    command(*RUN)
    assert accuracies(command) == accuracies(resumed)


def test_files_and_page_have_the_lengths(resumed: Command) -> None:
    resumed("report", "--study", "lengths", "--format", "csv,html")
    with (resumed.folder / "reports/lengths.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["params.epochs"] for row in rows) == ["2"] * 3 + ["3"] * 4
    decays = ["", "", "", "25", "25", "50", "50"]
    assert sorted(row["params.decay_steps"] for row in rows) == decays
    page = (resumed.folder / "reports/lengths.html").read_text(encoding="utf-8")
    assert "2 to 3 epochs of 400 images" in page
    assert "3 epochs, decay every 25 steps" in page


def test_a_network_of_the_study_is_exported_with_its_length(resumed: Command) -> None:
    (number, epochs), *_ = [
        (row["trial"], row["params"]["epochs"])
        for row in resumed.json("front", "--study", "lengths")
    ]
    resumed("export", "--study", "lengths", "--trial", str(number), "--out", "exported")
    said = (resumed.folder / "exported/network.json").read_text()
    assert f'"epochs": {epochs}' in said
