from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import fastrcaps_search

ROOT_DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = (*ROOT_DOCUMENTS, "reports/README.md", "docs/differences.md")
COMMANDS = {
    *("run", "worker", "status", "trials", "front"),
    *("select", "compare", "export", "evaluate"),
    *("report", "rates", "studies", "doctor"),
}
# The paths in backquotes that name something of the checkout; the rest are made by a run.
IN_CHECKOUT = re.compile(
    r"`((?:fastrcaps_search|studies|docs|tests|\.ci)/[^`\s]*|[a-z]+\.(?:cfg|py))`"
)


@pytest.fixture(params=DOCUMENTS)
def document(request: pytest.FixtureRequest, checkout: Path) -> Path:
    return checkout / str(request.param)


def test_every_link_leads_to_a_file_or_to_a_heading(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    headings = {anchor(line) for line in text.splitlines() if line.startswith("#")}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings
        elif not target.startswith("https://"):
            assert (document.parent / target.partition("#")[0]).exists(), target


def anchor(heading: str) -> str:
    """The name under which a heading can be linked to."""
    words = re.sub(r"[^\w\s-]", "", heading.lstrip("#").strip().lower())
    return words.replace(" ", "-")


def test_every_path_of_the_checkout_that_is_named_exists(document: Path, checkout: Path) -> None:
    for path in IN_CHECKOUT.findall(document.read_text(encoding="utf-8")):
        assert (checkout / path).exists(), path


def test_the_readme_names_no_command_that_does_not_exist(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\s*(?:\.venv/bin/)?fastrcaps-search ([a-z]+)", text, re.MULTILINE))
    assert named
    assert named <= COMMANDS
    listed = set(re.findall(r"^\| `([a-z]+)[ `]", text, re.MULTILINE))
    assert listed >= COMMANDS


def test_the_study_file_in_the_readme_is_the_shipped_mnist_study(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    shown = next(block for block in map(tomllib.loads, blocks) if block["name"] == "mnist")
    shipped = tomllib.loads((checkout / "studies" / "mnist.toml").read_text(encoding="utf-8"))
    assert shown == shipped


def test_the_values_that_the_readme_says_are_left_out_are_the_defaults(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    shown = next(block for block in map(tomllib.loads, blocks) if "decay_steps" in block)
    defaults = fastrcaps_search.load_study("mnist").to_dict()
    assert len(shown) == 9
    assert shown == {key: defaults[key] for key in shown}


def test_the_readme_shows_the_two_commands_on_its_first_screen(checkout: Path) -> None:
    first_screen = (checkout / "README.md").read_text(encoding="utf-8").splitlines()[:25]
    for command in ("tests/quickstart", "tests/run"):
        assert any(line.startswith(command) for line in first_screen)


def test_the_plain_lines_of_the_readme_are_what_quickstart_runs(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = next(block for block in blocks if block.startswith("python3 -m venv")).splitlines()
    script = (checkout / "tests" / "quickstart").read_text(encoding="utf-8")
    script = script.replace('"$python"', "python3").replace("install --quiet", "install")
    assert len(lines) == 3
    for line in lines:
        assert line in script


def test_the_folder_map_of_the_readme_names_every_part_of_the_package(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^  ([a-z]+)/ ", text, re.MULTILINE))
    package = checkout / "fastrcaps_search"
    assert named == {path.parent.name for path in package.glob("*/__init__.py")}


def test_every_python_name_that_the_readme_shows_is_public(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    used = set(re.findall(r"\bfastrcaps_search\.(\w+)\(", text))
    assert used
    assert used <= set(fastrcaps_search.__all__)
