"""What the commands say of infeasible trials, and setting trials aside by hand."""

from __future__ import annotations

import getpass
import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import fastrcaps_search
from fastrcaps_search.errors import NothingFitsError, UsageError
from fastrcaps_search.store.records import Values
from tests.triples import values_of

Cli = Callable[..., subprocess.CompletedProcess[str]]
StoreStudy = Callable[[Path, list[Values | None]], None]

# Of the 5,000 images of MNIST's validation split, 563 of one class: 634 right answers are more
# than guessing. Trial 0 has 633 and would be the quickest; on the front are 2 and 1.
TRIALS = [
    values_of(633 / 5_000, 1.0, 100),
    values_of(0.94, 20.0, 100),
    values_of(0.96, 60.0, 100),
    values_of(0.93, 30.0, 100),
    None,
]


@pytest.fixture
def stored(tmp_path: Path, store_study: StoreStudy) -> str:
    """The database with ``TRIALS``."""
    store_study(tmp_path / "fastrcaps.db", TRIALS)
    return str(tmp_path / "fastrcaps.db")


@pytest.fixture
def trials(call: Cli, stored: str) -> Cli:
    """Runs ``trials`` on that study."""
    return lambda *more: call("trials", "--study", "tiny", *more)


def front(call: Cli) -> list[int]:
    return [row["trial"] for row in json.loads(call("front", "--study", "tiny", "--json").stdout)]


def test_a_trial_that_guesses_is_said_to_and_never_chosen(call: Cli, trials: Cli) -> None:
    assert front(call) == [2, 1]
    rows = json.loads(trials("--json").stdout)
    assert [row.get("feasible") for row in rows] == [False, True, True, True, None]
    assert rows[0]["reason"] == "not better than guessing"
    line = trials().stdout.splitlines()[1]
    assert line.split("  ")[-1].strip() == "not better than guessing"
    assert line.split()[-5] == "-"
    chosen = call("select", "--study", "tiny", "--prefer", "time", "--json")
    assert json.loads(chosen.stdout)["trial"] == 1
    status = call("status", "--study", "tiny")
    assert status.stdout.startswith(
        "tiny: 5/5 trials done (4 complete, 1 of them infeasible, 1 failed)"
    )
    assert json.loads(call("status", "--study", "tiny", "--json").stdout)["infeasible"] == 1


def test_a_trial_is_excluded_and_included_again(call: Cli, trials: Cli) -> None:
    before = trials("--json").stdout
    user = getpass.getuser()
    done = trials("--exclude", "1", "--why", "the fan was off", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    row = json.loads(done.stdout)[1]
    assert (row["feasible"], row["reason"]) == (False, f"set aside by {user}: the fan was off")
    assert (row["set_aside"]["by"], row["set_aside"]["why"]) == (user, "the fan was off")
    assert trials().stdout.splitlines()[2].endswith(f"set aside by {user}: the fan was off")
    assert front(call) == [2, 3]
    assert trials("--include", "1", "--json").stdout == before
    assert front(call) == [2, 1]


def test_excluding_says_who_comes_to_the_front_without_a_network(
    trials: Cli, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "fastrcaps.db")) as connection, connection:
        connection.execute(
            "update fastrcaps_runs set removed = 1, accuracy = 0.93, training_seconds = 30, "
            "best_epoch = 1, parameters = 100 where number = 3"
        )
    done = trials("--exclude", "2", "--why", "a test", "--json")
    assert (done.stderr, json.loads(done.stdout)[2]["feasible"]) == ("", False)
    done = trials("--exclude", "1", "--why", "a test", "--json")
    assert done.stderr == (
        "now on the front without a network: 3; `export` needs one, which `fastrcaps-search run "
        "--study tiny --runs-on-front R` trains (R above their runs)\n"
    )
    assert json.loads(done.stdout)[1]["feasible"] is False


