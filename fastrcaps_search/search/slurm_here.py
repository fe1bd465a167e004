"""Submitit's local executor in the place of Slurm: the same scripts, as processes of this machine.

Each job has a folder, whose name is the job's. It runs while submitit's controller has that folder
on its command line; its exit code is in the folder once it has ended.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from platform import node

from fastrcaps_search.errors import InterruptedRunError, UsageError
from fastrcaps_search.processes import child_command, ending
from fastrcaps_search.search.engines import JobState, PlacedJob, WorkerJob
from fastrcaps_search.search.files import open_log
from fastrcaps_search.search.signs import JOB_VARIABLE
from fastrcaps_search.search.slurm import (
    PRIVATE,
    clean_environment,
    script,
    worker_line,
    write_script,
)
from fastrcaps_search.search.slurm_options import SlurmOptions

CONTROLLER = "submitit.local._local"
SCRIPT, ENDED, CONTROLLER_LOG = "worker.sh", "ended", "controller.log"
UNLIMITED_MINUTES = 60 * 24 * 365
# The shell stays, to say how the worker ended; what it is asked, it asks the worker.
COMMAND = """
{line} &
worker=$!
trap 'kill -TERM $worker' TERM INT USR2
code=0
wait $worker || code=$?
while kill -0 $worker 2>/dev/null; do code=0; wait $worker || code=$?; done
echo $code > {ended}
"""
SAVED = (InterruptedRunError.exit_code, 128 + signal.SIGTERM, 128 + signal.SIGUSR2)
"""Exit codes of a job that was asked to stop."""


@dataclass(frozen=True, slots=True)
class LocalJobs:
    """Jobs as processes of this machine, in sessions of their own: they outlive this process.

    Attributes:
        options: What each job asks for; only limits, GPUs, set-up and Python count here.
    """

    options: SlurmOptions
    _seen: dict[Path, None] = field(default_factory=dict)

    def share(self, job: WorkerJob) -> str:
        """What such a job gets, in words."""
        return f"{self._cores(job)} of the cores of this machine"

    def _cores(self, job: WorkerJob) -> str:
        return self.options.words.get("cpus_per_task") or str(job.cores)

    def place(self, job: WorkerJob) -> str:
        """Start a job; the name of its folder.

        Raises:
            UsageError: It cannot be started.
            DiskError: Its script cannot be written.
            LibraryError: Submitit is not installed, or has changed.
        """
        folder = job.log.with_suffix("").absolute()
        line, ended = worker_line(job, self.options), shlex.quote(str(folder / ENDED))
        job = replace(
            job,
            environment={
                **job.environment,
                JOB_VARIABLE: f"slurm {folder.name}",
                # As Slurm itself tells a job.
                "SLURM_CPUS_PER_TASK": self._cores(job),
            },
        )
        command = COMMAND.format(line=line, ended=ended)
        path = folder / SCRIPT
        write_script(path, script(job, self.options, log=folder / "log", command=command))
        limit = (self.options.seconds or 60 * UNLIMITED_MINUTES) / 60
        cards = int(self.options.gpus.rpartition(":")[2] or 0)
        told = [str(folder), str(path), limit, self.options.signal_seconds, cards]
        # Not a pipe: the controller would hold it open.
        with open_log(folder / CONTROLLER_LOG) as log:
            done = subprocess.run(
                child_command(__name__, json.dumps(told)),
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # What Ctrl-C in a terminal ends is a whole session.
                start_new_session=True,
                umask=PRIVATE,
                check=False,
            )
        if done.returncode:
            raise UsageError(
                f"submitit's local executor must start a job, got: {ending(done.returncode)}; "
                f"{log.name} may say why"
            )
        self._seen[folder] = None
        return folder.name

    def jobs(self, name: str) -> list[PlacedJob]:
        """The jobs of that name that run, and those that this object has seen before."""
        running = {
            folder: pid
            for pid, folder in _controllers()
            if folder in self._seen or _is_named(folder / SCRIPT, name)
        }
        self._seen.update(dict.fromkeys(running))
        return [_job(folder, running.get(folder)) for folder in self._seen]

    def cancel(self, ids: Sequence[str]) -> None:
        """Ask jobs to stop."""
        for pid, folder in _controllers():
            if folder.name in ids and folder in self._seen:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)


def _controllers() -> Iterator[tuple[int, Path]]:
    """Submitit's controllers of this user: their process ids and folders."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_text(errors="replace").split("\0")
            if CONTROLLER in words and entry.stat().st_uid == os.getuid():
                yield int(entry.name), Path(words[words.index(CONTROLLER) + 1])


def _is_named(path: Path, name: str) -> bool:
    """Whether a script is that of a job of that name."""
    with suppress(OSError):
        return f"#SBATCH --job-name={name}\n" in path.read_text(errors="replace")
    return False


def _job(folder: Path, pid: int | None) -> PlacedJob:
    logs = sorted(folder.glob("*_log.out"))
    log = logs[-1] if logs else None
    if pid is not None:
        return PlacedJob(folder.name, JobState.RUNNING, node(), log=log)
    try:
        code = int((folder / ENDED).read_text())
    except (OSError, ValueError):
        # Killed, and the shell with it: nobody's fault.
        return PlacedJob(folder.name, JobState.ENDED, node(), "killed", log=log)
    reason = "asked to stop, saved" if code in SAVED else "" if code == 0 else ending(code)
    has_failed = code != 0 and code not in SAVED
    return PlacedJob(folder.name, JobState.ENDED, node(), reason, has_failed, log)


def main() -> int:
    """Start submitit's controller of a job, which outlives this process."""
    folder, path, minutes, signal_seconds, cards = json.loads(sys.argv[1])
    from submitit.local.local import start_controller

    start_controller(
        folder=Path(folder),
        command=shlex.join(["bash", path]),
        cuda_devices=",".join(map(str, range(cards))),
        timeout_min=minutes,
        signal_delay_s=signal_seconds,
        stderr_to_stdout=True,
    )
    return 0
