"""Studies that were really trained, in this process: two quick ones in one database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.search.queue import Idle, TrialQueue
from fastrcaps_search.search.runs import read_test_set, train_run
from fastrcaps_search.search.suggest import propose
from fastrcaps_search.search.workplace import Workplace
from fastrcaps_search.store.claiming import Claim, Claimant
from fastrcaps_search.store.enter import enter_study
from fastrcaps_search.store.lease import RunLease
from fastrcaps_search.store.location import Location, locate
from fastrcaps_search.store.records import Purpose, StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.splits import stage

# Two trials of two runs each.
LENET: dict[str, Any] = {
    "name": "small-lenet",
    "network": "lenet5",
    "data_set": "mnist-mini",
    "epochs": 3,
    "boundaries": [1],
    "train_images": 1200,
    "runs_per_trial": 2,
    "configuration": [
        {"lr_policy": "fixed", "batch_policy": "constant"},
        {"lr_policy": "exponential_decay", "batch_policy": "constant"},
    ],
}
CAPSNET: dict[str, Any] = {
    "name": "small-capsnet",
    "network": "capsnet-narrow",
    "data_set": "mnist-mini",
    "epochs": 2,
    "boundaries": [1],
    "train_images": 600,
    "configuration": [
        {
            "lr_policy": "fixed",
            "batch_policy": "constant",
            "decoder": "full",
            "weight_sharing": True,
        }
    ],
}


@dataclass(frozen=True)
class Trained:
    """A database with the studies small-lenet and small-capsnet.

    Attributes:
        file: The database; the checkpoints are beside it.
    """

    file: Path

    @property
    def location(self) -> Location:
        return locate(str(self.file))

    def read(self, name: str) -> tuple[StudyRecord, list[TrialRecord]]:
        store = Store.reading(self.location)
        try:
            study = store.study(name)
            return study, store.trials(study, epochs=True)
        finally:
            store.close()


def train_studies(folder: Path) -> Trained:
    """Train both, with one thread, and read the test set."""
    trained = Trained(folder / "a.db")
    threads = torch.get_num_threads()
    try:
        for keys in (LENET, CAPSNET):
            _train(trained.location, StudyDefinition.from_dict(keys))
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
    return trained


def _train(location: Location, definition: StudyDefinition) -> None:
    study = enter_study(location, definition, seed=3, budget=len(definition.configurations))
    store = Store.writing(location)
    splits = stage(definition, device="cpu", threads=1, folder=None)
    place = Workplace(
        study,
        splits,
        threads=lambda before: 1,
        tell=lambda event, **facts: None,
        should_stop=lambda: False,
        was_suspended=lambda: False,
    )
    queue = TrialQueue(Claimant(store=store, study=study, worker="w", device="cpu"), propose)
    while isinstance(claim := queue.claim_next(), Claim):
        lease = RunLease(store, claim)
        if claim.purpose is Purpose.TEST:
            read_test_set(place, lease)
            lease.release()
        else:
            train_run(place, lease)
    assert claim is Idle.DONE
    assert all(trial.values for trial in store.trials(study))
    store.close()
