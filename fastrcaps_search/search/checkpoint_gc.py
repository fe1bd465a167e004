"""Garbage collection of checkpoints: the networks of trials well behind the front."""

from __future__ import annotations

from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.networks import unwanted
from fastrcaps_search.search import files
from fastrcaps_search.store.reaping import mark_removed
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.checkpoint import CheckpointFolder


class CheckpointCollector:
    """Keeps the files of a study on this machine to what may still be wanted.

    Args:
        store: The store.
        study: The study.
    """

    def __init__(self, store: Store, study: StudyRecord) -> None:
        self._store = store
        self._study = study
        self._collected: set[tuple[int, int, int]] = set()

    def collect(self) -> None:
        """Remove the checkpoints of trials whose networks are no longer wanted, and not held."""
        seen = read_study(self._store, self._study.name)
        held = {lease.number for lease in seen.leases}
        for trial in unwanted(seen.trials):
            networks = {(trial.number, run.run, run.token) for run in trial.runs}
            if trial.number in held or networks <= self._collected:
                continue
            if mark_removed(self._store, self._study, trial):
                for network in networks - self._collected:
                    self._remove(*network)
                self._collected |= networks

    def _remove(self, number: int, run: int, token: int) -> None:
        """Remove the checkpoints of a run but those of later claims, which belong to others."""
        folder = files.run_folder(self._store.location, self._study, number, run)
        CheckpointFolder(folder, owner={}, claim=token).remove()
