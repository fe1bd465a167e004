"""Where a study keeps its files: checkpoints and logs in one folder of its own."""

from __future__ import annotations

from pathlib import Path

from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord


def study_folder(location: Location, study: StudyRecord) -> Path:
    """Folder of a study: studies of one name in several databases may share the folder above."""
    return location.files / f"{study.name}-{study.uid[:8]}"


def trial_folder(location: Location, study: StudyRecord, number: int) -> Path:
    """Folder of a trial."""
    return study_folder(location, study) / f"trial-{number:04d}"


def run_folder(location: Location, study: StudyRecord, number: int, run: int) -> Path:
    """Folder of a run's checkpoints."""
    return trial_folder(location, study, number) / f"run-{run}"


def trial_log(location: Location, study: StudyRecord, number: int) -> Path:
    """Log of a trial."""
    return trial_folder(location, study, number) / "log.txt"


def worker_log(location: Location, study: StudyRecord, worker: str) -> Path:
    """Whatever a worker and its libraries print."""
    return study_folder(location, study) / f"{worker}.log"
