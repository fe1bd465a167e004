"""Finished trials in Optuna's own tables, so that optuna-dashboard and its like can read them.

Ours are the truth. A trial is added, through Optuna's public API, once all before it have ended:
so it has our number there. One process at a time adds, under a lease of the whole database, which
makes no writer of ours wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile

import optuna
from alembic.util import CommandError
from optuna.trial import FrozenTrial
from sqlalchemy import Connection, inspect

from fastrcaps_search.analysis.optuna_trials import NUMBER_KEY, directions, frozen_trial, quiet
from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.errors import StoreError
from fastrcaps_search.store.claiming import ExportLease
from fastrcaps_search.store.db_errors import store_errors
from fastrcaps_search.store.engine import engine_settings, prepare_writing, writing_url
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.store import Store
from fastrcaps_search.store.trials import TrialRecord

PAUSE_SECONDS = 0.25


class OptunaExport:
    """Adds the finished trials of a study.

    Args:
        store: The store, open for writing.
        name: Name of the study.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._patience = store.patience
        # Patience within patience would last twice as long.
        self._store = store = Store(store.location, store.engine)
        self._name = name
        self._lease = ExportLease(store)
        self._opened: optuna.Study | None = None
        self._storage: optuna.storages.RDBStorage | None = None
        self._added: set[int] = set()

    def close(self) -> None:
        """Close Optuna's connections, until it needs some again."""
        if self._storage is not None:
            self._storage.remove_session()
            self._storage.engine.dispose()

    def wait_and_add(self, seconds: float) -> bool:
        """Add what is missing, once others that add are done; whether that was within the time.

        Outages are borne with the store's patience.

        Raises:
            StoreError: The database refused, or another program has a study of that name.
        """
        for _ in range(int(seconds / PAUSE_SECONDS)):
            if self._patience(self.add):
                return True
            if self._patience.stop.wait(PAUSE_SECONDS):
                break
        return self._patience(self.add)

    def add(self) -> bool:
        """Add what is missing, without patience; ``False`` where another process is about to add.

        Raises:
            StoreError: The database refused, or another program has a study of that name.
        """
        seen = self._store.snapshot(self._name)
        finished = list(takewhile(lambda trial: trial.is_finished, seen.trials))
        if self._opened is not None and self._added.issuperset(t.number for t in finished):
            return True
        if not self._lease.claim():
            return False
        try:
            with _errors(self._store.location), quiet():
                self._add(seen.study, finished)
        finally:
            self.close()
            self._lease.release()
        return True

    def _add(self, study: StudyRecord, finished: Sequence[TrialRecord]) -> None:
        theirs, trials = self._open(study.definition)
        # By our number: other programs may have added trials of their own.
        attributes = [trial.user_attrs for trial in trials]
        self._added = {one[NUMBER_KEY] for one in attributes if NUMBER_KEY in one}
        for trial in finished:
            if trial.number not in self._added:
                # This process may have been suspended meanwhile.
                if not self._lease.renew():
                    return
                theirs.add_trial(frozen_trial(study, trial))
                self._added.add(trial.number)

    def _open(self, definition: StudyDefinition) -> tuple[optuna.Study, list[FrozenTrial]]:
        """Optuna's study, made where it is missing, and its trials."""
        if self._opened is not None:
            # Another program may have deleted it.
            with suppress(KeyError):
                return self._opened, self._opened.get_trials(deepcopy=False)
        self.close()
        if not self._store.read(lambda connection: inspect(connection).has_table("studies")):
            self._store.write(create_tables)
        location = self._store.location
        url = writing_url(location).render_as_string(hide_password=False)
        self._storage = optuna.storages.RDBStorage(
            # Optuna fills the URL in as a format string.
            url.replace("{", "{{").replace("}", "}}"),
            engine_kwargs=engine_settings(location),
        )
        # Connections opened so far know nothing of our settings.
        self._storage.engine.dispose()
        prepare_writing(self._storage.engine, location)
        wanted = directions(definition)
        study = optuna.create_study(
            storage=self._storage, study_name=self._name, directions=wanted, load_if_exists=True
        )
        trials = study.get_trials(deepcopy=False)
        named = tuple(study.metric_names or ())
        if study.directions != wanted and not trials and named[: len(COMMON)] == COMMON:
            # Ours, which was given other objectives before its first trial.
            optuna.delete_study(study_name=self._name, storage=self._storage)
            return self._open(definition)
        ours = not trials or any(NUMBER_KEY in trial.user_attrs for trial in trials)
        if study.directions != wanted or not ours:
            raise StoreError(
                f'{location.shown} must not hold another program\'s study "{self._name}"; '
                "choose another --storage or study name"
            )
        study.set_metric_names(list(definition.objectives))
        self._opened = study
        return study, trials


def create_tables(connection: Connection) -> None:
    """Make Optuna's tables unless they are there, all of them or none."""
    # Its own are made one after the other on SQLite, each index after its table: one who is killed
    # between leaves names that are not unique for good. Nothing public makes them in a transaction
    # of ours.
    from optuna.storages._rdb.models import BaseModel

    BaseModel.metadata.create_all(connection)


@contextmanager
def _errors(location: Location) -> Iterator[None]:
    """As ``store_errors``, for errors that Optuna has wrapped."""
    with store_errors(location):
        try:
            yield
        except optuna.exceptions.StorageInternalError as error:
            # Its cause is an error of SQLAlchemy, always.
            raise error.__cause__ or error from error
        except (KeyError, RuntimeError, CommandError) as error:
            # The study was deleted there just now, or the tables are of another Optuna.
            cause = (str(error).splitlines() or [type(error).__name__])[0]
            raise StoreError(
                f"{location.shown} must have tables that Optuna {optuna.__version__} can use, "
                f"got: {cause}; install the Optuna that made them, or choose another --storage"
            ) from error
