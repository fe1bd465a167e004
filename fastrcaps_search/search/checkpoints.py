"""Where the checkpoints of a run are, and which of them count."""

from __future__ import annotations

from collections.abc import Mapping

from fastrcaps_search.search.files import run_folder
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import RunKey, StudyRecord
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.checkpoint import CheckpointFolder


def tokens_by_epoch(trial: TrialRecord, *, run: int) -> dict[int, int]:
    """The claim that stored each epoch of a run."""
    return {row.metrics.epoch: row.token for row in trial.epochs if row.run == run}


def run_checkpoints(
    location: Location,
    study: StudyRecord,
    key: RunKey,
    *,
    configuration_key: str,
    known: Mapping[int, int],
    claim: int = 1,
) -> CheckpointFolder:
    """Checkpoints of a run, marked so that no other study's are ever read.

    Args:
        location: The database and its files.
        study: The study.
        key: The run.
        configuration_key: Its trial's configuration.
        known: The claim whose checkpoint counts, by epoch.
        claim: The claim under which checkpoints are written.
    """
    return CheckpointFolder(
        run_folder(location, study, key.number, key.run),
        owner={
            "study": study.uid,
            "trial": str(key.number),
            "run": str(key.run),
            "seed": str(study.seed + key.run),
            "configuration": configuration_key,
        },
        claim=claim,
        known=known,
    )
