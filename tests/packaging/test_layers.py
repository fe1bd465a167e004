from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

CONTRACTS = {
    "layers": "imports point down only",
    "torch": "torch only in capsnet, training and export, torchvision only in data.download",
    "optuna": "optuna only in search, and where trials are made Optuna's",
    "plotly": "plotly only in report.plotly_io",
}


@pytest.fixture
def copy(source: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(source / "fastrcaps_search", folder / "fastrcaps_search")
    shutil.copy(source / "setup.cfg", folder)
    return folder


def check_layers(folder: Path) -> tuple[int, str]:
    program = Path(sysconfig.get_path("scripts"), "lint-imports")
    done = subprocess.run(
        [sys.executable, str(program), "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_the_package_keeps_every_contract(copy: Path) -> None:
    code, printed = check_layers(copy)
    assert code == 0, printed
    for name in CONTRACTS.values():
        assert f"{name} KEPT" in printed


@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        ("errors.py", "fastrcaps_search.cli", "layers"),
        ("training/__init__.py", "fastrcaps_search.store", "layers"),
        ("report/__init__.py", "fastrcaps_search.search", "layers"),
        ("export/__init__.py", "fastrcaps_search.analysis", "layers"),
        ("training/__init__.py", "fastrcaps_search.export", "layers"),
        ("disk.py", "fastrcaps_search.definition", "layers"),
        ("search/__init__.py", "torch", "torch"),
        ("cli/__init__.py", "torchvision", "torch"),
        ("front/__init__.py", "optuna", "optuna"),
        ("report/planted.py", "plotly", "plotly"),
    ],
)
def test_a_planted_import_breaks_its_contract(
    copy: Path, module: str, planted: str, contract: str
) -> None:
    with (copy / "fastrcaps_search" / module).open("a") as file:
        file.write(f"\nimport {planted}\n")
    code, printed = check_layers(copy)
    assert code == 1, printed
    assert f"{CONTRACTS[contract]} BROKEN" in printed
