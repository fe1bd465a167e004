"""Removing the networks of trials that have left the front: only those on or near it are kept."""

from __future__ import annotations

from fastrcaps_search.search import files
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.summary import front_numbers
from fastrcaps_search.store.sureness import near_front_numbers
from fastrcaps_search.training.checkpoint import CheckpointFolder


class Tidying:
    """Keeps the files of a study to what may still be wanted.

    A trial behind the front comes back to it only when repeats change values: those near it keep
    their networks, and while repeats are planned those of the next front behind it, too.

    Args:
        store: The store.
        study: The study.
    """

    def __init__(self, store: Store, study: StudyRecord) -> None:
        self._store = store
        self._study = study
        # Token under which a trial was tidied last, by its number.
        self._tidied: dict[int, int] = {}

    def tidy(self) -> None:
        """Remove checkpoints of trials that have ended and are neither on nor near the front."""
        trials = self._store.trials(self._study)
        kept = set(near_front_numbers(trials))
        if self._store.study(self._study.name).repeats:
            kept |= set(front_numbers([trial for trial in trials if trial.number not in kept]))
        kept |= {lease.number for lease in self._store.leases(self._study)}
        for trial in trials:
            if not trial.is_finished or trial.number in kept:
                continue
            if self._tidied.get(trial.number) != trial.token:
                self._remove(trial.number, up_to=trial.token)
                self._tidied[trial.number] = trial.token

    def _remove(self, number: int, *, up_to: int) -> None:
        """Remove the checkpoints of a trial but those of claims that have not been seen here."""
        location = self._store.location
        for folder in files.trial_folder(location, self._study, number).glob("run-*"):
            CheckpointFolder(folder, owner={}, claim=up_to).remove()
