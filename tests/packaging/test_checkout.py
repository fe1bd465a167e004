from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

import fastrcaps_search

MACHINE_PATHS = re.compile(r"(?<![\w.$}])/(?:work|root|opt|Users)/\S")
# Spelled in pieces, so that this file does not name them itself.
HOSTS = re.compile(
    "|".join(("files.python" + "hosted", r"py" + r"pi\.org", r"download\.py" + "torch"))
)
ANNOTATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.AnnAssign)
BINARY = {".png", ".gz", ".ico"}


@pytest.fixture(scope="module")
def files(checkout: Path) -> list[Path]:
    """The tracked files and those that are about to be."""
    if not (checkout / ".git").exists():
        pytest.skip("the list of files comes from git, and this is not a git checkout")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    paths = [checkout / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_file_names_a_path_of_one_machine_or_a_registry(files: list[Path]) -> None:
    found = []
    for path in files:
        if path.suffix in BINARY:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if MACHINE_PATHS.search(line) or HOSTS.search(line):
                found.append(f"{path.name}:{number}: {line.strip()[:120]}")
    assert len(files) > 20
    assert found == []


def test_every_python_file_parses_and_defers_its_annotations(files: list[Path]) -> None:
    sources = [path for path in files if path.suffix == ".py"]
    assert sources
    for path in sources:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        annotated = any(isinstance(node, ANNOTATED) for node in ast.walk(tree))
        assert "__future__" in modules or not annotated, path


def test_no_file_is_a_link_which_some_checkouts_make_a_text_file(
    files: list[Path], checkout: Path
) -> None:
    assert files
    tracked = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=checkout, capture_output=True, text=True, check=True
    )
    assert [line for line in tracked.stdout.splitlines() if line.startswith("120000")] == []


def test_the_public_names_are_sorted_and_there() -> None:
    names: list[str] = fastrcaps_search.__all__
    assert names == sorted(names)
    for name in names:
        assert getattr(fastrcaps_search, name) is not None
