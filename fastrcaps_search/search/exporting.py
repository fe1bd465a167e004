"""From a stored study to the network of one run: which trial, which run, where its weights are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fastrcaps_search.analysis.rows import choosable_rows, failure_reason
from fastrcaps_search.definition.release import release
from fastrcaps_search.errors import CheckpointError, UsageError
from fastrcaps_search.front.criteria import Criteria
from fastrcaps_search.front.selection import select_row
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.search.files import run_folder, run_owner
from fastrcaps_search.search.runs import claims
from fastrcaps_search.store.records import RunRecord, StudyRecord, TrialRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.checkpoint import CheckpointFolder
from fastrcaps_search.training.export import (
    Weights,
    require_free,
    torch_version,
    write_network,
)
from fastrcaps_search.training.network_record import NetworkRecord
from fastrcaps_search.training.onnx_file import require_onnx

NAMED = "the trial that was named"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What to export, and where to.

    Attributes:
        folder: New or empty folder.
        trial: Number of the trial; ``None`` for the one that fits ``criteria``.
        criteria: Bounds and preference.
        run: Index of the run; ``None`` for the one of highest accuracy.
        onnx: Whether to write ``network.onnx`` too.
    """

    folder: Path
    trial: int | None = None
    criteria: Criteria = field(default_factory=Criteria)
    run: int | None = None
    onnx: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """What was exported, and why that trial.

    Attributes:
        folder: Where it is.
        record: What is known of the network.
        why: In plain words.
        trial: The trial that it is one run of.
    """

    folder: Path
    record: NetworkRecord
    why: str
    trial: TrialRecord


def export_trial(store: Store, study: StudyRecord, request: ExportRequest) -> Exported:
    """Write the network of the run of highest accuracy, or of another one, of a trial.

    Raises:
        NothingFitsError: No trial fits the criteria.
        UsageError: No such trial or run, one that is not done, or a folder in use.
        CheckpointError: The weights are no longer kept, or damaged.
        DiskError: The folder cannot be written.
    """
    require_free(request.folder)
    if request.onnx:
        require_onnx()
    trials = store.trials(study)
    number, why = request.trial, NAMED
    if number is None:
        row = select_row(choosable_rows(trials), request.criteria)
        number, why = int(row["trial"]), str(row["why"])
    _require_complete(study, trials, number)
    (trial,) = store.trials(study, epochs=True, number=number)
    run, weights = _best_kept(store, study, trial, request.run)
    record = write_network(
        _record(study, trial, run), weights, folder=request.folder, onnx=request.onnx
    )
    return Exported(request.folder, record, why, trial)


def kept_runs(trial: TrialRecord, index: int | None) -> list[RunRecord]:
    """The run that was named, or all whose networks are kept, by falling accuracy, then index.

    Raises:
        UsageError: It is not there, not done, or its network was removed; or all were.
    """
    kept = [run for run in trial.results if not run.removed]
    found = [run for run in kept if index in (None, run.run)]
    if not found:
        known = ", ".join(str(run.run) for run in kept) or "none"
        why = (
            "networks of trials well behind the front are removed; `run --repeat-front R` trains "
            "those that are on it now again"
        )
        if trial.infeasible is not None and not kept:
            why = f"the trial is infeasible ({trial.infeasible}), and no front wants its network"
        wanted, got = "trial must be one", trial.number
        if index is not None:
            wanted, got = f"--run must be a run of trial {trial.number}", index
        raise UsageError(f"{wanted} whose network is kept ({known}), got {got}; {why}")
    return sorted(found, key=lambda run: (-(run.accuracy or 0.0), run.run))


def _best_kept(
    store: Store, study: StudyRecord, trial: TrialRecord, index: int | None
) -> tuple[RunRecord, Weights]:
    """The first of the runs whose weights can be read here, and these weights."""
    errors = []
    for run in kept_runs(trial, index):
        try:
            return run, _weights(store, study, trial, run)
        except CheckpointError as error:
            errors.append(error)
    raise errors[0]


def _require_complete(study: StudyRecord, trials: Sequence[TrialRecord], number: int) -> None:
    found = next((trial for trial in trials if trial.number == number), None)
    look = f"`fastrcaps-search trials --study {study.name}` lists them"
    if found is None:
        raise UsageError(
            f"--trial must be one of the {len(trials)} trials of {study.name}, got {number}; "
            f"{look}"
        )
    if found.state is not TrialState.COMPLETE:
        why = f" ({failure_reason(found)})" if found.state is TrialState.FAILED else ""
        raise UsageError(
            f"--trial must be a complete trial of {study.name}, got trial {number}, which is "
            f"{found.state}{why}; {look}"
        )


def _weights(store: Store, study: StudyRecord, trial: TrialRecord, run: RunRecord) -> Weights:
    known = claims(trial, run=run.run)
    folder = CheckpointFolder(
        run_folder(store.location, study, trial.number, run.run),
        owner=run_owner(
            study,
            number=trial.number,
            run=run.run,
            seed=run.seed,
            configuration_key=trial.configuration_key,
        ),
        known=known,
    )
    try:
        return folder.weights(run.best_epoch or 0)
    except CheckpointError as error:
        raise CheckpointError(
            f"the weights of trial {trial.number}, run {run.run} must be here, but {error}; they "
            "are on the machine that trained them, or in the folder that --files names"
        ) from error


def _record(study: StudyRecord, trial: TrialRecord, run: RunRecord) -> NetworkRecord:
    definition = study.definition
    return NetworkRecord(
        study=study.name,
        data_set=definition.data_set,
        evaluate_on=definition.evaluate_on,
        trial=trial.number,
        run=run.run,
        seed=run.seed,
        network=definition.network,
        routing_gradient=definition.routing_gradient,
        params=trial.parameters,
        learned_parameters=run.parameters or 0,
        best_epoch=run.best_epoch or 0,
        accuracy=run.accuracy or 0.0,
        test_accuracy=run.test_accuracy,
        training_seconds=run.training_seconds or 0.0,
        setting=_setting(trial, run),
        versions={
            "fastrcaps_search": release(),
            "torch_trained": run.setting.torch_version,
            "torch_exported": torch_version(),
        },
        files={},
    )


def _setting(trial: TrialRecord, run: RunRecord) -> RunSetting:
    """Where the best epoch was trained and measured: a run may have gone on elsewhere."""
    epochs = (e for e in trial.epochs if e.run == run.run and e.metrics.epoch == run.best_epoch)
    return next((epoch.setting for epoch in epochs), run.setting)
