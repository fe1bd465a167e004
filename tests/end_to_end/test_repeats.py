"""Planned repeats as a user asks for them, killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import pytest

from fastrcaps_search.store.location import locate
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command

pytestmark = pytest.mark.slow

RUN = ("run", "--study", "listed.toml", "--trials", "1", "--workers", "1")
REPEAT = (*RUN, "--runs-on-front", "3")


def stored(command: Command) -> TrialRecord:
    store = Store.reading(locate(str(command.folder / "fastrcaps.db")))
    try:
        (trial,) = store.trials(store.study("listed"), epochs=True)
    finally:
        store.close()
    return trial


def test_repeats_that_were_killed_go_on_and_say_how_sure_the_front_is(
    command: Command,
    make_command: Callable[[], Command],
    read_until: Callable[[subprocess.Popen[str], str], str],
) -> None:
    process = command.start(*REPEAT, "--verbose")
    read_until(process, "trial 0 run 1 begins: fixed")
    read_until(process, "trial 0 run 1 epoch 2:")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    half = stored(command)
    assert half.values is not None
    assert len(half.results) == 1
    assert command.json("status", "--study", "listed")["repeats_left"] == 2
    (before,) = command.json("front", "--study", "listed")
    assert (before["runs"], before["front_probability"]) == (1, None)
    unsure = command("front", "--study", "listed").stdout
    assert unsure.splitlines()[-1] == (
        "on front: ? where nothing was repeated; 3 runs are planned for each trial on or near "
        "the front"
    )

    # The plan is stored, and so is the study: its name goes on with both.
    (command.folder / "listed.toml").rename(command.folder / "moved.toml")
    again = command("run", "--study", "listed", "--trials", "1", "--workers", "1")
    assert "2 runs to go until each on or near the front has 3" in again.stdout
    assert "trial 0 run 2 complete; means now: accuracy " in again.stdout
    check(command, whole(make_command))
    (command.folder / "moved.toml").rename(command.folder / "listed.toml")
    done = command(*REPEAT)
    assert "1/1 done, nothing to train" in done.stdout


def whole(make_command: Callable[[], Command]) -> list[Any]:
    """Accuracies of the same trainings in a study that has three runs for each trial."""
    command = make_command()
    text = 'extends = "listed.toml"\nname = "whole"\nruns_per_trial = 3\n'
    (command.folder / "whole.toml").write_text(text)
    command("run", "--study", "whole.toml", "--trials", "1", "--workers", "1")
    store = Store.reading(locate(str(command.folder / "fastrcaps.db")))
    try:
        (trial,) = store.trials(store.study("whole"))
    finally:
        store.close()
    return [(run.seed, run.accuracy, run.best_epoch) for run in trial.runs]


def check(command: Command, expected: list[Any]) -> None:
    trial = stored(command)
    assert [(run.seed, run.accuracy, run.best_epoch) for run in trial.runs] == expected
    assert all(run.bit_equal for run in trial.runs)
    (row,) = command.json("front", "--study", "listed")
    accuracies = [accuracy for _, accuracy, _ in expected]
    assert row["runs"] == 3
    assert row["values"]["accuracy"] == pytest.approx(fmean(accuracies))
    spread = row["spread"]["accuracy"]
    assert spread["deviation"] == pytest.approx(stdev(accuracies))
    # Student's t for two degrees of freedom.
    assert spread["margin"] == pytest.approx(4.30265273 * stdev(accuracies) / 3**0.5)
    # There is no other trial.
    assert row["front_probability"] == 1.0
    status = command.json("status", "--study", "listed")
    assert (status["runs_on_front"], status["repeats_left"]) == (3, 0)
    (folder,) = (command.folder / "fastrcaps-files").glob("listed-*")
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert status["disk_bytes"] == sum(files)
    # The best network of each run.
    assert len(list(folder.rglob("*.safetensors"))) == 3
