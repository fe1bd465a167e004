"""Slurm as an engine: each worker is a batch job, whose script submitit makes.

The job is the plain ``worker`` command. Jobs are found by their name, through ``squeue`` alone:
accounting may be absent, and a compute node may know no ``scontrol``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from fastrcaps_search.disk import disk_errors, replace_file
from fastrcaps_search.errors import (
    FastrcapsError,
    InterruptedRunError,
    LibraryError,
    RunError,
    UsageError,
)
from fastrcaps_search.processes import ending
from fastrcaps_search.search.engines import Cluster, JobState, PlacedJob, WorkerJob
from fastrcaps_search.search.signs import JOB_VARIABLE
from fastrcaps_search.search.slurm_options import OPTIONS, SlurmOptions
from fastrcaps_search.store.location import PASSWORD_VARIABLE, STORAGE_VARIABLE

ANSWER_SECONDS = 120.0
PRIVATE = 0o077
"""Mask of files that only their owner may read."""
COLUMNS = {
    "JobID": 24,
    "State": 24,
    "exit_code": 12,
    "NodeList": 80,
    "Reason": 80,
    "StdOut": 600,
}
"""What ``squeue`` is asked for, and how wide."""
WAITING = re.compile(r"PENDING|REQUEUE.*|SPECIAL_EXIT|RESV_DEL_HOLD")
RUNNING = re.compile(r"RUNNING|COMPLETING|CONFIGURING|STOPPED|SUSPENDED|SIGNALING|STAGE_OUT")
FAILED = re.compile(r"FAILED|BOOT_FAIL|NODE_FAIL|OUT_OF_MEMORY|DEADLINE")
LATER = re.compile(
    r"(?i)unable to contact|not responding|timed out|temporarily|connection refused|"
    r"zero bytes|communication|backup controller|try again"
)
"""In what Slurm's commands say when it may well answer later."""
SECRETS = (STORAGE_VARIABLE, PASSWORD_VARIABLE)
"""Variables that no job must be handed: Slurm's controller keeps the environment of each."""
LONGEST = 300
"""Characters of what Slurm says."""


def script(job: WorkerJob, options: SlurmOptions, *, log: Path, command: str) -> str:
    """The script of a job.

    Args:
        job: What it is to do.
        options: What it asks for.
        log: For what it prints.
        command: How it does so, in bash.

    Raises:
        LibraryError: Submitit is not installed, or has changed.
    """
    variables = [f"export {name}={shlex.quote(value)}" for name, value in job.environment.items()]
    parameters = options.sbatch(job.name, log)
    # Whatever the environment of a login says.
    parameters["setup"] += [f"unset {' '.join(SECRETS)}", *variables]
    try:
        from submitit.slurm.slurm import _make_sbatch_string

        return _make_sbatch_string(command=command, folder=log.parent, **parameters)
    except (ImportError, TypeError) as error:
        raise LibraryError(
            f"the launcher slurm must find submitit, got: {error}; install fastrcaps-search[slurm]"
        ) from error


def worker_line(job: WorkerJob, options: SlurmOptions) -> str:
    """The worker's command for a shell."""
    return shlex.join([options.python, *job.command])


def write_script(path: Path, text: str) -> None:
    """Write a script that only its owner may read.

    Raises:
        DiskError: It cannot be written.
    """
    with disk_errors("the script of a job", path, advice="name another --launcher-option folder"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, text.encode())
        path.chmod(0o700)


