"""The job array of examples/array.sbatch on a real Slurm."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Command
    from tests.postgres import PostgresServer
    from tests.slurm import SlurmCluster

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "examples/array.sbatch"
Until = Callable[[Callable[[], object]], None]


class Array:
    """The script as a user submits it, with names and sizes of a small study.

    Args:
        slurm: Where to.
        home: Of the user; data and files lie there too.
        replaced: What stands in the script, and what is to stand there.
    """

    def __init__(self, slurm: SlurmCluster, home: Path, replaced: dict[str, str]) -> None:
        self._home = home
        text = SCRIPT.read_text(encoding="utf-8")
        small = {"--cpus-per-task=4": "--cpus-per-task=1", "--mem=8G": "--mem=500M"}
        for old, new in {"/shared": str(home), **small, **replaced}.items():
            assert old in text
            text = text.replace(old, new)
        (home / "array.sbatch").write_text(text)
        done = subprocess.run(
            slurm.line("sbatch", "--parsable", "array.sbatch"),
            cwd=home,
            env={**slurm.environment(), "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.number = done.stdout.strip()
        found = re.search(r"--array=(\d+)-(\d+)", text)
        assert found is not None
        self.indices = range(int(found[1]), int(found[2]) + 1)

    def log(self, index: int) -> str:
        """What one of its jobs has printed."""
        path = self._home / f"mnist-{self.number}_{index}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def home(
    command: Command,
    postgres_server: PostgresServer,
    postgres_url: str,
    make_home: Callable[[Path, str], None],
) -> Path:
    """A home that has what the script asks for."""
    # The network of that Slurm has no way to the server; its socket is there.
    name = postgres_url.replace(f"127.0.0.1:{postgres_server.port}", "")
    place = f"?host={postgres_server.folder}&port={postgres_server.port}"
    make_home(command.folder, f"{name}{place}")
    (command.folder / "data").mkdir()
    return command.folder


def test_an_array_ends_with_the_budget_though_one_of_its_jobs_is_cancelled(
    home: Path,
    steady_text: str,
    slurm: SlurmCluster,
    postgres_server: PostgresServer,
    postgres_url: str,
    until: Until,
) -> None:
    (home / "steady.toml").write_text(steady_text)
    replaced = {
        "--study mnist --trials 40": f"--study {home}/steady.toml --trials 2",
        "--array=1-8%4": "--array=1-4%2",
    }
    array = Array(slurm, home, replaced)

    def begun() -> list[int]:
        return [index for index in array.indices if " epoch 2: " in array.log(index)]

    until(begun)
    cancelled = begun()[0]
    assert slurm.run("scancel", f"{array.number}_{cancelled}").returncode == 0
    until(lambda: not slurm.jobs("PENDING", "RUNNING", "COMPLETING"))
    assert "the state is saved" in array.log(cancelled)
    others = [array.log(index) for index in array.indices if index != cancelled]
    assert len(others) == 3
    assert all("front: " in text or "nothing to train" in text for text in others)
    assert "continues at epoch" in "".join(others)
    assert postgres_url not in "".join(map(array.log, array.indices))
    rows = postgres_server.run_sql(
        postgres_url, "select count(accuracy), count(*), sum(deaths) from fastrcaps_runs"
    )
    assert rows == [(2, 2, 0)]


# Slurm counts limits of time in minutes.
@pytest.mark.endurance
def test_a_job_of_an_array_saves_before_its_time_is_over_and_the_next_goes_on(
    home: Path, steady_text: str, slurm: SlurmCluster, until: Until
) -> None:
    (home / "steady.toml").write_text(steady_text.replace("epochs = 20", "epochs = 5000"))
    replaced = {
        "--study mnist --trials 40": f"--study {home}/steady.toml --trials 1",
        "--array=1-8%4": "--array=1-2%1",
        "--time=04:00:00": "--time=00:01:00",
        "B:TERM@120": "B:TERM@20",
    }
    array = Array(slurm, home, replaced)
    until(lambda: "the state is saved" in array.log(1))
    until(lambda: "continues at epoch" in array.log(2))
    slurm.run("scancel", array.number)
    until(lambda: not slurm.jobs("PENDING", "RUNNING", "COMPLETING"))
    assert "TIME LIMIT" not in array.log(1)
