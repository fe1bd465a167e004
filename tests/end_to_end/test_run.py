"""The main job as a user does it: run, look, run again."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.util import setup_testing_defaults

import optuna
import optuna_dashboard
import pytest

import fastrcaps_search
from fastrcaps_search.errors import UsageError
from fastrcaps_search.training.device import device_name
from fastrcaps_search.training.resources import cores
from tests.store.workers import until

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command, ReadUntil

pytestmark = pytest.mark.slow

# A search on the narrow capsule network: 480 digits, two epochs, two decoders, three batch sizes.
QUICK = """
extends = "mnist-mini"
name = "quick"
epochs = 2
boundaries = [1]
train_images = 480
[space]
lr_policy = ["fixed", "one_cycle"]
adabatch_exponent = [3]
weight_sharing = [true]
"""


@pytest.fixture(scope="module")
def ran(make_command: Callable[[], Command]) -> tuple[Command, str]:
    """A command that has run four trials, and what it printed."""
    command = make_command()
    (command.folder / "quick.toml").write_text(QUICK)
    done = command("run", "--study", "quick.toml", "--trials", "4", "--workers", "2")
    assert done.stderr == ""
    return command, done.stdout


@pytest.fixture(scope="module")
def rows(ran: tuple[Command, str]) -> list[dict[str, Any]]:
    """Its trials, as the command line has them."""
    found: list[dict[str, Any]] = ran[0].json("trials", "--study", "quick")
    return found


def brute_force_front(rows: list[dict[str, Any]]) -> set[int]:
    """Trials that no other one beats, by comparing every pair."""

    def costs(row: dict[str, Any]) -> tuple[float, ...]:
        values = row["values"]
        return (-values["accuracy"], values["training_seconds"], values["parameters"])

    return {
        row["trial"]
        for row in rows
        if not any(
            all(a <= b for a, b in zip(costs(other), costs(row), strict=True))
            and costs(other) != costs(row)
            for other in rows
        )
    }


def test_run_says_what_it_will_do_and_ends_with_front_and_report(
    ran: tuple[Command, str],
) -> None:
    command, printed = ran
    first, *others, last = printed.splitlines()
    assert first.startswith("quick: measuring once how fast the CPU trains 2 networks at batch ")
    planned = (
        "quick: 0/4 trials done, 4 to go; capsnet-narrow on mnist-mini, 480 images x 2 epochs "
        "x 1 run; "
    )
    (plan,) = (line for line in others if line.startswith(planned))
    assert "about " in plan.removeprefix(planned)
    assert last == f"report: {Path('reports/quick.html')}"
    assert (command.folder / "reports/quick.html").stat().st_size < 8_000_000
    assert "\nfront: " in printed


def test_every_command_tells_the_same_study(
    ran: tuple[Command, str], rows: list[dict[str, Any]]
) -> None:
    (command, _), trials = ran, rows
    front = command.json("front", "--study", "quick.toml")
    status = command.json("status", "--study", "quick")
    assert [row["trial"] for row in trials] == [0, 1, 2, 3]
    assert {row["state"] for row in trials} == {"complete"}
    assert {row["trial"] for row in front} == brute_force_front(trials)
    assert all(0 <= row["test_accuracy"] <= 1 for row in front)
    assert all("test_accuracy" not in row for row in trials if row not in front)
    assert list(status) == [
        *("study", "budget", "complete", "failed", "running"),
        *("workers", "jobs", "stuck", "hypervolume", "eta_seconds", "hypervolume_box"),
        *("infeasible", "reference_device", "seconds"),
        *("runs_on_front", "repeats_left", "disk_bytes", "interrupted", "disk"),
    ]
    counted = [status[key] for key in ("study", "budget", "complete", "failed", "running")]
    assert counted == ["quick", 4, 4, 0, 0]
    assert 0 <= status["hypervolume"] <= 1
    assert list(trials[0])[:6] == ["trial", "state", "params", "values", "runs", "device"]


def test_values_follow_from_the_stored_epochs(
    ran: tuple[Command, str], rows: list[dict[str, Any]]
) -> None:
    command, _ = ran
    connection = sqlite3.connect(command.folder / "fastrcaps.db")
    for row in rows:
        epochs = connection.execute(
            # Computed where a worker was alone at last, as the study counts in those of two.
            "select accuracy, coalesce(computed_seconds, training_seconds), steps, batch_size, "
            "samples, sharing, threads "
            "from fastrcaps_epochs where number = ? order by epoch",
            (row["trial"],),
        ).fetchall()
        assert len(epochs) == 2
        best = 0 if epochs[0][0] >= epochs[1][0] else 1
        assert row["values"]["accuracy"] == epochs[best][0]
        seconds = math.fsum(epoch[1] for epoch in epochs[: best + 1])
        assert row["values"]["training_seconds"] == seconds
        assert all(epoch[2] == math.ceil(480 / epoch[3]) for epoch in epochs)
        assert all(epoch[4] == 480 for epoch in epochs)
        assert all(1 <= epoch[5] <= 2 for epoch in epochs)
    connection.close()


def test_the_same_line_again_starts_nothing(ran: tuple[Command, str]) -> None:
    command, _ = ran
    before = (command.folder / "fastrcaps.db").stat().st_size
    done = command("run", "--study", "quick.toml", "--trials", "4")
    assert done.stdout.startswith("quick: 4/4 done, nothing to train\n")
    assert "begins" not in done.stdout
    assert command.json("status", "--study", "quick")["complete"] == 4
    assert (command.folder / "fastrcaps.db").stat().st_size == before


def test_a_larger_total_goes_on_and_a_smaller_one_changes_nothing(
    ran: tuple[Command, str],
) -> None:
    command, _ = ran
    shutil.copytree(command.folder, command.folder / "copy")
    copy = type(command)(command.folder / "copy")
    done = copy("run", "--study", "quick.toml", "--trials", "2")
    assert done.stdout.startswith("quick: 4/4 done, nothing to train\n")
    assert done.stderr == (
        "warning: the study's budget is 4 already; --trials 2 changes nothing\n"
    )
    done = copy("run", "--study", "quick.toml", "--trials", "5", "--quiet")
    assert "begins" not in done.stdout
    rows = copy.json("trials", "--study", "quick")
    assert [row["trial"] for row in rows] == [0, 1, 2, 3, 4]
    configurations = {json.dumps(row["params"], sort_keys=True) for row in rows}
    assert len(configurations) == 5


def test_the_dashboard_shows_the_study_with_its_three_objectives(
    ran: tuple[Command, str], rows: list[dict[str, Any]]
) -> None:
    command, _ = ran
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.RDBStorage(f"sqlite:///{command.folder}/fastrcaps.db")
    application = optuna_dashboard.wsgi(storage)

    def get(path: str) -> Any:  # noqa: ANN401  # whatever JSON holds
        environment: dict[str, Any] = {}
        setup_testing_defaults(environment)
        environment["PATH_INFO"] = path
        return json.loads(b"".join(application(environment, lambda *_: None)))

    try:
        (summary,) = get("/api/studies")["study_summaries"]
        assert summary["study_name"] == "quick"
        study = get(f"/api/studies/{summary['study_id']}")
    finally:
        storage.remove_session()
        storage.engine.dispose()
    assert study["directions"] == ["maximize", "minimize", "minimize"]
    assert study["objective_names"] == ["accuracy", "training_seconds", "parameters"]
    assert [trial["values"] for trial in study["trials"]] == [
        [row["values"][key] for key in ("accuracy", "training_seconds", "parameters")]
        for row in rows
    ]


def test_optuna_can_read_the_study(ran: tuple[Command, str], rows: list[dict[str, Any]]) -> None:
    command, _ = ran
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(
        study_name="quick", storage=f"sqlite:///{command.folder}/fastrcaps.db"
    )
    assert [trial.values for trial in study.trials] == [
        [row["values"][key] for key in ("accuracy", "training_seconds", "parameters")]
        for row in rows
    ]
    assert {trial.number for trial in study.best_trials} == brute_force_front(rows)


def test_the_same_from_python(ran: tuple[Command, str], rows: list[dict[str, Any]]) -> None:
    command, _ = ran
    storage = str(command.folder / "fastrcaps.db")
    frame = fastrcaps_search.read_trials("quick", storage=storage)
    front = fastrcaps_search.read_front("quick", storage=storage)
    assert list(frame["values.accuracy"]) == [row["values"]["accuracy"] for row in rows]
    assert set(front["trial"]) == brute_force_front(rows)
    assert fastrcaps_search.read_status("quick", storage=storage).complete == 4
    # A path, a number of numpy, a definition.
    file, four = command.folder / "quick.toml", frame["trial"].iloc[-1] + 1
    again = fastrcaps_search.run_study(file, trials=four, storage=Path(storage))
    assert again.work.finished == 4
    for study in (file, fastrcaps_search.load_study(file)):
        assert fastrcaps_search.read_front(study, storage=storage).equals(front)
    first, second = frame["trial"].iloc[:2]
    compared = fastrcaps_search.compare_trials("quick", first, second, storage=storage)
    assert compared == command.json("compare", "--study", "quick", str(first), str(second))
    with pytest.raises(UsageError, match=r"^study must be typed plainly, got a NoneType; pass a"):
        fastrcaps_search.load_study(None)  # type: ignore[arg-type]


def test_report_writes_the_page_where_it_is_told(ran: tuple[Command, str]) -> None:
    command, _ = ran
    done = command("report", "--study", "quick", "--out", "pages/mine.html")
    assert done.stdout == "pages/mine.html\n"
    page = (command.folder / "pages/mine.html").read_text()
    assert "quick" in page
    assert str(command.folder) not in page


def plan(printed: str) -> str:
    """Workers and their device in the line that says what a run is about to do."""
    (line,) = (line for line in printed.splitlines() if " trials done, " in line)
    return line.split("; ")[2]


def threads_of(command: Command, number: int) -> set[int]:
    connection = sqlite3.connect(command.folder / "fastrcaps.db")
    rows = connection.execute("select threads from fastrcaps_epochs where number = ?", (number,))
    found = {threads for (threads,) in rows}
    connection.close()
    return found


# A search of the smallest trainings: a second for all of them.
SMALL = """
name = "small"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
boundaries = [1]
train_images = 64
[space]
lr_policy = ["fixed", "exponential_decay", "one_cycle", "warm_restarts"]
batch_policy = ["constant"]
"""


@pytest.fixture
def small(command: Command) -> str:
    (command.folder / "small.toml").write_text(SMALL)
    return "small.toml"


def test_the_first_run_measures_how_many_workers_are_fastest_and_later_ones_do_as_it_did(
    command: Command, small: str
) -> None:
    first = command("run", "--study", small, "--trials", "2", "--workers", "auto")
    name = device_name("cpu")
    connection = sqlite3.connect(command.folder / "fastrcaps.db")
    rows = connection.execute("select device_name, cores, workers, threads from fastrcaps_layouts")
    ((device, count, workers, threads),) = rows.fetchall()
    connection.close()
    assert (device, count) == (name, cores().amount)
    # Before torch has said what is here, and once it has been measured.
    begins, *_, measured, _ = itertools.takewhile(
        lambda line: "worker-" not in line, first.stdout.splitlines()
    )
    assert begins == (
        "small: measuring once how fast the CPU trains 1 network at batch size 16: about 10 s or "
        "more"
    )
    assert re.fullmatch(r"measured in \d+ s: [0-9.]+ ms a step of 16 images", measured)
    assert 1 <= workers * threads <= count
    if count > 1:
        assert re.fullmatch(
            rf"{min(workers, 2)} workers? with {threads} threads? \(chosen: (about as fast as|"
            rf"\d+\.\dx the images/s of) \d workers? with \d+\) on {re.escape(name)}",
            plan(first.stdout),
        )
    assert threads_of(command, 0) == threads_of(command, 1) == {threads}

    again = command("run", "--study", small, "--trials", "3")
    plural = "s" if threads > 1 else ""
    assert plan(again.stdout) == f"1 worker with {threads} thread{plural} (as before) on {name}"
    assert threads_of(command, 2) == {threads}
    assert again.stderr == ""

    other = command("run", "--study", small, "--trials", "4", "--workers", str(workers + 1))
    assert other.stderr.startswith(f"warning: {workers + 1} workers with ")
    words = "seconds will be computed, not measured, where that makes a difference"
    assert f"as the study began there: {words}" in other.stderr
    assert len(other.stderr.splitlines()) == 1


def test_status_says_that_a_machine_is_measured(command: Command, read_until: ReadUntil) -> None:
    run = command.start("run", "--study", "mnist-mini", "--trials", "1")
    seen: list[dict[str, Any]] = []

    def is_measured() -> bool:
        seen.append(command.json("status", "--study", "mnist-mini"))
        return bool(seen[-1]["workers"])

    try:
        read_until(run, "mnist-mini: measuring once how fast the ")
        until(is_measured, 60.0)
        run.terminate()
        _, error = run.communicate()
    finally:
        run.kill()
    (worker,) = seen[-1]["workers"]
    assert (worker["worker"], worker["doing"], worker["life"]) == (
        "calibration",
        "measures",
        "alive",
    )
    assert seen[-1]["stuck"] == []
    assert (run.returncode, "interrupted before anything was trained" in error) == (130, True)
    assert command.json("status", "--study", "mnist-mini")["workers"] == []


def run_broken(command: Command, error: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a study of six configurations whose every training raises this error."""
    (command.folder / "bad.toml").write_text(
        'name = "bad"\nnetwork = "lenet5"\ndata_set = "mnist-mini"\nepochs = 2\n'
        "boundaries = [1]\ntrain_images = 64\n[space]\n"
        'lr_policy = ["fixed", "exponential_decay"]\nbatch_policy = ["constant"]\n'
        "batch_size = [1, 2, 4]\n"
    )
    # A worker whose training breaks, in the place of the real one.
    script = (
        "import fastrcaps_search.training.run as run\n"
        "from fastrcaps_search.errors import DivergedError\n"
        "def broken(self, epoch):\n"
        f"    raise {error}\n"
        "run.Run._epoch = broken\n"
        "import sys\n"
        "from fastrcaps_search.search.worker import main\n"
        "sys.exit(main())\n"
    )
    (command.folder / "worker.py").write_text(script)
    return subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys, fastrcaps_search.search.launch as launch\n"
            "old = launch.worker_command\n"
            "launch.worker_command = lambda spec: [sys.executable, 'worker.py', old(spec)[-1]]\n"
            "from fastrcaps_search.cli.main import main\n"
            "sys.exit(main())",
            *("run", "--study", "bad.toml", "--trials", "6", "--workers", "1", *more),
        ],
        cwd=command.folder,
        env=command.environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("most", [3, 4])
def test_failures_in_a_row_are_told_and_end_the_run(
    make_command: Callable[[], Command], most: int
) -> None:
    command = make_command()
    more = () if most == 3 else ("--max-failures", str(most))
    done = run_broken(command, r"RuntimeError('the network\nfell over')", *more)
    assert done.returncode == 1
    listed = "; ".join(f"trial {number}: the network" for number in range(most))
    assert done.stderr.splitlines() == [
        f"fastrcaps-search: {most} trials failed in a row, so the run stops: {listed}; "
        "--max-failures allows more"
    ]
    rows = command.json("trials", "--study", "bad")
    failed = [row for row in rows if row["state"] == "failed"]
    assert [row["reason"] for row in failed] == ["the network"] * len(failed)
    assert len(failed) >= most


def test_a_run_goes_on_after_trials_that_diverge(make_command: Callable[[], Command]) -> None:
    command = make_command()
    done = run_broken(command, "DivergedError(2)")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("fastrcaps-search: every trial failed: trial ")
    rows = command.json("trials", "--study", "bad")
    assert [row["state"] for row in rows] == ["failed"] * 6
    assert {row["reason"] for row in rows} == {"diverged at epoch 2"}
