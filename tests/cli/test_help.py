from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fastrcaps_search.cli.commands import COMMANDS
from fastrcaps_search.training.resources import cores

Cli = Callable[..., subprocess.CompletedProcess[str]]
HEAVY = ("torch", "optuna", "plotly", "pandas", "sqlalchemy", "numpy")


def test_every_command_is_named_with_a_sentence(cli: Cli) -> None:
    printed = cli("--help").stdout
    for command in COMMANDS:
        assert f"    {command.name} " in printed
    assert "example: fastrcaps-search run --study mnist-mini --trials 12" in printed


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_has_help_with_an_example(cli: Cli, name: str) -> None:
    done = cli(name, "--help")
    assert done.returncode == 0
    assert f"example: fastrcaps-search {name}" in done.stdout


@pytest.mark.parametrize("name", ["run", "select"])
def test_help_imports_nothing_heavy(tmp_path: Path, name: str) -> None:
    script = (
        "import sys\n"
        "from fastrcaps_search.cli.main import main\n"
        f"try:\n    main(['{name}', '--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("module", ["cli.show", "cli.status", "cli.main"])
def test_status_and_select_need_neither_torch_nor_optuna(tmp_path: Path, module: str) -> None:
    script = (
        f"import sys, fastrcaps_search.{module}\n"
        "print([n for n in ('torch', 'optuna', 'plotly', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_studies_lists_the_shipped_ones_and_shows_one_in_full(cli: Cli) -> None:
    lines = cli("studies").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        *("fashion-mnist", "mnist", "mnist-mini"),
        *("paper-fashion-mnist", "paper-lenet5", "paper-mnist"),
    ]
    shown = cli("studies", "mnist-mini").stdout
    assert 'network = "capsnet-narrow"\n' in shown
    assert "adabatch_exponent = [3, 4, 5]\n" in shown
    assert shown.endswith("# valid; 76 configurations\n")


def test_doctor_says_what_is_here(cli: Cli) -> None:
    done = cli("doctor")
    assert done.returncode == 0
    facts = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert facts["python"] == sys.version.split()[0]
    assert "cpu (CPU " in done.stdout
    limited = cli("doctor", "--json", OMP_NUM_THREADS="1", SLURM_CPUS_PER_TASK="2")
    facts = json.loads(limited.stdout)
    by = "this machine" if cores().amount == 1 else "OMP_NUM_THREADS=1"
    assert (facts["cores"], facts["cores by"]) == (1, by)
    assert "data mnist-mini" in done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("status", "--study", "a", "--storage", "a.db"), "the working directory must be"),
        (("run", "--study", "mnist-mini", "--trials", "1"), "the working directory must be"),
        (("status", "--study", "/", "--storage", "/"), "/ must be a database, got a folder"),
    ],
)
def test_an_error_is_one_line_where_the_working_directory_is_gone(
    tmp_path: Path, line: tuple[str, ...], said: str
) -> None:
    (tmp_path / "gone").mkdir()
    python = (sys.executable, "-P", "-m", "fastrcaps_search")
    done = subprocess.run(
        ["sh", "-c", 'rmdir ../gone && exec "$@"', "sh", *python, *line],
        cwd=tmp_path / "gone",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith(f"fastrcaps-search: {said}")


def test_a_runtime_folder_that_cannot_be_used(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    folder = {"FASTRCAPS_RUNTIME_DIR": str(tmp_path / "open")}
    said = "with mode 0700, got mode 0755; fix or remove it, or name another with FASTRCAPS"
    done = cli("doctor", **folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert said in done.stdout
    done = cli("run", "--study", "mnist-mini", "--trials", "1", **folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (tmp_path / "fastrcaps.db").exists()
