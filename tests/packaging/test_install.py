from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

SHIPPED = {
    "mnist",
    "fashion-mnist",
    "paper-mnist",
    "paper-fashion-mnist",
    "paper-lenet5",
    "mnist-mini",
}
COMMANDS = (
    *("run", "worker", "status", "trials", "front"),
    *("select", "compare", "export", "evaluate"),
    *("report", "rates", "studies", "doctor"),
)


@pytest.fixture(scope="module", params=["wheel", "sdist", "editable"])
def installed(
    request: pytest.FixtureRequest, source: Path, environment_with: Callable[..., Path]
) -> Path:
    if request.param == "editable":
        return environment_with("--editable", str(source))
    return environment_with(str(request.getfixturevalue(request.param)))


def in_empty_folder(bin_folder: Path, folder: Path, *command: str) -> str:
    """What an installed command prints, with nothing of the checkout within its reach."""
    folder.mkdir()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = str(bin_folder / command[0])
    done = subprocess.run(
        [program, *command[1:]], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(folder.iterdir()) == []
    return done.stdout


def test_the_installed_command_answers_help_and_names_every_command(
    installed: Path, tmp_path: Path
) -> None:
    printed = in_empty_folder(installed, tmp_path / "empty", "fastrcaps-search", "--help")
    for command in COMMANDS:
        assert command in printed.split()


def test_the_installed_command_lists_the_six_shipped_studies(
    installed: Path, tmp_path: Path
) -> None:
    printed = in_empty_folder(installed, tmp_path / "empty", "fastrcaps-search", "studies")
    first_words = {line.split()[0] for line in printed.splitlines() if line.strip()}
    assert first_words >= SHIPPED


def test_the_package_comes_from_the_install_and_not_from_the_checkout(
    installed: Path, checkout: Path, tmp_path: Path
) -> None:
    print_path = "import fastrcaps_search; print(fastrcaps_search.__path__[0])"
    printed = in_empty_folder(installed, tmp_path / "empty", "python", "-c", print_path)
    assert Path(printed.strip()).resolve() != (checkout / "fastrcaps_search").resolve()
    assert Path(printed.strip(), "py.typed").is_file()


def package_files(folder: Path) -> set[str]:
    """Every file of the package, relative to the checkout."""
    files = {path for path in (folder / "fastrcaps_search").rglob("*") if path.is_file()}
    return {str(path.relative_to(folder)) for path in files if path.suffix != ".pyc"}


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel: Path, source: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    studies = {f"fastrcaps_search/studies/{name}.toml" for name in SHIPPED}
    assert names == package_files(source) | studies


def test_the_sdist_holds_the_package_the_studies_the_tests_and_the_documents(
    sdist: Path, source: Path
) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert package_files(source) <= names
    expected = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "setup.py", "setup.cfg"}
    assert expected <= names
    assert {"tests/run", "tests/quickstart", "tests/postgres.py"} <= names
    assert {*(f"studies/{name}.toml" for name in SHIPPED), "docs/differences.md"} <= names


def test_the_wheel_asks_for_what_the_package_imports(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    assert "Requires-Python: >=3.11" in lines
    assert "Requires-Dist: torch>=2.6" in lines
    assert "Requires-Dist: optuna<6,>=5" in lines
    for extra in ("postgresql", "test"):
        assert f'Requires-Dist: psycopg[binary]>=3.2; extra == "{extra}"' in lines
