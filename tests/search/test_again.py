"""The line that goes on with a study asks for what its last run was asked for."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastrcaps_search.cli.main import build_parser
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.again import asked_flags, run_line, study_words
from fastrcaps_search.search.layouts import DeviceOptions
from fastrcaps_search.search.options import RunOptions
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import Location, chosen_location, locate
from fastrcaps_search.store.records import StudyRecord

TINY = StudyDefinition.from_dict({"name": "tiny", "network": "lenet5"})
SERVER = "postgresql://ann:s3cr3t@db.example/studies"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("FASTRCAPS_DATA", "FASTRCAPS_STORAGE", "FASTRCAPS_FILES"):
        monkeypatch.delenv(name, raising=False)


def asked(location: Location, **given: Any) -> StudyRecord:  # noqa: ANN401  # the options' own
    """The study after a run that was asked for so much."""
    usual = {"lease_seconds": 30.0, "store_patience": 600.0, "trials": 2}
    options = RunOptions(location=location, definition=TINY, **usual | given)
    record = StudyRecord(1, "tiny", "uid", TINY, 0, 2, 0.0)
    return replace(record, asked=asked_flags(options))


def parsed(line: str) -> Any:  # noqa: ANN401  # argparse's own
    words = shlex.split(line)
    assert words[:2] == ["fastrcaps-search", "run"]
    return build_parser(words[1:]).parse_args(words[1:])


def test_what_is_as_usual_needs_no_flag() -> None:
    location = chosen_location(None)
    line = run_line(asked(location), location, None)
    assert line == "fastrcaps-search run --study tiny"
    # Before its first run nothing is known.
    record = StudyRecord(1, "tiny", "uid", TINY, 0, 2, 0.0)
    assert run_line(record, location, None) == line


def test_all_that_was_asked_for_is_asked_for_again(tmp_path: Path) -> None:
    location = chosen_location("my studies.db", "s3://bucket/x")
    record = asked(
        location,
        data_folder=tmp_path / "some data",
        devices=DeviceOptions("cpu", None, 2, 3),
        jobs=4,
        launcher="slurm",
        launcher_options={"setup": ("module load cuda", "echo 'a b'"), "partition": ("short",)},
        lease_seconds=12.5,
        store_patience=1e7,
        max_failures=5,
    )
    line = run_line(record, location, "my studies.db", name="./my study.toml")
    found = parsed(line)
    assert (found.study, found.storage, found.files) == (
        *("./my study.toml", "my studies.db", "s3://bucket/x"),
    )
    assert found.data_dir == str(tmp_path / "some data")
    assert (found.devices, found.workers_per_device, found.threads) == ("cpu", 2, 3)
    assert (found.launcher, found.workers, found.max_failures) == ("slurm", 4, 5)
    assert (found.lease_seconds, found.store_patience) == (12.5, 1e7)
    assert found.launcher_option == [
        *(("setup", "module load cuda"), ("setup", "echo 'a b'"), ("partition", "short")),
    ]


def test_workers_that_were_asked_for_are_asked_for_with_their_threads() -> None:
    location = chosen_location(None)
    record = asked(location, devices=DeviceOptions("auto", 1, None, 1))
    line = run_line(record, location, None)
    assert line == "fastrcaps-search run --study tiny --threads 1 --workers 1"


def test_what_the_environment_names_needs_no_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTRCAPS_FILES", "s3://bucket/x")
    monkeypatch.setenv("FASTRCAPS_DATA", str(tmp_path))
    monkeypatch.setenv("FASTRCAPS_STORAGE", SERVER)
    location = chosen_location(None)
    record = asked(location, data_folder=tmp_path)
    assert run_line(record, location, None) == "fastrcaps-search run --study tiny"
    # Of a shell that has forgotten it, it does.
    monkeypatch.delenv("FASTRCAPS_FILES")
    assert run_line(record, location, None).endswith(" --files s3://bucket/x")


def test_no_secret_is_in_the_line_or_in_the_database(tmp_path: Path) -> None:
    location = locate(SERVER)
    setup = (
        "export AWS_SECRET_ACCESS_KEY=k3y-1 MORE=ok",
        'export HUB_TOKEN="k3y-2 k3y-3"; wget https://ann:k3y-4@host/x',
        f"psql {SERVER}",
    )
    record = asked(location, launcher="slurm", launcher_options={"setup": setup})
    line = run_line(record, location, SERVER)
    for words in (line, record.asked or ""):
        assert "k3y" not in words
        assert "s3cr3t" not in words
    assert '--storage "${FASTRCAPS_STORAGE:?}"' in line
    assert parsed(line).launcher_option == [
        ("setup", "export AWS_SECRET_ACCESS_KEY=*** MORE=ok"),
        ("setup", "export HUB_TOKEN=***; wget https://***@host/x"),
        ("setup", "psql postgresql://***@db.example/studies"),
    ]
    without = "postgresql://ann@db.example/studies"
    assert study_words("tiny", locate(without), without) == f"tiny --storage {without}"


def test_the_last_run_counts(tmp_path: Path) -> None:
    location = locate(str(tmp_path / "a.db"))
    enter = {"seed": None, "budget": 1}
    first = enter_study(location, TINY, **enter, flags='[["--threads", "2"]]')  # type: ignore[arg-type]
    assert first.asked == '[["--threads", "2"]]'
    # Whoever enters it otherwise changes nothing.
    assert enter_study(location, TINY, **enter).asked == first.asked  # type: ignore[arg-type]
    assert enter_study(location, TINY, **enter, flags="[]").asked == "[]"  # type: ignore[arg-type]
