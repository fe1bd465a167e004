from __future__ import annotations

import re
from pathlib import Path

import pytest

import fastrcaps_search

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("", "docs", "reports")
    for path in (ROOT / folder).glob("*.md")
)
COMMANDS = {
    *("run", "worker", "status", "trials", "front"),
    *("select", "compare", "export", "evaluate"),
    *("report", "rates", "studies", "doctor"),
}
# The paths in backquotes that name something of the checkout or, in ARCHITECTURE.md, of the
# package; the rest are made by a run.
IN_CHECKOUT = re.compile(
    r"`((?:fastrcaps_search|studies|docs|examples|tests|\.ci)/[^`\s]*|[a-z_/]+\.(?:cfg|py))`"
)


@pytest.fixture(params=DOCUMENTS)
def document(request: pytest.FixtureRequest, checkout: Path) -> Path:
    return checkout / str(request.param)


def test_every_link_leads_to_a_file_or_to_a_heading(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, heading = target.partition("#")
        linked = document.parent / path if path else document
        assert linked.exists(), target
        if heading:
            lines = linked.read_text(encoding="utf-8").splitlines()
            assert heading in {anchor(line) for line in lines if line.startswith("#")}, target


def anchor(heading: str) -> str:
    """The name under which a heading can be linked to."""
    words = re.sub(r"[^\w\s-]", "", heading.lstrip("#").strip().lower())
    return words.replace(" ", "-")


def test_every_path_of_the_checkout_that_is_named_exists(document: Path, checkout: Path) -> None:
    for path in IN_CHECKOUT.findall(document.read_text(encoding="utf-8")):
        folders = (checkout, checkout / "fastrcaps_search")
        assert any((folder / path).exists() for folder in folders), path


def test_the_documents_name_no_command_that_does_not_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"^\s*(?:\.venv/bin/)?fastrcaps-search ([a-z]+)", text, re.MULTILINE))
    assert named <= COMMANDS


def test_the_readme_lists_every_command(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+)[ `]", text, re.MULTILINE)) == COMMANDS


def test_every_page_begins_with_its_question_and_is_linked_from_the_readme(checkout: Path) -> None:
    readme = (checkout / "README.md").read_text(encoding="utf-8")
    for page in (checkout / "docs").glob("*.md"):
        first = page.read_text(encoding="utf-8").splitlines()[0]
        assert re.fullmatch(r"# .+\?", first), page
        assert f"[{first[2:]}](docs/{page.name})" in readme


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


def test_the_map_of_the_folders_names_every_part_of_the_package(checkout: Path) -> None:
    text = (checkout / "ARCHITECTURE.md").read_text(encoding="utf-8")
    layers = text.split("```text\n")[1].split("```")[0].splitlines()
    named = {name for line in layers for name in re.findall(r"([a-z]+)/", line[:18])}
    package = checkout / "fastrcaps_search"
    assert named == {path.parent.name for path in package.glob("*/__init__.py")}


def test_every_python_name_that_the_documents_show_is_public(document: Path) -> None:
    used = re.findall(r"\bfastrcaps_search\.(\w+)\(", document.read_text(encoding="utf-8"))
    assert set(used) <= set(fastrcaps_search.__all__)


def test_the_pages_name_every_public_python_name(checkout: Path) -> None:
    text = (checkout / "docs/json-and-python.md").read_text(encoding="utf-8")
    assert [name for name in fastrcaps_search.__all__ if f"`{name}`" not in text] == []
