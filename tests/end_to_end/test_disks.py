"""A whole run on disks of other kinds, on a full one, and within limits."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fastrcaps_search.processes import child_command
from fastrcaps_search.training.resources import GRANTS, cores

if TYPE_CHECKING:
    from tests.conftest import Cli

RUN = ("run", "--study", "quick.toml", "--trials", "1")

# What CIFS, DrvFs and shared folders of virtual machines refuse, in every process.
OTHER_DISK = """
import errno
import os
import stat

flush, replace = os.fsync, os.replace


def fsync(file):
    raise OSError(errno.EIO if stat.S_ISDIR(os.fstat(file).st_mode) else errno.EINVAL, "refused")


def replace_nothing(old, new, **named):
    if os.path.lexists(new):
        raise OSError(errno.EEXIST, "refused")
    replace(old, new, **named)


os.fsync, os.replace = fsync, replace_nothing
"""


@pytest.fixture
def quick(cli: Cli, tmp_path: Path, quick_text: str) -> Cli:
    """The command beside the quick study, with nothing that limits its cores."""
    (tmp_path / "quick.toml").write_text(quick_text)
    return cli


@pytest.fixture(autouse=True)
def nothing_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in GRANTS:
        monkeypatch.delenv(name, raising=False)


def test_a_disk_that_neither_flushes_nor_replaces_costs_nothing(
    quick: Cli, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(OTHER_DISK)
    path = os.pathsep.join(filter(None, (str(tmp_path / "site"), os.environ.get("PYTHONPATH"))))
    within = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = quick(*RUN, **within)
    assert (done.returncode, done.stderr) == (0, "")
    assert "this checkpoint" not in done.stdout
    named = " (cores: 1 by OMP_NUM_THREADS=1)" if cores().amount > 1 else ""
    assert f"; 1 worker with 1 thread{named} on CPU " in done.stdout
    # The page and an empty folder are replaced.
    for arguments in (
        ("report", "--study", "quick"),
        ("export", "--study", "quick", "--out", "n"),
    ):
        (tmp_path / "n").mkdir(exist_ok=True)
        done = quick(*arguments, **within)
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "n" / "network.json").read_text())["trial"] == 0


def test_a_full_disk_costs_the_network_and_says_so(
    quick: Cli, mount_disk: Callable[[int], Path]
) -> None:
    disk = mount_disk(1)
    # Room for the logs.
    (disk / "filler").write_bytes(bytes(900_000))
    done = quick(*RUN, "--workers", "1", "--files", str(disk))
    assert done.returncode == 0
    lost = "No space left on device; the trial ends with its values, but without this network"
    assert lost in done.stdout
    assert "last good checkpoint" not in done.stdout + done.stderr
    assert "warning: on the front without a network: 0; `export` needs one, which " in done.stderr
    (row,) = json.loads(quick("front", "--study", "quick", "--json").stdout)
    assert (row["trial"], row["runs"]) == (0, 1)
    done = quick("export", "--study", "quick", "--out", "n", "--files", str(disk))
    assert done.returncode == 2
    assert "trial must be one whose network is kept (none), got 0; " in done.stderr


@pytest.mark.parametrize("options", ["ro", "size=4k"])
def test_layouts_are_compared_without_shared_memory_files(options: str) -> None:
    study = {"name": "s", "network": "lenet5", "train_images": 100}
    question = {
        **{"definition": study, "device": "cpu", "batch_sizes": [16]},
        **{"layouts": [(1, 2), (2, 1)], "networks": [(None, None)]},
    }
    mounted = f'mount -t tmpfs -o {options} tmpfs /dev/shm && exec "$@"'
    within = ["unshare", "--mount", "sh", "-c", mounted, "sh"]
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount another /dev/shm")
    done = subprocess.run(
        [*within, *child_command("fastrcaps_search.training.probe")],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [layout[:2] for layout in answer["measured"]] == [[1, 2], [2, 1]]
    assert answer["left_out"] == ""