def test_where_nothing_is_feasible_select_and_export_exit_with_3(
    call: Cli, tmp_path: Path, store_study: StoreStudy
) -> None:
    store_study(tmp_path / "fastrcaps.db", TRIALS[:1])
    line = (
        "fastrcaps-search: the trial must be feasible, but none of the 1 complete trials is: "
        "1 not better than guessing; run more trials\n"
    )
    for command in (["select"], ["export", "--out", "network"]):
        done = call(*command, "--study", "tiny")
        assert (done.returncode, done.stdout, done.stderr) == (3, "", line)
    with pytest.raises(NothingFitsError, match="none of the 1 complete trials is"):
        fastrcaps_search.select_trial("tiny")
    assert call("front", "--study", "tiny", "--json").stdout == "[]\n"
    assert call("status", "--study", "tiny").returncode == 0


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("--exclude", "1"), "--exclude and --why must be given together, got only --exclude"),
        (("--why", "x"), "--exclude and --why must be given together, got only --why"),
        (
            ("--include", "1", "--why", "x"),
            "--exclude and --why must be given together, got only --why; "
            "--include takes no reason",
        ),
        (
            ("--exclude", "9", "--why", "x"),
            "the trial must be one of tiny, got 9; `fastrcaps-search trials --study tiny` lists "
            "them",
        ),
        (
            ("--exclude", "4", "--why", "x"),
            "a trial must be complete to be excluded, but trial 4 of tiny is failed; only "
            "complete ones are on a front",
        ),
        (
            ("--include", "1"),
            "a trial must have been excluded to be included, but trial 1 of tiny was not; "
            "`fastrcaps-search trials --study tiny` lists them",
        ),
        (
            ("--exclude", "1", "--why", "a\nb"),
            r'why must be a reason in one line of printable characters, got "a\nb"',
        ),
        (
            ("--exclude", "x", "--why", "y"),
            "argument --exclude: must be a whole number from 0 to 1000000, got 'x'; "
            "`fastrcaps-search trials --help` shows how it is used",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    trials: Cli, flags: tuple[str, ...], line: str
) -> None:
    before = trials("--json").stdout
    done = trials(*flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"fastrcaps-search: {line}\n"
    assert trials("--json").stdout == before


def test_python_does_the_same(call: Cli, stored: str) -> None:
    assert {"exclude_trial", "include_trial"} <= set(fastrcaps_search.__all__)
    # Numbers as pandas gives them, and a path.
    number = fastrcaps_search.read_front("tiny", storage=Path(stored))["trial"].iloc[0]
    assert not isinstance(number, int)
    fastrcaps_search.exclude_trial("tiny", number, why="a test", storage=stored)
    assert front(call) == [1]
    table = fastrcaps_search.read_trials("tiny", storage=stored)
    assert table["set_aside.why"][2] == "a test"
    assert table["feasible"].tolist()[:4] == [False, True, False, True]
    with pytest.raises(UsageError, match="trial must be one of tiny, got 7"):
        fastrcaps_search.exclude_trial("tiny", 7, why="a test", storage=stored)
    fastrcaps_search.include_trial("tiny", number, storage=stored)
    assert front(call) == [2, 1]
    with pytest.raises(UsageError, match="max_failures must be a whole number of at least 1, got"):
        fastrcaps_search.run_study("mnist-mini", trials=1, max_failures=0)


def test_the_number_of_failures_is_a_flag_of_run_and_worker(call: Cli) -> None:
    for command in ("run", "worker"):
        done = call(command, "--study", "tiny", "--max-failures", "0")
        assert done.returncode == 2
        assert "argument --max-failures: must be a whole number from 1 to" in done.stderr


def test_a_network_that_was_not_kept_for_guessing_is_not_promised(call: Cli, stored: str) -> None:
    with closing(sqlite3.connect(stored)) as file, file:
        file.execute("update fastrcaps_runs set removed = 1 where number = 0")
    done = call("export", "--study", "tiny", "--trial", "0", "--out", "out")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "got 0; the trial is infeasible (not better than guessing), and no front wants its "
        "network\n"
    )


def test_a_stored_name_in_a_database_that_cannot_be_read(call: Cli, stored: str) -> None:
    with closing(sqlite3.connect(stored)) as file, file:
        file.execute("update fastrcaps_schema set version = 5")
    done = call("run", "--study", "tiny")
    assert done.returncode == 2
    assert 'study "tiny" must be a study file or one of' in done.stderr
    assert "tables of version 9" in done.stderr
    assert done.stderr.count("\n") == 1
