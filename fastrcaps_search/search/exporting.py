"""From a stored study to the network of one run: which trial, which run, where its weights are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.rows import choosable_rows, failure_reason
from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.errors import CheckpointError, UsageError
from fastrcaps_search.export.model_card import ModelCard
from fastrcaps_search.export.writer import Weights, require_free, require_onnx, write_network
from fastrcaps_search.folders import is_url
from fastrcaps_search.front.criteria import Criteria
from fastrcaps_search.front.selection import select_row
from fastrcaps_search.search.checkpoints import best_weights
from fastrcaps_search.store.records import RunRecord, StudyRecord, TrialState
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

NAMED = "the trial that was named"


@dataclass(frozen=True, slots=True)
class Exported:
    """What was exported, and why that trial.

    Attributes:
        card: What is known of the network.
        why: In plain words.
        trial: The trial that it is one run of.
    """

    card: ModelCard
    why: str
    trial: TrialRecord


def export_trial(
    store: Store,
    study: StudyRecord,
    folder: Path,
    *,
    trial: int | None,
    criteria: Criteria | None,
    run: int | None,
    onnx: bool,
    opset: int | None = None,
) -> Exported:
    """Write the network of the run of highest accuracy, or of another one, of a trial.

    Args:
        store: The store.
        study: The study.
        folder: New or empty folder.
        trial: Number of the trial; ``None`` for the one that fits the criteria.
        criteria: Bounds and preference; ``None`` for the highest accuracy.
        run: Index of the run; ``None`` for the one of highest accuracy.
        onnx: Whether to write ``network.onnx`` too.
        opset: Its opset, which asks for it too; ``None`` for the lowest.

    Raises:
        NothingFitsError: No trial fits the criteria.
        UsageError: No such trial or run, one that is not done, a trial and criteria, or a folder
            in use.
        CheckpointError: The weights are no longer kept, or damaged.
        DiskError: The folder cannot be written.
    """
    if trial is not None and criteria is not None:
        flags = ", ".join(f"--{objective.flag}" for objective in OBJECTIVES)
        raise UsageError(
            f"--trial must be left out with criteria ({flags}, --prefer), got both, --trial "
            f"{trial!r}; leave one of them out"
        )
    require_free(folder)
    if onnx or opset is not None:
        opset = require_onnx(opset)
    trials, why = read_study(store, study.name).trials, NAMED
    if trial is None:
        row = select_row(choosable_rows(trials), criteria or Criteria())
        trial, why = int(row["trial"]), str(row["why"])
    _require_complete(study, trials, trial)
    (chosen,) = store.trials(study, epochs=True, number=trial)
    best, weights = _best_kept(store, study, chosen, run)
    card = _card(study, chosen, best)
    write_network(card, weights, folder=folder, opset=opset)
    return Exported(card, why, chosen)


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
            "networks of trials well behind the front are removed, and a full disk keeps none; "
            "`run --runs-on-front R` trains those that are on it now again"
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
            return run, best_weights(store.location, study, trial, run)
        except CheckpointError as error:
            errors.append((run, error))
    run, first = errors[0]
    were = f"they were in {run.files}" if run.files else "they are"
    where = "" if is_url(run.files or "") else " on the machine that trained them"
    raise CheckpointError(
        f"the weights of trial {trial.number}, run {run.run} must be here, but {first}; "
        f"{were}{where}, or in the place that --files names"
    ) from first


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


def _card(study: StudyRecord, trial: TrialRecord, run: RunRecord) -> ModelCard:
    # Where the best epoch was trained and measured: a run may have gone on elsewhere.
    epochs = [epoch for epoch in trial.epochs if epoch.run == run.run]
    (setting,) = (e.setting for e in epochs if e.metrics.epoch == run.best_epoch)
    return ModelCard(
        definition=study.definition,
        parameters=trial.parameters,
        trial=trial.number,
        run=run.run,
        seed=run.seed,
        learned_parameters=run.parameters or 0,
        best_epoch=run.best_epoch or 0,
        accuracy=run.accuracy or 0.0,
        test_accuracy=run.test_accuracy,
        training_seconds=run.measured_seconds or 0.0,
        setting=setting,
    )
