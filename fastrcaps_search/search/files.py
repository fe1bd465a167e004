"""Where a study keeps its files, checkpoints and logs in folders of its own; a run's log."""

from __future__ import annotations

import logging
import platform
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from fastrcaps_search.disk import reason
from fastrcaps_search.errors import DiskError
from fastrcaps_search.folders import Folder, LocalFolder, is_url
from fastrcaps_search.object_storage import RemoteFolder
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import RunKey, StudyRecord

LOG = logging.getLogger("fastrcaps_search.trial")


def study_folder(location: Location, study: StudyRecord) -> Path:
    """Folder of a study: studies of one name in several databases may share the folder above."""
    return location.files / f"{study.name}-{study.uid[:8]}"


def trial_folder(location: Location, study: StudyRecord, number: int) -> Path:
    """Folder of a trial."""
    return study_folder(location, study) / f"trial-{number:04d}"


def run_folder(location: Location, study: StudyRecord, number: int, run: int) -> Path:
    """Folder of a run's checkpoints, where they are on a disk."""
    return trial_folder(location, study, number) / f"run-{run}"


def kept(location: Location, folder: Path, place: str | None = None) -> Folder:
    """One of these folders where checkpoints are kept: on the disk, or in object storage.

    Args:
        location: The database and its files.
        folder: One of those above.
        place: Another folder or URL of checkpoints than this location's.
    """
    place, inner = place or location.place, folder.relative_to(location.files)
    return RemoteFolder(f"{place}/{inner}") if is_url(place) else LocalFolder(Path(place, inner))


def require_usable(location: Location, stop: threading.Event | None = None) -> None:
    """Make sure that checkpoints and logs can be kept where they are to be.

    Args:
        location: The database and its files.
        stop: Ends the waiting for an answer when it is set.

    Raises:
        DiskError: They cannot be.
        InterruptedRunError: Asked to stop.
        UsageError: A package is not installed.
    """
    if location.files_url is not None:
        RemoteFolder(location.files_url).require_usable(stop)
    # Of the folder of an SQLite file the database itself says what is wrong.
    if location.path is None or location.files.parent != location.path.parent:
        require_writable(location.files, advice="name another with --files")


def require_writable(folder: Path, *, advice: str) -> None:
    """Make sure that a folder can be made where it is missing, and written; nothing is left there.

    Args:
        folder: The folder.
        advice: What can be done where it cannot.

    Raises:
        DiskError: It cannot.
    """
    there = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise DiskError(
            f"{folder} must be a folder that can be written, got: {reason(error)}; fix it, or "
            f"{advice}"
        ) from error


def run_log(location: Location, study: StudyRecord, key: RunKey) -> Path:
    """Log of a run."""
    return trial_folder(location, study, key.number) / f"run-{key.run}.log"


def worker_log(location: Location, study: StudyRecord, worker: str) -> Path:
    """Whatever a worker and its libraries print; several machines may share the folder."""
    return study_folder(location, study) / f"{worker}-{platform.node()}.log"


def open_log(path: Path) -> TextIO:
    """Open a log to write on; its folder is made if need be.

    Raises:
        DiskError: It cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise DiskError(
            f"{path.parent} must be a folder that can be written, got: {error.strerror}; fix it, "
            "or name another with --files"
        ) from error


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write the log of a run while it is worked on."""
    log = open_log(path)
    handler = logging.StreamHandler(log)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        # What could not be written before cannot be written now, on a full disk.
        with suppress(OSError):
            log.close()
