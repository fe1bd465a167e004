"""How a run begins: all that could refuse it is looked at, and only then is the study stored."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from fastrcaps_search.errors import StudyNotFoundError, UsageError, WrongStoreError
from fastrcaps_search.search import files
from fastrcaps_search.search.again import asked_flags
from fastrcaps_search.search.calibrate import device_here
from fastrcaps_search.search.engines import Cluster
from fastrcaps_search.search.job_options import FOLDER
from fastrcaps_search.search.options import RunOptions, stored_study
from fastrcaps_search.search.slots import runtime_folder
from fastrcaps_search.store.calibrations import read_calibrations
from fastrcaps_search.store.enter import check_ours, difference, enter_study
from fastrcaps_search.store.location import (
    PASSWORD_VARIABLE,
    STORAGE_FILE_VARIABLE,
    Location,
)
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.retry import RetryPolicy
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.resources import granted_cores


def enter(options: RunOptions, patience: RetryPolicy) -> Cluster | None:
    """Create the study, or join it; a run that gives all jobs back changes nothing of it.

    Args:
        options: What was asked.
        patience: How outages of the database are borne.

    Returns:
        The engine that places the workers, where one does.

    Raises:
        FastrcapsError: The run is refused; nothing was stored then.
    """
    _require_password(options)
    runtime_folder()
    files.require_usable(options.location, patience.stop)
    name, shown = options.definition.name, options.location.shown
    stored = patience(lambda: _stored(options.location, name))
    if options.jobs == 0:
        if stored is None:
            raise StudyNotFoundError(
                f'study "{name}" must be in {shown} for its jobs to be given back, got none of '
                "that name; --workers 0 begins no study"
            )
        return _opened(options)
    budget = _budget(options, stored)
    cluster = _opened(options)
    if cluster is None and _changes(options, stored, budget):
        _look(options, stored, patience.stop)
    patience(
        lambda: enter_study(
            options.location,
            options.definition,
            seed=options.seed,
            budget=budget,
            front_runs=options.front_runs or 0,
            reference_device=options.reference_device,
            flags=asked_flags(options),
        )
    )
    return cluster


def _require_password(options: RunOptions) -> None:
    """Make sure that the workers of an engine find the password where this process does."""
    location, given = options.location, os.environ.get(PASSWORD_VARIABLE)
    if options.engine is not None and location.path is None and given and not location.secrets:
        raise UsageError(
            f"the URL of the database must hold the password for {options.launcher}, got one in "
            f"{PASSWORD_VARIABLE}, which jobs do not get; put it into the URL, in a file that "
            f"{STORAGE_FILE_VARIABLE} names, or into ~/.pgpass where the jobs run, and unset it"
        )


def _stored(location: Location, name: str) -> StudyRecord | None:
    """The study of that name, if it is there; a database of another program is refused."""
    if location.path is not None and not location.path.exists():
        return None
    check_ours(location)
    try:
        return stored_study(location, name)
    except WrongStoreError:
        # It is empty, or Optuna's alone.
        return None


def _opened(options: RunOptions) -> Cluster | None:
    """The engine that places the workers, where one does, with a folder for its jobs."""
    engine = options.engine
    if engine is None:
        return None
    for folder in options.launcher_options.get(FOLDER, ()):
        files.require_writable(
            Path(folder).expanduser().absolute(), advice="name another --launcher-option folder"
        )
    return engine.open(options.launcher_options)


def _budget(options: RunOptions, stored: StudyRecord | None) -> int:
    """Trials that the study is to have: as asked, else as listed, else as stored.

    Raises:
        UsageError: None of these is known.
    """
    if options.trials is not None:
        return options.trials
    if options.definition.configurations:
        return len(options.definition.configurations)
    if stored is not None:
        return stored.budget
    raise UsageError("--trials must be given to begin a search, for example --trials 12")


def _changes(options: RunOptions, stored: StudyRecord | None, budget: int) -> bool:
    """Whether entering stores anything."""
    if stored is None:
        return True
    asked = options.reference_device
    return (
        budget > stored.budget
        or (options.front_runs or 0) > stored.front_runs
        or asked not in (None, stored.reference_device)
        or difference(stored, options.definition, seed=options.seed) != ""
    )


def _look(options: RunOptions, stored: StudyRecord | None, stop: threading.Event) -> None:
    """Look at the images and devices of this machine."""
    options.definition.data_set.look(options.data_folder)
    reference = options.reference_device
    # A CPU is everywhere, and to ask torch takes seconds.
    if options.devices.may_use_cpu and reference is None:
        return
    cores = granted_cores().amount
    here = device_here(options.definition, options.devices, cores=cores, stop=stop)
    if reference in (None, here) or (stored and _may_refer(options.location, stored, reference)):
        return
    raise UsageError(
        "the reference device must be what this run trains on, or what was calibrated for the "
        f'study, got "{reference}"; it is {here} here, as `fastrcaps-search doctor` says, and a '
        "study that is to count in seconds of another machine is begun there by the same line"
    )


def _may_refer(location: Location, stored: StudyRecord, device: str) -> bool:
    """Whether a stored study has calibrated the device, or begun: it then says itself which."""
    with Store.reading(location) as store:
        known = store.read(lambda connection: read_calibrations(connection, stored.study_id))
        return device in {one.setting.device_name for one in known} or bool(store.trials(stored))
