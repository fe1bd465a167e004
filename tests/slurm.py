"""A real Slurm of one node, in namespaces and a temporary folder of its own, for the tests alone.

Its daemons listen on every interface, and there is only the loopback of a network namespace here.
What talks to them enters that namespace: :meth:`SlurmCluster.line`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.servers import Server, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "unshare", "nsenter", "ip")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
SLOTS = 4
"""Jobs of one task that run at once, whatever number of cores the machine has."""
KILL_WAIT_SECONDS = 15
GRACE_SECONDS = 10

# No accounting, as on clusters without a database; memory and cores are counted, not enforced.
CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait={kill_wait}
MinJobAge=300
OverTimeLimit=0
ReturnToService=2
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 CPUs={slots} RealMemory=4000
PartitionName=low Nodes=node1 Default=YES PriorityTier=1 GraceTime={grace}
PartitionName=high Nodes=node1 PriorityTier=10 PreemptMode=OFF
"""

# Without an address that is not 127.0.0.1, the resolver finds no name: AI_ADDRCONFIG.
DAEMONS = """
hostname localhost
ip link set lo up
ip address add 198.51.100.1/32 dev lo
munged --foreground --force --num-threads=2 --socket="$1/munge.sock" --key-file="$1/munge.key" \
    --pid-file="$1/munge.pid" --seed-file="$1/munge.seed" &
until [ -S "$1/munge.sock" ]; do sleep 0.05; done
slurmctld -D -i &
slurmd -D -N node1 &
wait
"""


class SlurmCluster(Server):
    """Slurm with one node and the partitions ``low`` and ``high``, whose jobs pre-empt the others.

    It ends with all its jobs when the process that started it ends, in any way.
    """

    def __init__(self) -> None:
        super().__init__("slurm")
        (self.folder / "munge.key").write_bytes(os.urandom(1024))
        (self.folder / "munge.key").chmod(0o600)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                folder=self.folder, slots=SLOTS, kill_wait=KILL_WAIT_SECONDS, grace=GRACE_SECONDS
            )
        )

    def start(self) -> None:
        """Start its daemons; return when the node is idle."""
        with (self.folder / "daemons.log").open("wb") as log:
            # The first process of the pid namespace dies with it, and all others with that.
            self.process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL"),
                    *("unshare", "--net", "--uts", "--pid", "--mount", "--mount-proc"),
                    *("--fork", "--kill-child"),
                    *("bash", "-c", DAEMONS, "bash", str(self.folder)),
                ],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self.process, self._is_idle, self.folder / "daemons.log")

    def _is_idle(self) -> bool:
        with contextlib.suppress(OSError, IndexError):
            return self.run("sinfo", "-h", "-o", "%T", "-p", "low").stdout.strip() == "idle"
        return False

    def environment(self) -> dict[str, str]:
        """Variables of a program that talks to this Slurm."""
        found = {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        for name in ("FASTRCAPS_DATA", "FASTRCAPS_STORAGE"):
            found.pop(name, None)
        return found

    def line(self, *command: str) -> list[str]:
        """Command line that does a command where this Slurm is, in the same process."""
        inner = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0]
        return ["nsenter", "--target", inner, "--net", "--uts", *command]

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Do a command there."""
        return subprocess.run(
            self.line(*command),
            env=self.environment(),
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )

    def jobs(self, *states: str) -> dict[str, str]:
        """States of the jobs by id, in the order in which they were handed in."""
        done = self.run("squeue", "-h", "-S", "i", "-t", ",".join(states) or "all", "-o", "%i %T")
        assert done.returncode == 0, done.stderr
        return dict(line.split() for line in done.stdout.splitlines())


def require_slurm() -> None:
    """Skip a test where no Slurm can be started."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if absent:
        pytest.skip(f"needs slurm-wlm, munge and iproute2: {', '.join(absent)} not installed")
    if os.geteuid() != 0:
        pytest.skip("needs root, for a network namespace and Slurm's daemons in it")
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "--pid", "--mount", "--mount-proc", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"needs namespaces: {tried.stderr.strip()}")