def clean_environment() -> dict[str, str]:
    """Environment that a job may have: the user's, without secrets and another job's facts."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in SECRETS and (not name.startswith("SLURM_") or name == "SLURM_CONF")
    }


@dataclass(frozen=True, slots=True)
class SlurmCluster:
    """Slurm, as its commands on this machine reach it.

    Attributes:
        options: What each job asks for.
    """

    options: SlurmOptions

    def share(self, job: WorkerJob) -> str:
        """What such a job gets, in words."""
        return self.options.share or "what Slurm gives unasked"

    def place(self, job: WorkerJob) -> str:
        """Hand in a job; Slurm's number of it.

        Raises:
            UsageError: Slurm does not take it as it is.
            RunError: Slurm does not answer.
            DiskError: Its script cannot be written.
            LibraryError: Submitit is not installed, or has changed.
        """
        lines = [
            f'export {JOB_VARIABLE}="slurm $SLURM_JOB_ID"',
            # In place of the shell, so that signals reach the worker and the exit code is its own.
            f"exec {worker_line(job, self.options)}",
        ]
        path = job.log.with_suffix(".sh")
        write_script(path, script(job, self.options, log=job.log, command="\n".join(lines)))
        from submitit.slurm.slurm import SlurmExecutor

        said = _ask("sbatch", str(path))
        try:
            return SlurmExecutor._get_job_id_from_submission_command(said)
        except Exception as error:
            raise RunError(f"sbatch must say the number of a job, got: {said!r}") from error

    def jobs(self, name: str) -> list[PlacedJob]:
        """All jobs of that name that Slurm still knows, the oldest first.

        Raises:
            UsageError: Slurm does not tell this user.
            RunError: Slurm does not answer.
        """
        form = ",".join(f"{column}:{width}" for column, width in COLUMNS.items())
        said = _ask(
            *("squeue", "--noheader", "--states=all", "--sort=i", f"--user={os.getuid()}"),
            *(f"--name={name}", f"--Format={form}"),
        )
        return [_placed(line) for line in said.splitlines() if line.strip()]

    def cancel(self, ids: Sequence[str]) -> None:
        """Send jobs SIGTERM, and SIGKILL to what has not ended after Slurm's ``KillWait``.

        Raises:
            RunError: Slurm does not answer.
        """
        if ids:
            # It may refuse what has just ended.
            _ask("scancel", "--quiet", *ids, refused=RunError)


def _placed(line: str) -> PlacedJob:
    """A line of ``squeue`` as a job."""
    facts, place = {}, 0
    for column, width in COLUMNS.items():
        facts[column] = line[place : place + width].strip()
        place += width
    word, code, log = facts["State"], _exit_code(facts["exit_code"]), facts["StdOut"]
    reason = "" if facts["Reason"] == "None" else facts["Reason"]
    state = JobState.ENDED
    if WAITING.fullmatch(word):
        state = JobState.WAITING
    elif RUNNING.fullmatch(word):
        state = JobState.RUNNING
    else:
        reason = "" if word == "COMPLETED" else word
    has_saved = word == "FAILED" and code == InterruptedRunError.exit_code
    if has_saved:
        reason = "asked to stop, saved"
    elif word == "FAILED":
        reason = f"FAILED, {ending(code)}"
    return PlacedJob(
        id=facts["JobID"],
        state=state,
        host=facts["NodeList"],
        reason=reason,
        has_failed=bool(FAILED.fullmatch(word)) and not has_saved,
        log=Path(log) if log else None,
    )


def _exit_code(text: str) -> int | None:
    """Exit code, or the number of a signal below 0, from the status that ``squeue`` shows."""
    if not text.isdecimal():
        return None
    # The status of wait(2); as such 130 would be a signal that leaves a core.
    status = int(text)
    is_code = status == InterruptedRunError.exit_code
    return status if is_code else os.waitstatus_to_exitcode(status)


def _ask(*command: str, refused: type[FastrcapsError] = UsageError) -> str:
    """What a command of Slurm's says.

    Raises:
        RunError: Slurm does not answer, or the command is not here.
        FastrcapsError: Slurm refuses; of the class ``refused``.
    """
    name = command[0]
    try:
        done = subprocess.run(
            command,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            umask=PRIVATE,
            # A Ctrl-C in a terminal is not for it.
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"{name} says nothing within {ANSWER_SECONDS:.0f} s") from None
    except OSError as error:
        raise RunError(f"{name}: {error.strerror}") from error
    if done.returncode == 0:
        return done.stdout
    said = [line.partition("error: ")[2] or line for line in done.stderr.splitlines()]
    came = shorten("; ".join(dict.fromkeys(said)) or f"exit code {done.returncode}", LONGEST)
    if LATER.search(came):
        raise RunError(f"{name} says: {came}")
    raise refused(f"Slurm must take what {name} asks, got: {came}; see --launcher-option")


@dataclass(frozen=True, slots=True)
class SlurmEngine:
    """Places workers as jobs of Slurm, or of submitit's local executor."""

    name: str = "slurm"
    options: Collection[str] = OPTIONS

    def open(self, options: Mapping[str, Sequence[str]]) -> Cluster:
        """Look for Slurm.

        Args:
            options: Values by name, in the order given; all names are known.

        Raises:
            UsageError: An option's value cannot be, or there is no Slurm here.
            LibraryError: Submitit is not installed.
        """
        from fastrcaps_search.search.slurm_here import LocalJobs

        read = SlurmOptions.of(options)
        job = WorkerJob("look", (), {}, Path("look.log"))
        script(job, read, log=job.log, command="")
        if read.is_local:
            return LocalJobs(read)
        try:
            _ask("squeue", "--version")
        except (RunError, UsageError) as error:
            raise UsageError(
                f"the launcher slurm must find Slurm's commands here, got: {error}; run it where "
                "sbatch and squeue work, or try it out with --launcher-option cluster=local"
            ) from error
        return SlurmCluster(read)


SLURM = SlurmEngine()
