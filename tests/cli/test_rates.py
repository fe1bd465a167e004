"""``rates``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from fastrcaps_search.definition.load import load_study

Cli = Callable[..., subprocess.CompletedProcess[str]]
QUICK = 'extends = "paper-lenet5"\nname = "quick"\ndata_set = "mnist-mini"\n'


@pytest.mark.slow
def test_two_lines_for_a_study_file_and_a_page(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "quick.toml").write_text(QUICK)
    flags = ("--study", "quick.toml", "--device", "cpu", "--steps", "250", "--seed", "3")
    done = cli("rates", *flags, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert list(found) == [
        *("study", "network", "decoder", "weight_sharing", "batch_size", "seed", "device"),
        *("steps", "ending", "lr_max", "lr_min", "best_rate", "rates", "losses", "smoothed"),
        "page",
    ]
    assert (found["study"], found["network"], found["decoder"]) == ("quick", "lenet5", None)
    assert found["page"] == "reports/quick-rates.html"
    assert len(found["rates"]) == len(found["losses"]) <= found["steps"] == 250
    assert found["lr_max"] == float(f"{found['best_rate'] / 10:.1e}")
    again = cli("rates", *flags, "--out", "new/b.html")
    assert (again.returncode, again.stderr) == (0, "")
    lines = again.stdout.splitlines()
    assert lines[0] == "quick: lenet5; batch 16, seed 3"
    # A millionfold in 249 equal factors.
    assert "rates from 1.0e-06 to" in lines[1]
    assert f"each {10 ** (6 / 249):.2f} times the one before" in lines[1]
    proposed = tomllib.loads("\n".join(line for line in lines if line.startswith("lr_")))
    assert proposed == {"lr_max": found["lr_max"], "lr_min": found["lr_min"]}
    assert lines[-1] == "page: new/b.html"
    # The lines are what a study file takes, and nothing else was left: no database.
    mine = tmp_path / "mine.toml"
    mine.write_text("\n".join(["extends = 'quick.toml'", *lines[4:6]]))
    assert load_study(str(mine)).lr_max == found["lr_max"]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"quick.toml", "mine.toml", "reports", "new"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--study", "mnist-mini", "--out", "a.pdf"), "--out must end in .html, got 'a.pdf'"),
        (("--study", "mnist-mini", "--steps", "19"), "whole number from 20 to 100000, got '19'"),
        (("--study", "mnist-mini", "--seed", "-1"), "--seed"),
        (("--study", "mnist-mini", "--device", "tpu"), "device must be one of this machine, got"),
        (("--study", "mnist-maxi"), 'study "mnist-maxi" must be a study file or one of'),
        (("--study", "mnist", "--data-dir", "nowhere"), "--data-dir must be a folder that exists"),
        ((), "--study"),
    ],
)
def test_what_it_refuses_in_one_line(cli: Cli, flags: tuple[str, ...], message: str) -> None:
    done = cli("rates", *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_stored_study_goes_by_its_name(
    cli: Cli, tmp_path: Path, store_study: Callable[..., None]
) -> None:
    (tmp_path / "empty").mkdir()
    flags = ("rates", "--study", "tiny", "--data-dir", "empty")
    missed = cli(*flags, "--storage", "othr.db").stderr
    assert 'study "tiny" must be a study file or one of' in missed
    place = tmp_path / "othr.db"
    assert missed.endswith(f"got no such file, and it is not stored in {place}\n")
    store_study(tmp_path / "other.db", [])
    done = cli(*flags, "--storage", "other.db")
    assert "must be a study file" not in done.stderr
    assert "empty" in done.stderr
