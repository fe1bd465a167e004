"""Where a study keeps its files: checkpoints and logs in one folder beside the database."""

from __future__ import annotations

from pathlib import Path

from fastrcaps_search.store.place import Location


def study_folder(location: Location, study: str) -> Path:
    """Folder of a study."""
    return location.files / study


def trial_folder(location: Location, study: str, number: int) -> Path:
    """Folder of a trial."""
    return study_folder(location, study) / f"trial-{number:04d}"


def run_folder(location: Location, study: str, number: int, run: int) -> Path:
    """Folder of a run's checkpoints."""
    return trial_folder(location, study, number) / f"run-{run}"


def trial_log(location: Location, study: str, number: int) -> Path:
    """Log of a trial."""
    return trial_folder(location, study, number) / "log.txt"


def worker_log(location: Location, study: str, worker: str) -> Path:
    """Whatever a worker and its libraries print."""
    return study_folder(location, study) / f"{worker}.log"
