"""The command line's reading and running, from Python; tables are pandas frames."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastrcaps_search.analysis.comparing import comparison_row
from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.networks import without_network
from fastrcaps_search.analysis.rows import choosable_rows, front_rows, trial_rows
from fastrcaps_search.analysis.summary import StudySummary, summarise
from fastrcaps_search.definition.load import stored_name
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.front.criteria import Criteria, Preference
from fastrcaps_search.front.selection import select_row
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.search.launch import LOCAL
from fastrcaps_search.search.layouts import DeviceOptions, WorkerPlan
from fastrcaps_search.search.options import MAX_FAILURES, RunOptions, asked_study, require_whole
from fastrcaps_search.search.orchestrator import Orchestrator, RunObserver, RunOutcome
from fastrcaps_search.store import setting_aside
from fastrcaps_search.store.holders import live_leases
from fastrcaps_search.store.place import LEASE_SECONDS, PATIENCE_SECONDS, chosen_location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.rate_curve import FEWEST_STEPS

if TYPE_CHECKING:
    import pandas as pd

    from fastrcaps_search.training.rate_curve import RateTest


def run_study(
    study: str | StudyDefinition,
    *,
    trials: int | None = None,
    runs_on_front: int | None = None,
    storage: str | None = None,
    data_dir: str | Path | None = None,
    files: str | Path | None = None,
    devices: str = "auto",
    workers: int | None = None,
    workers_per_device: int | None = None,
    seed: int | None = None,
    lease_seconds: float = LEASE_SECONDS,
    store_patience: float = PATIENCE_SECONDS,
    max_failures: int = MAX_FAILURES,
    launcher: str = LOCAL.name,
) -> RunOutcome:
    """Create a study or go on with it, as ``fastrcaps-search run`` does, without printing.

    Args:
        study: A shipped name, a study file, the name of a stored study, or a definition.
        trials: The study's total of trials.
        runs_on_front: Runs that each trial on or near the front is to have in all, 2 or more.
        storage: Database, as for ``--storage``; when ``None``, that of ``FASTRCAPS_STORAGE`` or
            ``fastrcaps.db`` here.
        data_dir: Folder with image data.
        files: Folder of checkpoints and logs, as for ``--files``.
        devices: ``auto``, ``cpu``, ``cuda``, or GPUs as in ``cuda:0,cuda:2``.
        workers: Worker processes; chosen as by ``--workers auto`` when ``None``.
        workers_per_device: Worker processes on each GPU, or on the CPU, instead of ``workers``.
        seed: Seed of a new study.
        lease_seconds: Silence after which a worker counts as lost.
        store_patience: Seconds for which an outage of the database is waited for.
        max_failures: Trials that fail in a row before the run gives up; those that diverge do not
            count.
        launcher: What starts the workers: ``local``, or the name of a plug-in's launcher.

    Raises:
        FastrcapsError: As the command would report it.
    """
    location = chosen_location(storage, None if files is None else str(files))
    options = RunOptions(
        definition=asked_study(study, location) if isinstance(study, str) else study,
        trials=trials,
        location=location,
        data_folder=None if data_dir is None else Path(data_dir).absolute(),
        devices=DeviceOptions(devices, workers, workers_per_device),
        seed=seed,
        repeats=runs_on_front,
        lease_seconds=lease_seconds,
        store_patience=store_patience,
        max_failures=max_failures,
        launcher=launcher,
    )
    with closing(Orchestrator.begin(options)) as orchestrator:
        return orchestrator.run(_Warns())


class _Warns(RunObserver):
    """Says nothing but what a caller should know before workers start."""

    def planned(self, orchestrator: Orchestrator, plan: WorkerPlan) -> None:
        if plan.warning:
            # At the line that calls run_study.
            warnings.warn(plan.warning, stacklevel=4)


def find_rates(
    study: str | StudyDefinition,
    *,
    storage: str | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    seed: int = 0,
    steps: int | None = None,
) -> RateTest:
    """Learning rates for a study, as ``fastrcaps-search rates`` proposes them.

    Args:
        study: A shipped name, a study file, a stored name, or a definition.
        storage: Database of a stored name, as for ``--storage``.
        data_dir: Folder with image data.
        device: ``auto``, ``cpu``, ``cuda``, or a GPU as in ``cuda:1``.
        seed: Seed of weights, order and shifts.
        steps: Steps to make, at least 20; 300, or as many as fit into 90 seconds, when ``None``.

    Returns:
        ``lr_max``, ``lr_min`` and the ``curve`` of losses that they follow from.

    Raises:
        FastrcapsError: As the command would report it.
    """
    require_whole("seed", seed, low=0)
    if steps is not None:
        require_whole("steps", steps, low=FEWEST_STEPS)
    # Torch takes seconds to import, and nothing else here needs it.
    from fastrcaps_search.training.rate_range import find_rates as found

    if isinstance(study, str):
        study = asked_study(study, chosen_location(storage))
    folder = None if data_dir is None else Path(data_dir)
    return found(study, folder=folder, device=device, seed=seed, steps=steps)


def read_trials(study: str, *, storage: str | None = None) -> pd.DataFrame:
    """Every trial of a stored study, a row each, with the columns of ``trials --json``.

    Nested columns are named ``params.decoder``, ``values.accuracy`` and so on.
    """
    return _frame(trial_rows(_read(study, storage)[1]))


def read_front(study: str, *, storage: str | None = None) -> pd.DataFrame:
    """The trials on the front, with the columns of ``front --json``."""
    return _frame(front_rows(_read(study, storage)[1]))


def read_status(study: str, *, storage: str | None = None) -> StudySummary:
    """Counts, hypervolume and time left."""
    return _read(study, storage)[2]


def select_trial(
    study: str,
    *,
    min_accuracy: float | None = None,
    max_seconds: float | None = None,
    max_parameters: float | None = None,
    prefer: str = "accuracy",
    storage: str | None = None,
) -> dict[str, Any]:
    """The trial on the front that fits bounds and preference, as ``select --json`` prints it.

    Args:
        study: The study.
        min_accuracy: Least accuracy, a fraction from 0 to 1.
        max_seconds: Most training seconds.
        max_parameters: Most learned parameters.
        prefer: ``accuracy``, ``time``, ``size``, ``knee`` or ``weights=a,t,p``, as for
            ``--prefer``.
        storage: Database, as for ``--storage``.

    Returns:
        The trial's columns, nested as in the JSON, and ``why``.

    Raises:
        NothingFitsError: No trial on the front fits; it names the nearest ones.
        FastrcapsError: As the command would report it.
    """
    criteria = Criteria(min_accuracy, max_seconds, max_parameters, Preference.read(prefer))
    return select_row(choosable_rows(_read(study, storage)[1]), criteria)


def exclude_trial(study: str, number: int, *, why: str, storage: str | None = None) -> list[int]:
    """Set a complete trial aside, as ``trials --exclude`` does: off the front and all choices.

    Args:
        study: The study.
        number: Number of the trial.
        why: In one line; it is stored with the user's name, the machine's and the time.
        storage: Database, as for ``--storage``.

    Returns:
        Trials that are now on the front without a network to export.

    Raises:
        FastrcapsError: As the command would report it.
    """
    with _writing(study, storage) as (store, record):
        setting_aside.exclude(store, record, number, why=why)
        return without_network(read_study(store, record.name).trials)


def include_trial(study: str, number: int, *, storage: str | None = None) -> None:
    """Take back a trial that was set aside, as ``trials --include`` does.

    Args:
        study: The study.
        number: Number of the trial.
        storage: Database, as for ``--storage``.

    Raises:
        FastrcapsError: As the command would report it.
    """
    with _writing(study, storage) as (store, record):
        setting_aside.include(store, record, number)


def compare_trials(
    study: str, first: int, second: int, *, storage: str | None = None
) -> dict[str, Any]:
    """How the networks of two complete trials differ on the evaluation images.

    Of each trial it is the run of highest accuracy, as ``export`` hands it out: the answer speaks
    of these two networks and of such images, not of their configurations.

    Returns:
        What ``compare --json`` prints: ``networks`` with ``trial``, ``run``, ``accuracy`` and
        ``only``, the number of images that only this one has right; ``difference`` of the
        accuracies, ``low`` and ``high`` of its 95 % interval, and ``p_value`` of McNemar's test.

    Raises:
        FastrcapsError: As the command would report it.
    """
    store = Store.reading(chosen_location(storage))
    try:
        return comparison_row(store, store.study(stored_name(study)), first, second)
    finally:
        store.close()


def export_network(
    study: str,
    out: str | Path,
    *,
    trial: int | None = None,
    min_accuracy: float | None = None,
    max_seconds: float | None = None,
    max_parameters: float | None = None,
    prefer: str | None = None,
    run: int | None = None,
    onnx: bool = False,
    storage: str | None = None,
    files: str | Path | None = None,
) -> Path:
    """Write the trained network of a trial into a folder, for :func:`load_network`.

    Args:
        study: The study.
        out: New or empty folder.
        trial: Number of the trial, instead of the criteria that follow.
        min_accuracy: As for :func:`select_trial`.
        max_seconds: As for :func:`select_trial`.
        max_parameters: As for :func:`select_trial`.
        prefer: As for :func:`select_trial`; ``accuracy`` when ``None``.
        run: Index of its run; the one of highest accuracy when ``None``.
        onnx: Whether to write ``network.onnx`` too.
        storage: Database, as for ``--storage``.
        files: Folder of checkpoints and logs, as for ``--files``.

    Returns:
        The folder.

    Raises:
        FastrcapsError: As the command would report it.
    """
    # Torch takes seconds to import, and nothing else here needs it.
    from fastrcaps_search.search.exporting import export_trial

    bounds = (min_accuracy, max_seconds, max_parameters)
    criteria = None
    if (*bounds, prefer) != (None,) * 4:
        criteria = Criteria(*bounds, Preference.read("accuracy" if prefer is None else prefer))
    store = Store.reading(chosen_location(storage, None if files is None else str(files)))
    try:
        chosen, folder = store.study(stored_name(study)), Path(out)
        export_trial(store, chosen, folder, trial=trial, criteria=criteria, run=run, onnx=onnx)
        return folder
    finally:
        store.close()


@contextmanager
def _writing(study: str, storage: str | None) -> Iterator[tuple[Store, StudyRecord]]:
    store = Store.writing(chosen_location(storage))
    try:
        yield store, store.study(stored_name(study))
    finally:
        store.close()


def _read(study: str, storage: str | None) -> tuple[StudyRecord, list[TrialRecord], StudySummary]:
    store = Store.reading(chosen_location(storage))
    try:
        seen = read_study(store, stored_name(study))
        possible = configuration_count(seen.study.definition)
        leases = live_leases(seen.leases)
        summary = summarise(seen.study, seen.trials, leases, possible=possible)
        return seen.study, seen.trials, summary
    finally:
        store.close()


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.json_normalize(rows)
