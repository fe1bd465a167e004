"""Every fenced block of README and docs is run, or is listed here with the reason why it is not.

They run in a folder where the shipped studies are replaced by tiny ones of the same names: the
lines are those of the documents, the trainings take no time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import fastrcaps_search
from fastrcaps_search.definition.load import load_study
from fastrcaps_search.definition.study import StudyDefinition

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))

NOT_RUN = {
    "tests/quickstart": "the two set-up commands; `.ci/run` runs the second one",
    "python3 -m venv .venv": "what tests/quickstart does, line by line; compared with it below",
    "python examples/train_one.py mnist-mini": "run below, on a study that takes no time",
    "docker build --file examples/Dockerfile --tag fastrcaps-search .": "needs an engine; "
    "tests/end_to_end/test_containers.py does what it starts, under its conditions",
    'kubectl create secret generic fastrcaps --from-file=storage="$HOME/fastrcaps-storage"': ""
    "needs a cluster; tests/end_to_end/test_containers.py does what its pods do",
    "sbatch examples/array.sbatch": "tests/end_to_end/test_array.py runs the file on a Slurm",
    "fastrcaps-search run --study mnist --trials 40 --files /shared/fastrcaps-files": "of two "
    "machines; tests/end_to_end/test_over_ssh.py runs the file",
    "pip install '.[slurm,postgresql]'": "tests/end_to_end/test_slurm.py does so on a real Slurm",
    "pip install '.[ray,postgresql]'": "tests/end_to_end/test_ray.py does so on a real cluster",
    "python -m tests.benchmarks.many_workers": "takes minutes; tests/search/test_many_workers.py "
    "is the short one",
    'fastrcaps-search run --study mnist --trials 40 --reference-device "NVIDIA H200"': "needs the "
    "card; tests/search/test_orchestrator.py names one that is not here",
    "pip install .": "asks the package index; tests/packaging/test_install.py installs the wheel",
}
"""First lines of blocks of commands that no test runs, and why."""

SHOWN = {"text": "what a command prints", "bibtex": "how to cite the paper"}
"""Languages of blocks that are no commands."""

TINY = """
name = "{name}"
network = "lenet5"
data_set = "mnist-mini"
epochs = 2
boundaries = [1]
batch_size = 8
train_images = 250
[space]
lr_policy = ["fixed", "exponential_decay", "one_cycle", "warm_restarts"]
batch_policy = ["constant"]
"""
"""Four configurations, however many trials are asked for."""

REPLACED = """
import runpy
import sys
from pathlib import Path

from fastrcaps_search.definition import load

sys.argv = sys.argv[1:]
if sys.argv[1:2] != ["studies"]:
    load.SHIPPED = Path(__file__).parent / "studies"
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program of Python with the tiny studies instead of the shipped ones, but for the command
that only shows studies."""

SECONDS = 200
"""The longest that a block may take: a few, unless the machine is busy."""


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        document: Its document, from the checkout.
        line: Line of its fence.
        language: What stands beside the fence.
        text: What is inside.
    """

    document: str
    line: int
    language: str
    text: str

    @property
    def first_line(self) -> str:
        """Without the comment behind it."""
        return self.text.split("\n", 1)[0].partition("    #")[0].rstrip()


