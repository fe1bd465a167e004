"""The ``worker`` command that an engine is given, and the file that tells it the database."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from fastrcaps_search.disk import disk_errors, remove_file, rename_over, temporary_name
from fastrcaps_search.search import files
from fastrcaps_search.search.engines import WorkerJob
from fastrcaps_search.search.job_options import FOLDER
from fastrcaps_search.search.options import RunOptions
from fastrcaps_search.store.location import FILES_VARIABLE, STORAGE_FILE_VARIABLE
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.training.resources import granted_cores

IDLE_LEASES, IDLE_MARGIN_SECONDS = 2, 30.0
"""A worker that finds nothing gives itself back only when another one that was lost meanwhile
would have been found out: somebody has to take its run over."""
OWNER_ONLY = 0o600


def job_name(study: StudyRecord) -> str:
    """Name of the jobs of a study, and of no others."""
    return f"fastrcaps-{study.name}-{study.uid[:8]}"


def jobs_folder(options: RunOptions, study: StudyRecord) -> Path:
    """Where scripts, logs and the database's name go."""
    named = options.launcher_options.get(FOLDER)
    if named:
        return Path(named[-1]).expanduser().absolute() / job_name(study)
    return files.study_folder(options.location, study) / "jobs"


def worker_job(options: RunOptions, study: StudyRecord) -> WorkerJob:
    """One more worker of a study, that does as a run was asked."""
    folder, devices = jobs_folder(options, study), options.devices
    told = {
        "study": study.name,
        "devices": devices.devices,
        "workers-per-device": devices.workers_per_device or 1,
        "threads": devices.threads,
        "data-dir": options.data_folder,
        "lease-seconds": f"{options.lease_seconds:g}",
        "store-patience": f"{options.store_patience:.0f}",
        "max-failures": options.max_failures,
        "idle-limit": f"{IDLE_LEASES * options.lease_seconds + IDLE_MARGIN_SECONDS:.0f}",
    }
    flags = [f"--{name}={value}" for name, value in told.items() if value is not None]
    return WorkerJob(
        name=job_name(study),
        # The working directory is the user's and must not shadow modules.
        command=("-P", "-m", "fastrcaps_search", "worker", *flags),
        environment={
            STORAGE_FILE_VARIABLE: str(folder / "storage"),
            FILES_VARIABLE: options.location.place,
        },
        log=folder / f"worker-{secrets.token_hex(4)}.log",
        cores=_cores(options),
    )


def _cores(options: RunOptions) -> int:
    """The part of this machine's cores of each of the workers, should they come to share it."""
    devices = options.devices
    if devices.threads is not None:
        return devices.threads * (devices.workers_per_device or 1)
    return max(granted_cores().amount // max(options.jobs, 1), 1)


def write_storage(options: RunOptions, study: StudyRecord) -> None:
    """Write where the database is, with its password, for the owner's workers alone to read.

    Raises:
        DiskError: It cannot be written.
    """
    path = jobs_folder(options, study) / "storage"
    with disk_errors("the file that tells workers the database", path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = temporary_name(path)
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(f"{options.location.url}\n")
            rename_over(temporary, path)
        finally:
            remove_file(temporary)


def remove_storage(options: RunOptions, study: StudyRecord) -> None:
    """Remove that file: no worker is left that would read it."""
    remove_file(jobs_folder(options, study) / "storage")
