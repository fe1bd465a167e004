"""A page made by a real run shows what the command line says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.report.conftest import Opened

STUDY = """
extends = "mnist-mini"
name = "quick"
epochs = 2
boundaries = [1]
train_images = 80
"""


def command(folder: Path, *arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FASTRCAPS_")}
    return subprocess.run(
        [sys.executable, "-P", "-m", "fastrcaps_search", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# By default a stored study is compared, in test_criteria_in_browser, and a run's page is read, in
# tests/end_to_end.
@pytest.mark.endurance
@pytest.mark.slow
def test_the_page_of_a_run_shows_the_same_front_as_the_command(
    tmp_path: Path, open_page: Callable[..., Opened]
) -> None:
    (tmp_path / "quick.toml").write_text(STUDY)
    command(tmp_path, "run", "--study", "quick.toml", "--trials", "3", "--workers", "1")
    front = json.loads(command(tmp_path, "front", "--study", "quick", "--json"))
    trials = json.loads(command(tmp_path, "trials", "--study", "quick", "--json"))
    path = tmp_path / "reports" / "quick.html"

    opened = open_page(path)

    assert opened.complaints() == []
    assert opened.requests == [path.as_uri()]
    assert opened.embedded_front() == front
    assert opened.trials("front-table") == [row["trial"] for row in front]
    assert sorted(opened.trials("trials-table")) == [row["trial"] for row in trials]