def blocks_of(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(document, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]


def blocks_in(*languages: str) -> pytest.MarkDecorator:
    """One test for each block in these languages that is not listed."""
    chosen = [b for b in BLOCKS if b.language in languages and b.first_line not in NOT_RUN]
    return pytest.mark.parametrize("block", chosen, ids=lambda one: f"{one.document}:{one.line}")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny studies of the shipped names, two of them trained, and an export."""
    folder = tmp_path_factory.mktemp("prepared")
    for name in ("studies", "bin", "work/data"):
        (folder / name).mkdir(parents=True)
    for name in load_names():
        # A page compares with the paper's, and no block trains them.
        real = (ROOT / f"studies/{name}.toml").read_text(encoding="utf-8")
        text = real if name.startswith("paper-") else TINY.format(name=name)
        (folder / f"studies/{name}.toml").write_text(text)
    (folder / "replaced.py").write_text(REPLACED)
    python = f'#!/bin/sh\nexec {sys.executable} -P {folder}/replaced.py "$@"\n'
    command = Path(fastrcaps_search.__path__[0]) / "__main__.py"
    programs = {"python": python, "fastrcaps-search": python.replace('"$@"', f'{command} "$@"')}
    for name, text in programs.items():
        (folder / f"bin/{name}").write_text(text)
        (folder / f"bin/{name}").chmod(0o755)
    lines = [
        "fastrcaps-search run --quiet --workers 2 --study mnist-mini --trials 12",
        "fastrcaps-search export --study mnist-mini --out network",
    ]
    run(lines, folder / "work", programs=folder / "bin")
    return folder


def load_names() -> list[str]:
    return sorted(path.stem for path in (ROOT / "studies").glob("*.toml"))


@pytest.fixture(scope="module")
def sandbox_of(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives each document a copy of the trained studies, with the study files that it shows."""
    made: dict[str, Path] = {}

    def sandbox(document: str) -> Path:
        if document not in made:
            folder = tmp_path_factory.mktemp("sandbox") / "work"
            shutil.copytree(prepared / "work", folder)
            (folder / "examples").symlink_to(ROOT / "examples")
            for block in BLOCKS:
                if block.document == document and file_name(block):
                    (folder / file_name(block)).write_text(block.text)
            made[document] = folder
        return made[document]

    return sandbox


def file_name(block: Block) -> str:
    """The name that a study file gives itself in its first line, if it does."""
    found = re.match(r"# ([a-z-]+\.toml)\n", block.text)
    return found[1] if found else ""


def run(lines: list[str], folder: Path, *, programs: Path) -> str:
    """What the lines print; the first that fails ends them, and the test."""
    kept = {name: value for name, value in os.environ.items() if "FASTRCAPS_" not in name}
    kept["FASTRCAPS_RUNTIME_DIR"] = os.environ["FASTRCAPS_RUNTIME_DIR"]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env={**kept, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


@blocks_in("sh", "bash")
def test_the_commands_of_a_document_do_what_they_say(
    block: Block,
    prepared: Path,
    sandbox_of: Callable[[str], Path],
    request: pytest.FixtureRequest,
) -> None:
    folder, text = sandbox_of(block.document), block.text
    text = text.replace("/shared/", f"{folder}/shared/")
    if "--out network" in text:
        shutil.rmtree(folder / "network")
    if "postgresql://" in text:
        url = request.getfixturevalue("postgres_url")
        text = re.sub(r"postgresql://\S+", url, text)
    if "s3://" in text:
        text = text.replace("s3://bucket/prefix", request.getfixturevalue("s3_url"))
        # The server's stand in the environment.
        text = re.sub(r"export AWS_\S+ AWS_\S+", "true", text)
    assert run([text], folder, programs=prepared / "bin")


@blocks_in("python")
def test_the_python_of_a_document_does_what_it_says(
    block: Block, prepared: Path, sandbox_of: Callable[[str], Path]
) -> None:
    folder = sandbox_of(block.document)
    (folder / "block.py").write_text(block.text)
    assert run(["python block.py"], folder, programs=prepared / "bin")


@blocks_in("toml")
def test_the_study_files_of_a_document_can_be_loaded(block: Block, tmp_path: Path) -> None:
    file = tmp_path / (file_name(block) or "block.toml")
    file.write_text(block.text)
    assert load_study(str(file)).name == tomllib.loads(block.text).get("name", file.stem)


def test_every_block_is_run_or_listed() -> None:
    known = {"sh", "bash", "python", "toml", *SHOWN}
    assert [block for block in BLOCKS if block.language not in known] == []
    assert {block.first_line for block in BLOCKS} >= NOT_RUN.keys()


def test_the_study_file_that_is_shown_in_full_is_the_shipped_one() -> None:
    shown = {
        block.document: StudyDefinition.from_dict(tomllib.loads(block.text))
        for block in BLOCKS
        if block.language == "toml" and 'name = "mnist"' in block.text
    }
    assert "docs/study-files.md" in shown
    assert all(found == load_study("mnist") for found in shown.values())


def test_the_values_that_are_said_to_be_left_out_are_the_defaults() -> None:
    shown = next(tomllib.loads(b.text) for b in BLOCKS if "with-defaults" in b.text)
    defaults = StudyDefinition(name="with-defaults", space=load_study("mnist").space).to_dict()
    assert {shown.pop("train_images"), shown.pop("min_accuracy")} == {4000, 0.97}
    assert len(shown) == 13
    assert shown == {key: defaults[key] for key in shown}


def test_the_example_trains_and_prints_the_three_objectives(
    prepared: Path, sandbox_of: Callable[[str], Path]
) -> None:
    assert len((ROOT / "examples/train_one.py").read_text(encoding="utf-8").splitlines()) <= 30
    (study := sandbox_of("example") / "own.toml").write_text(TINY.format(name="own"))
    printed = run(
        [f"python examples/train_one.py {study}"], study.parent, programs=prepared / "bin"
    )
    last = printed.splitlines()[-1]
    assert re.fullmatch(r"accuracy \d+\.\d+%, \d+\.\d s, 61,706 parameters", last), printed
