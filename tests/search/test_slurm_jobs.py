"""What the Slurm engine asks for, and how it reads what Slurm says."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import subprocess
from pathlib import Path

import pytest

import fastrcaps_search
from fastrcaps_search.errors import UsageError
from fastrcaps_search.search.engines import JobState, WorkerJob
from fastrcaps_search.search.launchers import chosen_engine, read_options
from fastrcaps_search.search.slurm import COLUMNS, SLURM, _placed, clean_environment, script
from fastrcaps_search.search.slurm_here import LocalJobs
from fastrcaps_search.search.slurm_options import SlurmOptions
from tests.store.workers import until

JOB = WorkerJob(
    name="fastrcaps-s-01234567",
    command=("-m", "fastrcaps_search", "worker", "--study=s"),
    environment={"FASTRCAPS_STORAGE_FILE": "/shared/a folder/storage"},
    log=Path("/shared/100%/worker-1.log"),
)


def options(*given: str) -> SlurmOptions:
    pairs = [(name, value) for name, _, value in (one.partition("=") for one in given)]
    return SlurmOptions.of(read_options(pairs))


def asked(*given: str) -> list[str]:
    """What a script asks ``sbatch`` for."""
    text = script(JOB, options(*given), log=JOB.log, command="exec true")
    return re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)


def test_a_job_asks_for_what_was_named_and_for_nothing_else_of_submitit() -> None:
    assert asked() == [
        "--job-name=fastrcaps-s-01234567",
        "--no-requeue",
        "--nodes=1",
        "--open-mode=append",
        "--output=/shared/100%%/worker-1.log",
        "--signal=B:TERM@120",
    ]
    given = (
        *("partition=gpu", "account=caps", "qos=long", "time=2:30:00", "gpus=a100:2", "cpus=8"),
        *("memory=32G", "constraint=zen4&ib", "exclude=node[1-3]", "reservation=week"),
    )
    assert asked(*given) == [
        "--account=caps",
        "--constraint='zen4&ib'",
        "--cpus-per-task=8",
        "--exclude='node[1-3]'",
        "--gpus-per-node=a100:2",
        "--job-name=fastrcaps-s-01234567",
        "--mem=32G",
        "--no-requeue",
        "--nodes=1",
        "--open-mode=append",
        "--output=/shared/100%%/worker-1.log",
        "--partition=gpu",
        "--qos=long",
        "--reservation=week",
        "--signal=B:TERM@120",
        "--time=150",
    ]


@pytest.mark.parametrize(
    ("time", "minutes", "signal"),
    [("1", 1, 20), ("5", 5, 100), ("6", 6, 120), ("00:00:40", 1, 13), ("1-00:00:01", 1441, 120)],
)
def test_a_short_limit_leaves_a_third_to_save(time: str, minutes: int, signal: int) -> None:
    assert {f"--time={minutes}", f"--signal=B:TERM@{signal}"} < set(asked(f"time={time}"))


def test_a_script_sets_up_hides_the_address_and_stops_where_a_line_fails(tmp_path: Path) -> None:
    set_up = options("setup=export SEEN=yes", "setup=test -z $STOP || exit 3")
    told = "echo $SEEN ${FASTRCAPS_STORAGE-none} $FASTRCAPS_STORAGE_FILE"
    path = tmp_path / "job.sh"
    path.write_text(script(JOB, set_up, log=JOB.log, command=told))
    base = {**os.environ, "FASTRCAPS_STORAGE": "postgresql://u:s3cr3t@h/d"}

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        line = ["bash", str(path)]
        return subprocess.run(
            line, env=base | variables, capture_output=True, text=True, check=False
        )

    assert run().stdout == "yes none /shared/a folder/storage\n"
    assert (run(STOP="now").stdout, run(STOP="now").returncode) == ("", 3)


def test_a_job_is_handed_the_environment_without_secrets_and_another_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FASTRCAPS_STORAGE", "PGPASSWORD", "SLURM_CPUS_PER_TASK", "SLURM_CONF", "MINE"):
        monkeypatch.setenv(name, name)
    found = clean_environment()
    assert {"SLURM_CONF", "MINE"} < found.keys()
    assert not {"FASTRCAPS_STORAGE", "PGPASSWORD", "SLURM_CPUS_PER_TASK"} & found.keys()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("partition=two words", 'be one word, got "two words"'),
        ("time=soon", 'be minutes, or [DAYS-]HH:MM:SS, got "soon"'),
        ("time=0:00:00", 'be minutes, or [DAYS-]HH:MM:SS, got "0:00:00"'),
        ("gpus=all", 'be a whole number, or as in a100:1, got "all"'),
        ("cpus=0", 'be a whole number from 1, got "0"'),
        ("memory=lots", 'be as in 8G, got "lots"'),
        ("cluster=moon", 'be slurm or local, got "moon"'),
        ("signal-seconds=-1", 'be seconds, as in 120, got "-1"'),
    ],
)
def test_a_value_that_cannot_be_is_refused(given: str, line: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"of slurm must {line}; correct it")):
        options(given)


def test_a_signal_must_come_before_the_end_and_values_come_once() -> None:
    with pytest.raises(UsageError, match=r'must be less than the 60 s of time, got "60"'):
        options("time=1", "signal-seconds=60")
    with pytest.raises(UsageError, match=r'"account" of slurm must be given once, got "a and b"'):
        options("account=a", "account=b")


@pytest.mark.parametrize(
    ("launcher", "name", "known"),
    [
        ("slurm", "partitoin", "closest: partition"),
        ("ray", "cpu", "closest: cpus; "),
        ("slurm", "x", f"it knows: {', '.join(SLURM.options)}"),
        ("ray", "x" * 1000, "it knows: address, cpus, gpus, memory, resources, setup, "),
    ],
)
def test_an_unknown_option_is_refused_with_those_that_are_known(
    launcher: str, name: str, known: str
) -> None:
    with pytest.raises(UsageError) as error:
        chosen_engine(launcher, {name: ["1"]}, detach=False)
    line = str(error.value)
    assert f'the launcher {launcher} must know its options, got "{name[:40]}' in line
    assert f"; {known}" in line
    assert line.endswith("; see docs/clusters.md")
    assert len(line) < 240


def test_what_places_workers_elsewhere_is_refused_here() -> None:
    for options_, detach, given in (
        ({"cpus": ["1"]}, False, "--launcher-option"),
        ({}, True, "--detach"),
    ):
        with pytest.raises(UsageError, match=rf"{given} must come with a launcher that places"):
            chosen_engine("local", options_, detach=detach)


def test_without_slurm_its_absence_is_said_in_one_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as error:
        SLURM.open({})
    assert str(error.value).startswith(
        "the launcher slurm must find Slurm's commands here, got: squeue: No such file or "
        "directory; run it where "
    )


def test_jobs_of_this_machine_share_its_cores_under_the_name_of_the_launcher(
    tmp_path: Path,
) -> None:
    tells = "import os; print(*map(os.environ.get, ('SLURM_CPUS_PER_TASK', 'FASTRCAPS_JOB')))"
    told = []
    for number, given in enumerate([(), ("cpus=5",)]):
        cluster = LocalJobs(options("cluster=local", *given))
        log = tmp_path / f"worker-{number}.log"
        job = dataclasses.replace(JOB, command=("-c", tells), log=log, cores=3)
        assert cluster.share(job).startswith(f"{'5' if given else '3'} of the cores")
        id = cluster.place(job)
        ended = tmp_path / id / "ended"
        until(lambda ended=ended: ended.exists() and ended.read_text())  # type: ignore[misc]
        (one,) = cluster.jobs(JOB.name)
        assert one.log is not None
        told.append(one.log.read_text().splitlines()[-1])
    assert told == ["3 slurm worker-0", "5 slurm worker-1"]


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        ("PENDING", "0", (JobState.WAITING, "Resources", False)),
        ("RUNNING", "0", (JobState.RUNNING, "Resources", False)),
        ("COMPLETED", "0", (JobState.ENDED, "", False)),
        ("FAILED", str(3 << 8), (JobState.ENDED, "FAILED, exit code 3", True)),
        ("FAILED", str(130 << 8), (JobState.ENDED, "asked to stop, saved", False)),
        ("FAILED", "130", (JobState.ENDED, "asked to stop, saved", False)),
        ("TIMEOUT", "15", (JobState.ENDED, "TIMEOUT", False)),
        ("PREEMPTED", "9", (JobState.ENDED, "PREEMPTED", False)),
        ("OUT_OF_MEMORY", "9", (JobState.ENDED, "OUT_OF_MEMORY", True)),
        ("NODE_FAIL", "", (JobState.ENDED, "NODE_FAIL", True)),
    ],
)
def test_what_squeue_says(state: str, status: str, expected: tuple[JobState, str, bool]) -> None:
    facts = {"JobID": "12", "State": state, "exit_code": status, "NodeList": "node[1-2]"}
    facts |= {"Reason": "Resources", "StdOut": "/a folder/worker-1.log"}
    job = _placed("".join(facts[name].ljust(width) for name, width in COLUMNS.items()))
    assert (job.id, job.host, job.log) == ("12", "node[1-2]", Path("/a folder/worker-1.log"))
    assert (job.state, job.reason, job.has_failed) == expected


def test_python_refuses_the_same_before_anything_is_made(tmp_path: Path) -> None:
    run = functools.partial(
        fastrcaps_search.run_study, "mnist-mini", trials=1, storage=tmp_path / "a.db"
    )
    with pytest.raises(UsageError, match=r'must know its options, got "x"; it knows: partition, '):
        run(launcher="slurm", launcher_options={"x": "1"})
    with pytest.raises(
        UsageError, match=r"^workers must be a whole number of at least 0, got -1$"
    ):
        run(launcher="slurm", workers=-1)
    with pytest.raises(UsageError, match=r"^--detach must come with a launcher that places"):
        run(detach=True)
    assert not list(tmp_path.iterdir())
