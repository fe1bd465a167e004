"""A copy of the checkout, and small environments that borrow the dependencies installed here."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
NOT_SOURCE = (".git", ".*_cache", "__pycache__", "*.egg-info", "build", "dist", ".venv*")
RESULTS = ("*.db*", "*-files")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds setup.cfg."""
    return ROOT


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, symbolic links kept, for builds that leave files behind."""
    folder = tmp_path_factory.mktemp("source") / "checkout"
    ignore = shutil.ignore_patterns(*NOT_SOURCE, *RESULTS)
    shutil.copytree(ROOT, folder, symlinks=True, ignore=ignore)
    return folder


@pytest.fixture(scope="session")
def archives(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel (built from the sdist, as ``build`` does) and the sdist."""
    folder = tmp_path_factory.mktemp("archives")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source))
    return folder


@pytest.fixture(scope="session")
def wheel(archives: Path) -> Path:
    """The built wheel."""
    return next(archives.glob("*.whl"))


@pytest.fixture(scope="session")
def sdist(archives: Path) -> Path:
    """The built source archive."""
    return next(archives.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def borrowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to everything installed here, the package itself left out.

    Only a folder of links can leave it out: an editable install is found after all of
    ``sys.path``, so a path to the whole of site-packages would hide it.
    """
    folder = tmp_path_factory.mktemp("borrowed")
    for entry in SITE_PACKAGES.iterdir():
        if "fastrcaps_search" not in entry.name and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture(scope="session")
def environment_with(
    borrowed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Makes a virtual environment, installs into it without dependencies, gives its bin folder."""

    def make(*arguments: str) -> Path:
        folder = tmp_path_factory.mktemp("environment") / "venv"
        run(sys.executable, "-m", "venv", "--without-pip", str(folder))
        python = folder / "bin" / "python"
        packages = Path(run(str(python), "-c", PRINT_SITE_PACKAGES).strip())
        (packages / "borrowed.pth").write_text(f"{borrowed}\n")
        pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet")
        run(*pip, "--no-index", "--no-deps", "--no-build-isolation", *arguments)
        return folder / "bin"

    return make


PRINT_SITE_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


def run(*command: str, cwd: Path | None = None) -> str:
    """Runs a command that must succeed and gives what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(
            f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout
