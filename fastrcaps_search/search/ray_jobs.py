"""Ray as an engine: each worker is a command that Ray's Jobs API runs on a node of a cluster.

All that goes between here and the cluster is JSON over HTTP, and the worker needs no Ray. Such a
job outlives the client that handed it in, so that its study is written in its metadata.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastrcaps_search.errors import InterruptedRunError, LibraryError, RunError, UsageError
from fastrcaps_search.processes import ending
from fastrcaps_search.search.engines import JobState, PlacedJob, WorkerJob
from fastrcaps_search.search.ray_options import API_VARIABLE, OPTIONS, RayOptions
from fastrcaps_search.search.signs import JOB_VARIABLE
from fastrcaps_search.search.supervise import STOP_SECONDS

if TYPE_CHECKING:
    from ray.job_submission import JobDetails, JobSubmissionClient

STUDY, LOG = "fastrcaps_search", "log"
"""Keys of a job's metadata."""
REFUSED = re.compile(r"status code 4(?!04|08|29)\d\d")
"""In what Ray says where it would refuse the same again; without 404, 408 and 429."""
NO_ROOM = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
"""Type of an error of Ray's."""
NOT_YET = "Job has not started yet. "
"""What Ray says before the reason why a job waits."""
ANSWER_SECONDS = 30.0
LONGEST = 300
"""Characters of what Ray says."""


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A Ray cluster whose Jobs API answers.

    Attributes:
        client: Speaks to it.
        options: What each job asks for.
    """

    client: JobSubmissionClient
    options: RayOptions

    def share(self, job: WorkerJob) -> str:
        """What such a job gets, in words."""
        return self.options.share

    def place(self, job: WorkerJob) -> str:
        """Hand in a job; Ray's name of it.

        Raises:
            UsageError: Ray does not take it as it is.
            RunError: Ray does not answer.
        """
        id, asked = f"{job.name}-{secrets.token_hex(4)}", self.options
        with _asking(asked.address):
            return self.client.submit_job(
                entrypoint=_line(job, id, asked),
                submission_id=id,
                metadata={STUDY: job.name, LOG: str(job.log)},
                # Ray waits 3 s before it kills, unless the job's own environment says otherwise.
                runtime_env={"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": f"{2 * STOP_SECONDS:.0f}"}},
                entrypoint_num_cpus=asked.cpus,
                entrypoint_num_gpus=asked.gpus,
                entrypoint_memory=asked.memory,
                entrypoint_resources=dict(asked.resources),
            )

    def jobs(self, name: str) -> list[PlacedJob]:
        """All jobs of that name that Ray knows, the oldest first.

        Raises:
            RunError: Ray does not say.
        """
        found = [job for job in self._known() if (job.metadata or {}).get(STUDY) == name]
        return [self._placed(job) for job in sorted(found, key=lambda job: job.start_time or 0)]

    def _known(self) -> list[JobDetails]:
        """All jobs of the cluster, whoever's they are."""
        with _asking(self.options.address):
            return self.client.list_jobs()

    def _placed(self, job: JobDetails) -> PlacedJob:
        id, log = str(job.submission_id), (job.metadata or {}).get(LOG)
        state = JobState.ENDED if job.status.is_terminal() else JobState.RUNNING
        if job.status == "PENDING":
            state = JobState.WAITING
        has_saved = job.driver_exit_code == InterruptedRunError.exit_code
        return PlacedJob(
            id=id,
            state=state,
            host=urlsplit(job.driver_agent_http_address or "").hostname or "",
            reason=_reason(job),
            # Where there was no room for a quarter of an hour, there may be later.
            has_failed=job.status == "FAILED" and not has_saved and job.error_type != NO_ROOM,
            log=Path(log) if log else None,
        )

    def cancel(self, ids: Sequence[str]) -> None:
        """Send SIGTERM to jobs, and SIGKILL to what has not saved after a minute.

        Ray stops one that waits only when it is placed, maybe in the moment after it has begun.

        Raises:
            RunError: Ray does not do so.
        """
        wanted = set(ids)
        for job in self._known():
            if job.submission_id in wanted and not job.status.is_terminal():
                with _asking(self.options.address):
                    self.client.stop_job(job.submission_id)


def _line(job: WorkerJob, id: str, options: RayOptions) -> str:
    """All that a job does as one command line, in which a step that fails ends all."""
    variables = {**job.environment, **options.variables, JOB_VARIABLE: f"ray {id}"}
    told = [f"{name}={value}" for name, value in variables.items()]
    script = [
        f"exec >> {shlex.quote(str(job.log))} 2>&1",
        *options.setup,
        # In place of the shell, so that the exit code is the worker's.
        shlex.join(["exec", "env", *told, options.python, *job.command]),
    ]
    return shlex.join(["exec", "bash", "-e", "-c", "\n".join(script)])


def _reason(job: JobDetails) -> str:
    """Why a job waits or how it ended, in one line."""
    message, code = job.message or "", job.driver_exit_code
    if job.status == "RUNNING":
        return ""
    if code == InterruptedRunError.exit_code:
        return "asked to stop, saved"
    if not code:
        return _last_line(message)
    # Then the message has the end of Ray's log, where only a shell that finds no folder writes.
    said = [line for line in message.splitlines() if line.startswith("bash: ")]
    return shorten(": ".join([ending(code), *said]), LONGEST)


def _last_line(text: str) -> str:
    """What matters in Ray's accounts and tracebacks."""
    *_, last = text.strip().splitlines() or [""]
    return shorten(last.removeprefix(NOT_YET), LONGEST)


@contextmanager
def _asking(address: str) -> Iterator[None]:
    """Make one line of what Ray's client, or what it stands on, raises: anything at all.

    Raises:
        UsageError: Ray refuses.
        RunError: It did anything else.
    """
    try:
        yield
    except Exception as error:
        name, text = type(error).__name__, str(error)
        said = _last_line(text.rstrip(" .\n")) or name
        # Of Ray 2.52 and later.
        is_refusal = name == "AuthenticationError" or REFUSED.search(text)
        raise (UsageError if is_refusal else RunError)(
            f"{address} must answer and take jobs, got: {said}; see that a Ray cluster runs there "
            "whose version fits"
        ) from error


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Places workers on a Ray cluster."""

    name: str = "ray"
    options: Collection[str] = OPTIONS

    def open(self, options: Mapping[str, Sequence[str]]) -> RayCluster:
        """Look for the cluster.

        Args:
            options: Values by name, in the order given; all names are known.

        Raises:
            UsageError: An option's value cannot be, or the cluster refuses.
            LibraryError: Ray is not installed here.
            RunError: The cluster does not answer, or its Ray is too old.
        """
        read = RayOptions.of(options)
        return RayCluster(_client(read.address), read)


def _client(address: str) -> JobSubmissionClient:
    """A client of the Jobs API that does not wait for an answer for ever.

    Raises:
        LibraryError: Ray is not installed here.
        RunError: Nothing answers there, or a Ray that is too old.
    """
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError as error:
        raise LibraryError(
            f"the launcher ray must find Ray, got: {error}; install fastrcaps-search[ray]"
        ) from error

    class Client(JobSubmissionClient):
        def _do_request(self, *what: Any, **how: Any) -> Any:  # noqa: ANN401  # requests' own
            return super()._do_request(*what, timeout=ANSWER_SECONDS, **how)

    before = os.environ.get(API_VARIABLE)
    # What the client is told counts only where no variable says otherwise.
    os.environ[API_VARIABLE] = address
    try:
        with _asking(address):
            return Client(address)
    finally:
        del os.environ[API_VARIABLE]
        if before is not None:
            os.environ[API_VARIABLE] = before


RAY = RayEngine()
