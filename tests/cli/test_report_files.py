"""``report`` in other forms than the page, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.triples import values_of

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stored(store_study: Callable[..., None], tmp_path: Path, cli: Cli) -> Cli:
    """The command in a folder with a study of two trials."""
    store_study(tmp_path / "fastrcaps.db", [values_of(0.9, 10.0, 1000.0), None])
    return cli


def test_several_formats_lie_beside_each_other(stored: Cli, tmp_path: Path) -> None:
    done = stored("report", "--study", "tiny", "--format", "csv,json,html")
    assert done.stdout.split() == ["reports/tiny.csv", "reports/tiny.json", "reports/tiny.html"]
    rows = json.loads(stored("trials", "--study", "tiny", "--json").stdout)
    assert json.loads((tmp_path / "reports/tiny.json").read_text()) == rows
    table = list(csv.DictReader(io.StringIO((tmp_path / "reports/tiny.csv").read_text())))
    assert [row["values.accuracy"] for row in table] == ["0.9", ""]
    assert table[1]["reason"] == "diverged at epoch 2"


def test_the_ending_of_out_says_what_to_write(stored: Cli, tmp_path: Path) -> None:
    assert stored("report", "--study", "tiny", "--out", "a/t.csv").stdout == "a/t.csv\n"
    assert (tmp_path / "a/t.csv").read_text().startswith("trial,state,params.lr_policy")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--out", "t.csv", "--format", "json"], "--out must end as its format does, got t.csv"),
        (["--out", "t.txt"], "--out must end in one of .html, .png, .svg, .pdf, .csv, .json"),
        (["--out", "t", "--format", "csv,json"], "--out must be left out with several formats"),
        (["--format", "gif"], "must be one or more of html, png, svg, pdf, csv, json"),
    ],
)
def test_what_does_not_fit_is_refused(stored: Cli, flags: list[str], says: str) -> None:
    done = stored("report", "--study", "tiny", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_the_system_refuses_is_one_line(cli: Cli) -> None:
    name = "x" * 300
    done = cli("report", "--study", "tiny", "--storage", name)
    assert done.returncode == 1
    assert done.stderr.startswith("fastrcaps-search: ")
    assert done.stderr.endswith(
        f"{name} must be accessible, got: File name too long; fix its permissions or name "
        "another\n"
    )
    assert done.stderr.count("\n") == 1
    assert "Traceback" in cli("report", "--study", "tiny", "--storage", name, "--debug").stderr
