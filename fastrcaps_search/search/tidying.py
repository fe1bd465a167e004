"""Removing the networks of trials that are well behind the front."""

from __future__ import annotations

from fastrcaps_search.search import files
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.removal import give_up_networks
from fastrcaps_search.store.store import Store
from fastrcaps_search.training.checkpoint import CheckpointFolder


class Tidying:
    """Keeps the files of a study on this machine to what may still be wanted.

    Args:
        store: The store.
        study: The study.
    """

    def __init__(self, store: Store, study: StudyRecord) -> None:
        self._store = store
        self._study = study
        self._tidied: set[tuple[int, int]] = set()

    def tidy(self) -> None:
        """Remove the checkpoints of trials whose networks are no longer wanted."""
        for number, token in give_up_networks(self._store, self._study):
            if (number, token) not in self._tidied:
                self._remove(number, up_to=token)
                self._tidied.add((number, token))

    def _remove(self, number: int, *, up_to: int) -> None:
        """Remove the checkpoints of a trial but those of later claims."""
        location = self._store.location
        for folder in files.trial_folder(location, self._study, number).glob("run-*"):
            CheckpointFolder(folder, owner={}, claim=up_to).remove()
