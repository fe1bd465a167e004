"""Training, range tests and exports, from Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from fastrcaps_search.definition.load import StudyLike
from fastrcaps_search.errors import importing
from fastrcaps_search.front.criteria import Criteria, Preference
from fastrcaps_search.search.launch import LOCAL
from fastrcaps_search.search.launchers import planned_workers
from fastrcaps_search.search.layouts import DeviceOptions
from fastrcaps_search.search.options import MAX_FAILURES, RunOptions, asked_study, require_whole
from fastrcaps_search.search.orchestrator import Orchestrator, RunObserver
from fastrcaps_search.search.outcome import RunOutcome
from fastrcaps_search.store.location import LEASE_SECONDS, PATIENCE_SECONDS, chosen_location
from fastrcaps_search.store.store import opened_study
from fastrcaps_search.training.rate_curve import FEWEST_STEPS
from fastrcaps_search.typed import path_of, plain_numbers

if TYPE_CHECKING:
    from fastrcaps_search.training.rate_curve import RateTest


@plain_numbers
def run_study(
    study: StudyLike,
    *,
    trials: int | None = None,
    runs_on_front: int | None = None,
    reference_device: str | None = None,
    storage: str | Path | None = None,
    data_dir: str | Path | None = None,
    files: str | Path | None = None,
    devices: str = "auto",
    workers: int | None = None,
    workers_per_device: int | None = None,
    threads: int | None = None,
    seed: int | None = None,
    lease_seconds: float = LEASE_SECONDS,
    store_patience: float = PATIENCE_SECONDS,
    max_failures: int = MAX_FAILURES,
    launcher: str = LOCAL.name,
    launcher_options: Mapping[str, str | Sequence[str]] | None = None,
    detach: bool = False,
) -> RunOutcome:
    """Create a study or go on with it, as ``fastrcaps-search run`` does, without printing.

    Args:
        study: A shipped name, a study file, the name of a stored study, or a definition.
        trials: The study's total of trials; a warning says where it is to have more already.
        runs_on_front: Runs that each trial on or near the front is to have in all, 2 or more.
        reference_device: Name of the device in whose seconds the study counts, to be told before
            its first trial, one of this machine unless the workers are placed elsewhere; the first
            one that trains for it when ``None``.
        storage: Database, as for ``--storage``; when ``None``, that of ``FASTRCAPS_STORAGE`` or
            ``fastrcaps.db`` here.
        data_dir: Folder with image data.
        files: Folder of checkpoints and logs, or URL of checkpoints, as for ``--files``.
        devices: ``auto``, ``cpu``, ``cuda``, or GPUs as in ``cuda:0,cuda:2``.
        workers: Worker processes; chosen as by ``--workers auto`` when ``None``.
        workers_per_device: Worker processes on each GPU, or on the CPU, instead of ``workers``.
        threads: Threads of each worker; those of the study's layout when ``None``.
        seed: Seed of a new study.
        lease_seconds: Silence after which a worker counts as lost.
        store_patience: Seconds for which an outage of the database is waited for.
        max_failures: Trials that fail in a row before the run gives up; those that diverge do not
            count.
        launcher: What starts the workers: ``local``, the name of a plug-in's launcher, or that of
            an engine which places them, such as ``slurm``; ``workers`` are then its jobs, 1 when
            ``None``, and 0 gives those of a stored study back and does nothing else.
        launcher_options: What such an engine is told, as for ``--launcher-option``; several values
            of one name as a list.
        detach: Whether to return once such an engine has the workers.

    Returns:
        How the study then stands.

    Raises:
        FastrcapsError: As the command would report it.
    """
    location = chosen_location(storage, None if files is None else str(files))
    here, jobs = planned_workers(launcher, workers)
    options = RunOptions(
        definition=asked_study(study, location),
        trials=trials,
        location=location,
        data_folder=None if data_dir is None else path_of(data_dir, "data_dir").absolute(),
        devices=DeviceOptions(devices, here, workers_per_device, threads),
        seed=seed,
        front_runs=runs_on_front,
        reference_device=reference_device,
        lease_seconds=lease_seconds,
        store_patience=store_patience,
        max_failures=max_failures,
        launcher=launcher,
        jobs=jobs,
        launcher_options={
            name: (value,) if isinstance(value, str) else tuple(value)
            for name, value in (launcher_options or {}).items()
        },
        detach=detach,
    )
    with closing(Orchestrator.begin(options)) as orchestrator:
        return orchestrator.run(_Warns())


class _Warns(RunObserver):
    """Says nothing but what a caller should know."""

    def warned(self, warning: str) -> None:
        # At the line that calls run_study, above its decorator.
        warnings.warn(warning, stacklevel=6)


@plain_numbers
def find_rates(
    study: StudyLike,
    *,
    storage: str | Path | None = None,
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
    with importing():
        from fastrcaps_search.training.rate_range import find_rates as found

    asked = asked_study(study, chosen_location(storage))
    folder = None if data_dir is None else path_of(data_dir, "data_dir")
    return found(asked, folder=folder, device=device, seed=seed, steps=steps)


@plain_numbers
def export_network(
    study: StudyLike,
    out: str | Path,
    *,
    trial: int | None = None,
    prefer: str | None = None,
    run: int | None = None,
    onnx: bool = False,
    opset: int | None = None,
    storage: str | Path | None = None,
    files: str | Path | None = None,
    **bounds: float | None,
) -> Path:
    """Write the trained network of a trial into a folder, for :func:`load_network`.

    Args:
        study: The study.
        out: New or empty folder.
        trial: Number of the trial, instead of ``prefer`` and ``bounds``.
        prefer: As for :func:`select_trial`; ``accuracy`` when ``None``.
        run: Index of its run; the one of highest accuracy when ``None``.
        onnx: Whether to write ``network.onnx`` too.
        opset: Its opset, which asks for it too, from 18 on; 18 when ``None``.
        storage: Database, as for ``--storage``.
        files: Folder of checkpoints and logs, or URL of checkpoints, as for ``--files``.
        bounds: As for :func:`select_trial`.

    Returns:
        The folder.

    Raises:
        FastrcapsError: As the command would report it.
    """
    # Torch takes seconds to import, and nothing else here needs it.
    with importing():
        from fastrcaps_search.search.exporting import export_trial

    criteria = Criteria.given(bounds, None if prefer is None else Preference.read(prefer))
    location = chosen_location(storage, None if files is None else str(files))
    folder = path_of(out, "out")
    with opened_study(location, study) as (store, record):
        export_trial(
            store, record, folder, trial=trial, criteria=criteria, run=run, onnx=onnx, opset=opset
        )
    return folder
