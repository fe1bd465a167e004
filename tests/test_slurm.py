from __future__ import annotations

from pathlib import Path

from tests.slurm import SlurmCluster, require_slurm
from tests.store.workers import until


def test_a_job_runs_on_the_node_and_says_so_in_its_log(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    done = slurm.run("sbatch", "-o", str(log), "--wrap", "hostname; echo $SLURMD_NODENAME")
    number = done.stdout.split()[-1]
    until(lambda: slurm.jobs("COMPLETED").get(number) == "COMPLETED")
    assert log.read_text().split() == ["localhost", "node1"]


def test_nobody_outside_reaches_its_daemons_and_its_end_ends_their_jobs(tmp_path: Path) -> None:
    require_slurm()
    pid = tmp_path / "pid"
    with SlurmCluster() as cluster:
        assert "127.0.0.1" in cluster.run("ip", "address").stdout
        assert cluster.run("ip", "route", "get", "192.0.2.1").returncode != 0
        cluster.run("sbatch", "-o", "/dev/null", "--wrap", f"touch {pid}; sleep 1234.5")
        until(pid.exists)
    cmdlines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _is(path)]
    mine = (b"1234.5", bytes(cluster.folder))
    assert not [line for line in cmdlines if any(word in line for word in mine)]
    assert not cluster.folder.exists()


def _is(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
