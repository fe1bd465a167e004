"""Refused lines of ``run`` and ``worker``: one line is said, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import fastrcaps_search
from fastrcaps_search.errors import UsageError
from tests.conftest import Cli

NEW = ("run", "--study", "mnist-mini", "--trials", "2")
SLURM, RAY = (*NEW, "--launcher", "slurm"), (*NEW, "--launcher", "ray")
MEMORY = "files must be a folder or a URL such as s3://bucket/prefix, got a memory URL, "
NOWHERE = "/proc/nowhere must be a folder that can be written, got: No such file or directory; "


def option(*given: str) -> tuple[str, ...]:
    return tuple(word for one in given for word in ("--launcher-option", one))


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        ((*NEW, "--files", "memory://x"), 2, MEMORY),
        ((*NEW, "--files", "Memory://bucket/prefix"), 2, MEMORY),
        ((*NEW, "--files", "/proc/nowhere"), 1, f"{NOWHERE}fix it, or name another with --files"),
        ((*NEW, "--launcher", "nosuch"), 2, "launcher must be local or "),
        ((*NEW, *option("cpus=1")), 2, "--launcher-option must come with a launcher that places "),
        ((*NEW, "--detach"), 2, "--detach must come with a launcher that places workers "),
        ((*NEW, "--workers", "0"), 2, "workers must be a whole number of at least 1, got 0"),
        ((*NEW[:3],), 2, "--trials must be given to begin a search"),
        ((*NEW, "--devices", "cuda:63"), 2, "device cuda:63 must be on this machine, but it is "),
        (
            (*NEW, "--reference-device", "a card", "--devices", "cpu"),
            2,
            "the reference device must be what this run trains on, or what was calibrated for the "
            'study, got "a card"; it is CPU ',
        ),
        ((*NEW, "--reference-device", ""), 2, "reference_device must be the name of a device, "),
        (
            ("run", "--study", "paper-mnist", "--data-dir", "{images}"),
            1,
            "the images of mnist must be under ",
        ),
        ((*SLURM, *option("time=soon")), 2, 'the launcher option "time" of slurm must be min'),
        ((*SLURM, *option("nosuch=1")), 2, 'the launcher slurm must know its options, got "nos'),
        (
            (*SLURM, *option("cluster=local", "folder=/proc/nowhere")),
            1,
            f"{NOWHERE}fix it, or name another --launcher-option folder",
        ),
        (
            (*SLURM, *option("cluster=local"), "--workers", "0"),
            2,
            'study "mnist-mini" must be in ',
        ),
        ((*SLURM[:3], *SLURM[5:], *option("cluster=local")), 2, "--trials must be given to begin"),
        ((*RAY, *option("cpus=none")), 2, 'the launcher option "cpus" of ray must be a whole num'),
        ((*RAY, *option("cpus=1"), "--workers", "0"), 2, 'study "mnist-mini" must be in '),
        (("worker", "--study", "mnist-mini"), 2, "{folder}/fastrcaps.db must be a database with "),
        (("worker", "--study", "mnist-mini", "--workers", "0"), 2, "workers must be a whole num"),
        (("worker", "--study", "mnist-mini", "--launcher", "slurm"), 2, "worker must start its "),
        (("worker", "--study", "mnist-mini", "--files", "memory://x"), 2, MEMORY),
        (
            ("trials", "--study", "mnist-mini", "--exclude", "1", "--why", "it is wrong"),
            2,
            "{folder}/fastrcaps.db must be a database with a study, got no such file",
        ),
        (("export", "--study", "mnist-mini", "--out", "o", "--files", "memory://x"), 2, MEMORY),
    ],
)
def test_nothing_is_left_behind(
    call: Cli,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    arguments: tuple[str, ...],
    code: int,
    line: str,
) -> None:
    images = tmp_path_factory.mktemp("images")
    (images / "cat.png").touch()
    done = call(*(word.replace("{images}", str(images)) for word in arguments))
    (told,) = done.stderr.splitlines()
    assert told.startswith(f"fastrcaps-search: {line.replace('{folder}', str(tmp_path))}")
    assert (done.returncode, done.stdout) == (code, "")
    assert list(tmp_path.iterdir()) == []


def test_a_password_that_jobs_would_not_get_is_refused(
    call: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cr3t")
    done = call(*NEW, "--launcher", "slurm", "--storage", "postgresql://ann@db.invalid/studies")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "fastrcaps-search: the URL of the database must hold the password for slurm, got one in "
        "PGPASSWORD, which jobs do not get; "
    )
    assert list(tmp_path.iterdir()) == []


def test_nor_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"^{MEMORY}"):
        fastrcaps_search.run_study("mnist-mini", trials=2, files="memory://x")
    with pytest.raises(UsageError, match=r'^the launcher option "time" of slurm must be minutes'):
        fastrcaps_search.run_study(
            "mnist-mini", trials=2, launcher="slurm", launcher_options={"time": "soon"}
        )
    assert list(tmp_path.iterdir()) == []
