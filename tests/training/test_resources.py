"""Cores and memory of this machine, of pretended containers and of a real control group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from fastrcaps_search.training import resources
from fastrcaps_search.training.resources import GRANTS, core_ids, cores, granted_cores, memory

HERE = len(os.sched_getaffinity(0))
VERSION_2 = "30 23 0:26 / {top} ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate"
HYBRID = """\
31 23 0:28 / {top} rw,relatime - tmpfs  rw,mode=755
32 31 0:29 / {top}/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / {top}/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / {top}/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / {top}/unified rw,relatime - cgroup2 cgroup2 rw"""
OF_DOCKER = """\
613 612 0:30 /docker/5f1c {top}/cpu ro,nosuid master:14 - cgroup cgroup rw,cpu,cpuacct
614 612 0:33 /docker/5f1c {top}/memory ro,nosuid master:17 - cgroup cgroup rw,memory"""
UNLIMITED = "9223372036854771712"


@pytest.fixture(autouse=True)
def pretend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str, Mapping[str, str]], Path]:
    """Makes the files of control groups; there are none at first, and nothing is granted.

    Takes the lines of /proc/self/cgroup and of mountinfo, and contents by path below {top}.
    """
    monkeypatch.setattr(resources, "PROCESS", tmp_path)
    for name in GRANTS:
        monkeypatch.delenv(name, raising=False)

    def make(own: str, mounts: str, contents: Mapping[str, str]) -> Path:
        top = tmp_path / "sys"
        (tmp_path / "cgroup").write_text(own)
        (tmp_path / "mountinfo").write_text(mounts.format(top=top) + "\n")
        for name, content in contents.items():
            file = top / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content + "\n")
        return top

    return make


Pretend = Callable[[str, str, Mapping[str, str]], Path]


@pytest.fixture
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 16 cores, all of which this process may use."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    monkeypatch.setattr(os, "cpu_count", lambda: 16)


@pytest.mark.parametrize(
    ("quota", "found"),
    [
        (None, HERE),
        ("max 100000", HERE),
        ("100000 100000", 1),
        ("50000 100000", 1),  # half a core is one thread
        ("190000 100000", 1),
        ("6400000 100000", HERE),
        ("", HERE),
    ],
)
def test_cores_are_those_of_the_affinity_within_the_quota(
    pretend: Pretend, quota: str | None, found: int
) -> None:
    pretend("0::/\n", VERSION_2, {} if quota is None else {"cpu.max": quota})
    assert cores().amount == found


# What the kernel shows of a process in the group, its mounts, the files, and the least limits:
# cores and which file says so, bytes and which says so.
@pytest.mark.parametrize(
    ("own", "mounts", "contents", "quota", "limit"),
    [
        # A container of version 2 sees its own group as the topmost.
        (
            "0::/\n",
            VERSION_2,
            {"cpu.max": "350000 100000", "memory.max": "2147483648"},
            (3, ""),
            (2147483648, ""),
        ),
        # A service of systemd below a slice with a lower quota, and with MemoryHigh.
        (
            "0::/user.slice/user-7.slice/train.service\n",
            VERSION_2,
            {
                "user.slice/cpu.max": "max 100000",
                "user.slice/user-7.slice/cpu.max": "200000 100000",
                "user.slice/user-7.slice/train.service/cpu.max": "800000 100000",
                "user.slice/user-7.slice/memory.max": "max",
                "user.slice/user-7.slice/train.service/memory.max": "4000000000",
                "user.slice/user-7.slice/train.service/memory.high": "3000000000",
                "another/cpu.max": "100000 100000",
            },
            (2, "user.slice/user-7.slice"),
            (3000000000, "user.slice/user-7.slice/train.service"),
        ),
        # Version 1 with a second hierarchy of version 2 that has no controllers; the job's own
        # group is unlimited, the one above is not.
        (
            "5:memory:/slurm/job_9/step_0\n4:cpu,cpuacct:/slurm/job_9/step_0\n1:name=systemd:/\n0::/\n",
            HYBRID,
            {
                "cpu,cpuacct/slurm/job_9/step_0/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/slurm/job_9/step_0/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/slurm/job_9/cpu.cfs_quota_us": "400000",
                "cpu,cpuacct/slurm/job_9/cpu.cfs_period_us": "100000",
                "memory/slurm/job_9/step_0/memory.limit_in_bytes": UNLIMITED,
                "memory/slurm/job_9/memory.limit_in_bytes": "1500000000",
            },
            (4, "cpu,cpuacct/slurm/job_9"),
            (1500000000, "memory/slurm/job_9"),
        ),
        # Docker without a namespace of groups: the path is the host's, the mount the container's.
        (
            "9:cpu,cpuacct:/docker/5f1c\n6:memory:/docker/5f1c\n",
            OF_DOCKER,
            {
                "cpu/cpu.cfs_quota_us": "500000",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "1000000000",
            },
            (5, "cpu"),
            (1000000000, "memory"),
        ),
        ("", "", {}, (16, None), None),
    ],
    ids=["container", "slices", "version 1", "docker", "no groups"],
)
def test_the_least_of_the_own_group_and_all_above_holds(
    own: str,
    mounts: str,
    contents: dict[str, str],
    quota: tuple[int, str | None],
    limit: tuple[int, str] | None,
    pretend: Pretend,
    sixteen: None,
) -> None:
    top = pretend(own, mounts, contents)
    by = "" if quota[1] is None else f"the CPU quota of {top / quota[1]}"
    assert granted_cores() == (quota[0], by)
    if limit is None:
        assert memory() == (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "")
    else:
        assert memory() == (limit[0], f"the memory limit of {top / limit[1]}")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "16"),
        ({"OMP_NUM_THREADS": "4"}, "4 by OMP_NUM_THREADS=4"),
        ({"OMP_NUM_THREADS": "8,2"}, "8 by OMP_NUM_THREADS=8"),
        (
            {"OMP_NUM_THREADS": "8", "SLURM_CPUS_PER_TASK": "6", "SLURM_CPUS_ON_NODE": "12"},
            "6 by SLURM_CPUS_PER_TASK=6",
        ),
        ({"MKL_NUM_THREADS": "3"}, "3 by MKL_NUM_THREADS=3"),
        ({"LSB_DJOB_NUMPROC": "2"}, "2 by LSB_DJOB_NUMPROC=2"),
        ({"OMP_NUM_THREADS": "32"}, "16"),
        (
            {"OMP_NUM_THREADS": "0", "NSLOTS": "", "PBS_NUM_PPN": "-1", "OMP_THREAD_LIMIT": "x"},
            "16",
        ),
        ({"OMP_NUM_THREADS": "9" * 5000}, "16"),
    ],
)
def test_what_is_granted_limits_a_command_but_not_the_cores_that_all_share(
    variables: dict[str, str], words: str, sixteen: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert granted_cores().words == words
    # Two commands with two cores each may run side by side; a run that was begun with more
    # threads goes on with them.
    assert cores().amount == len(core_ids()) == 16


def test_the_affinity_is_named(sixteen: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    assert granted_cores().words == "2 by the CPU affinity"


def test_core_ids_are_the_lowest_of_the_affinity_within_the_quota(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {9, 4, 200, 5})
    assert core_ids() == (4, 5, 9, 200)
    pretend("0::/\n", VERSION_2, {"cpu.max": "250000 100000"})
    assert core_ids() == (4, 5)
    pretend("0::/\n", VERSION_2, {"cpu.max": "50000 100000"})
    assert core_ids() == (4,)


def test_core_ids_where_the_system_has_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert (core_ids(), cores().amount) == ((0, 1, 2), 3)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert (core_ids(), cores().amount) == ((0,), 1)


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A control group of the kernel below one whose quota is one core."""
    for top, file in (
        ("", "cpu.max"),
        ("cpu", "cpu.cfs_quota_us"),
        ("cpu,cpuacct", "cpu.cfs_quota_us"),
    ):
        above = Path("/sys/fs/cgroup", top, f"fastrcaps-test-{os.getpid()}")
        if not (above.parent / "cgroup.procs").is_file():
            continue
        with suppress(OSError):
            above.mkdir()
            try:
                (above / file).write_text("100000")
                (above / "own").mkdir()
                yield above
                (above / "own").rmdir()
                return
            finally:
                above.rmdir()
    pytest.skip("needs the right to make a control group with a CPU quota")


def test_a_real_quota_above_the_own_group(real_group: Path) -> None:
    join = f'echo $$ >{real_group / "own" / "cgroup.procs"} && exec "$@"'
    told = "from fastrcaps_search.training.resources import granted_cores as g; print(g().words)"
    environment = {name: value for name, value in os.environ.items() if name not in GRANTS}
    line = ["sh", "-c", join, "sh", sys.executable, "-c", told]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    by = "" if os.cpu_count() == 1 else f" by the CPU quota of {real_group}"
    assert done.stdout == f"1{by}\n"
