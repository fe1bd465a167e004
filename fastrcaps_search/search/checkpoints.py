"""The checkpoints of a run: where they are, which of them count, which are no longer wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastrcaps_search.analysis.estimates import read_study
from fastrcaps_search.analysis.front import unwanted
from fastrcaps_search.metrics import RunSetting
from fastrcaps_search.search.files import kept, run_folder
from fastrcaps_search.store.ending import mark_removed
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import RunKey, RunRecord, StudyRecord
from fastrcaps_search.store.schema import storable
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord
from fastrcaps_search.training.checkpoint import CheckpointFolder

if TYPE_CHECKING:
    from fastrcaps_search.export.writer import Weights


def run_checkpoints(
    location: Location,
    study: StudyRecord,
    trial: TrialRecord,
    run: int,
    *,
    claim: int = 1,
    setting: RunSetting | None = None,
) -> CheckpointFolder:
    """Checkpoints of a run, marked so that no other study's are ever read.

    Args:
        location: The database and its files.
        study: The study.
        trial: The trial with its epochs, which say whose checkpoints count.
        run: Index of the run.
        claim: The claim under which checkpoints are written.
        setting: Where the run goes on.
    """
    known = {row.metrics.epoch: row.token for row in trial.epochs if row.run == run}
    stored = next((one for one in trial.runs if one.run == run), None)
    # The holder before this one may have died between a checkpoint and its row. It had
    # continued exactly the rows that are stored, and nobody has held the run since. A
    # checkpoint without a row of a claim before that one may continue rows that are no more.
    # What it measured means nothing where nobody knows on which device that was.
    if claim > 1 and stored is not None and stored.bit_equal and stored.setting == setting:
        known[max(known, default=0) + 1] = claim - 1
    return CheckpointFolder(
        kept(location, run_folder(location, study, trial.number, run)),
        owner={
            "study": study.uid,
            "trial": str(trial.number),
            "run": str(run),
            "seed": str(study.seed_of(run)),
            "configuration": trial.configuration_key,
        },
        claim=claim,
        known=known,
    )


def best_weights(
    location: Location, study: StudyRecord, trial: TrialRecord, run: RunRecord
) -> Weights:
    """The weights of the best epoch of a run that is done.

    Args:
        location: The database and its files.
        study: The study.
        trial: The trial with its epochs, which say whose weights count.
        run: Its run.

    Raises:
        CheckpointError: They are missing or damaged.
    """
    assert run.best_epoch is not None
    return run_checkpoints(location, study, trial, run.run).weights(run.best_epoch)


class CheckpointCollector:
    """Keeps the files of a study, where this machine has them, to what may still be wanted.

    Args:
        store: The store.
        study: The study.
    """

    def __init__(self, store: Store, study: StudyRecord) -> None:
        self._store = store
        self._study = study
        self._collected: set[tuple[int, int, int]] = set()
        self._elsewhere: set[RunKey] = set()

    def collect(self) -> None:
        """Remove what is no longer wanted of trials that nobody holds.

        The checkpoints of trials whose networks are not, and those of runs that have ended
        elsewhere.
        """
        seen = read_study(self._store, self._study.name)
        held = {lease.number for lease in seen.leases}
        for trial in unwanted(seen.trials):
            networks = {(trial.number, run.run, run.token) for run in trial.runs}
            if trial.number in held or networks <= self._collected:
                continue
            if mark_removed(self._store, self._study, trial):
                for number, run, token in networks - self._collected:
                    folder = run_folder(self._store.location, self._study, number, run)
                    place = kept(self._store.location, folder)
                    # Not those of later claims, which belong to others.
                    CheckpointFolder(place, owner={}, claim=token).remove()
                self._collected |= networks
        for trial in seen.trials:
            if trial.number not in held:
                self._leave_no_more(trial)

    def _leave_no_more(self, trial: TrialRecord) -> None:
        """Remove what runs of a trial have left here that were taken over, and ended elsewhere.

        But not the best weights: the other place may be this one by another path.
        """
        location, study = self._store.location, self._study
        for run in trial.runs:
            key = RunKey(trial.number, run.run)
            is_elsewhere = run.files not in (None, storable(location.place))
            if run.token == 1 or run.best_epoch is None or not is_elsewhere:
                continue
            if key not in self._elsewhere:
                self._elsewhere.add(key)
                (whole,) = self._store.trials(study, epochs=True, number=key.number)
                folder = run_checkpoints(location, study, whole, key.run, claim=run.token)
                folder.keep_only_weights(run.best_epoch)
