"""Optuna's own tables, kept equal to ours so that Optuna's tools can read the study.

Ours are the truth. Differences are mended in one direction, under the admission lock: a study or
trials that Optuna lacks are created, running ones that have ended here are told.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState
from sqlalchemy.exc import SQLAlchemyError

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.errors import StoreError
from fastrcaps_search.store.distributions import distributions
from fastrcaps_search.store.engine import BUSY_SECONDS, make_immediate, store_errors
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import StudyRecord, TrialRecord, TrialState

STATES = {
    TrialState.RUNNING: OptunaState.RUNNING,
    TrialState.COMPLETE: OptunaState.COMPLETE,
    TrialState.STOPPED: OptunaState.PRUNED,
    TrialState.FAILED: OptunaState.FAIL,
}
NUMBER_KEY = "fastrcaps:trial"
METRIC_NAMES_KEY = "study:metric_names"
"""System attribute in which Optuna keeps the names of the objectives."""


class Mirror:
    """Optuna's view of one database.

    Args:
        location: Where it is.
        create: Whether Optuna's tables may be missing and are to be made; the admission lock
            must be held.
    """

    def __init__(self, location: Location, *, create: bool = False) -> None:
        self.location = location
        with _errors(location), quiet():
            self.storage = optuna.storages.RDBStorage(
                location.url,
                engine_kwargs={"connect_args": {"timeout": BUSY_SECONDS}},
                skip_table_creation=not create,
            )
            # Connections opened so far know nothing of immediate transactions.
            self.storage.engine.dispose()
            make_immediate(self.storage.engine)

    def close(self) -> None:
        """Close all connections."""
        self.storage.scoped_session.remove()
        self.storage.engine.dispose()

    def create_study(self, name: str) -> int:
        """Create Optuna's study and return its id.

        A study that a killed process created without its definition is taken as it is.

        Raises:
            StoreError: Optuna has a study of that name with trials or other objectives.
        """
        directions = [
            StudyDirection.MAXIMIZE if objective.maximise else StudyDirection.MINIMIZE
            for objective in OBJECTIVES
        ]
        with _errors(self.location), quiet():
            try:
                study_id = self.storage.create_new_study(directions, name)
            except optuna.exceptions.DuplicatedStudyError:
                study_id = self.storage.get_study_id_from_name(name)
                if self.storage.get_study_directions(
                    study_id
                ) != directions or self.storage.get_n_trials(study_id):
                    raise StoreError(
                        f'{self.location.path} must not hold another program\'s study "{name}"; '
                        "choose another --storage or study name"
                    ) from None
            names = [objective.name for objective in OBJECTIVES]
            self.storage.set_study_system_attr(study_id, METRIC_NAMES_KEY, names)
        return int(study_id)

    def repair(self, study: StudyRecord, trials: Sequence[TrialRecord]) -> None:
        """Create what Optuna lacks and tell it what has ended; the admission lock must be held.

        A trial that another program has ended there keeps that end: Optuna allows no other.
        """
        with _errors(self.location), quiet():
            # By our number, not by Optuna's: another program may have added trials there.
            study_id = self._study_id(study.name)
            theirs = {
                trial.user_attrs.get(NUMBER_KEY): trial
                for trial in self.storage.get_all_trials(study_id, deepcopy=False)
            }
            for ours in trials:
                twin = theirs.get(ours.number)
                if twin is None:
                    self.storage.create_new_trial(study_id, frozen_trial(study, ours))
                elif twin.state is OptunaState.RUNNING and ours.is_finished:
                    self._tell(twin, ours)

    def _study_id(self, name: str) -> int:
        """Optuna's id of the study; it is created again where another program has deleted it."""
        try:
            return int(self.storage.get_study_id_from_name(name))
        except KeyError:
            return self.create_study(name)

    def _tell(self, theirs: FrozenTrial, ours: TrialRecord) -> None:
        for key, value in _attributes(ours).items():
            self.storage.set_trial_user_attr(theirs._trial_id, key, value)
        values = None if ours.values is None else list(ours.values.as_tuple())
        self.storage.set_trial_state_values(theirs._trial_id, STATES[ours.state], values)


def _attributes(trial: TrialRecord) -> dict[str, Any]:
    found: dict[str, Any] = {NUMBER_KEY: trial.number, "policy": trial.parameters.policy}
    if trial.failure is not None:
        found["reason"] = trial.failure.message[:500]
    return found


def frozen_trial(study: StudyRecord, trial: TrialRecord) -> FrozenTrial:
    """The trial as Optuna's, with its parameters and distributions."""
    known = distributions(study.definition)
    parameters = trial.parameters.to_dict()
    return create_trial(
        state=STATES[trial.state],
        values=None if trial.values is None else list(trial.values.as_tuple()),
        params=parameters,
        distributions={key: known[key] for key in parameters},
        user_attrs=_attributes(trial),
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's notes on new studies and experimental parts: no news to a user."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextmanager
def _errors(location: Location) -> Iterator[None]:
    """As ``store_errors``, for errors that Optuna has wrapped."""
    with store_errors(location):
        try:
            yield
        except optuna.exceptions.StorageInternalError as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise error.__cause__ from error
            raise StoreError(f"{location.path}: Optuna refused a request: {error}") from error
