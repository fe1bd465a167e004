"""What an engine is given for each worker."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fastrcaps_search.definition.load import load_study
from fastrcaps_search.search import placed_worker
from fastrcaps_search.search.layouts import DeviceOptions
from fastrcaps_search.search.options import RunOptions
from fastrcaps_search.search.placed_worker import job_name, jobs_folder, worker_job
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.location import chosen_location
from fastrcaps_search.training.resources import Limit


@pytest.mark.parametrize(
    ("files", "folder"), [("s3://bucket/prefix", "a-files"), ("elsewhere", "elsewhere")]
)
def test_a_worker_is_told_where_checkpoints_are_and_its_log_is_on_a_disk(
    files: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    location = chosen_location(str(tmp_path / "a.db"), files)
    definition = load_study("mnist-mini")
    study = enter_study(location, definition, seed=None, budget=1)
    options = RunOptions(
        definition=definition,
        trials=1,
        location=location,
        lease_seconds=30.0,
        store_patience=600.0,
        launcher="slurm",
    )
    job = worker_job(options, study)
    jobs = tmp_path / folder / f"mnist-mini-{study.uid[:8]}" / "jobs"
    assert job.log.parent == jobs
    assert job.environment == {
        "FASTRCAPS_STORAGE_FILE": str(jobs / "storage"),
        "FASTRCAPS_FILES": files if "://" in files else str(tmp_path / files),
    }
    # What lies in the working directory shadows nothing.
    assert job.command[:4] == ("-P", "-m", "fastrcaps_search", "worker")

    named = dataclasses.replace(options, launcher_options={"folder": (str(tmp_path / "jobs"),)})
    assert jobs_folder(named, study) == tmp_path / "jobs" / job_name(study)


@pytest.mark.parametrize(
    ("jobs", "devices", "cores"),
    [
        (1, DeviceOptions(), 8),
        (3, DeviceOptions(), 2),
        (16, DeviceOptions(), 1),
        (0, DeviceOptions(), 8),
        (2, DeviceOptions(threads=3), 3),
        (2, DeviceOptions(threads=3, workers_per_device=2), 6),
    ],
)
def test_jobs_that_come_to_share_this_machine_divide_its_cores(
    jobs: int,
    devices: DeviceOptions,
    cores: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placed_worker, "granted_cores", lambda: Limit(8))
    location, definition = chosen_location(str(tmp_path / "a.db"), None), load_study("mnist-mini")
    study = enter_study(location, definition, seed=None, budget=1)
    options = RunOptions(
        definition=definition,
        trials=1,
        location=location,
        lease_seconds=30.0,
        store_patience=600.0,
        launcher="slurm",
        jobs=jobs,
        devices=devices,
    )
    assert worker_job(options, study).cores == cores
