"""Optuna's own tables, kept equal to ours so that Optuna's tools can read the study.

Ours are the truth. Differences are mended in one direction, under the admission lock: a study or
trials that Optuna lacks are created, running ones that have ended here are told.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import optuna
import sqlalchemy
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState
from sqlalchemy.exc import SQLAlchemyError

from fastrcaps_search.definition.objective import OBJECTIVES
from fastrcaps_search.errors import StoreError
from fastrcaps_search.store.distributions import distributions
from fastrcaps_search.store.engine import engine_settings, prepare_writing, writing_url
from fastrcaps_search.store.feasibility import violation
from fastrcaps_search.store.place import Location
from fastrcaps_search.store.records import Failure, StudyRecord, TrialRecord, TrialState
from fastrcaps_search.store.refusals import store_errors

STATES = {
    TrialState.RUNNING: OptunaState.RUNNING,
    TrialState.COMPLETE: OptunaState.COMPLETE,
    TrialState.STOPPED: OptunaState.PRUNED,
    TrialState.FAILED: OptunaState.FAIL,
}
NUMBER_KEY = "fastrcaps:trial"
REASON_KEY = "reason"
FEASIBLE_KEY = "feasible"
CONSTRAINTS_KEY = "constraints"
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
        # By number, whether the trial has ended there.
        self._seen: dict[int, bool] = {}
        url = writing_url(location, create=create).render_as_string(hide_password=False)
        with _errors(location), quiet():
            self.storage = optuna.storages.RDBStorage(
                # Optuna fills the URL in as a format string.
                url.replace("{", "{{").replace("}", "}}"),
                engine_kwargs=engine_settings(location),
                skip_table_creation=not create,
            )
            # Connections opened so far know nothing of our settings.
            self.storage.engine.dispose()
            prepare_writing(self.storage.engine, location)

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
                        f'{self.location.shown} must not hold another program\'s study "{name}"; '
                        "choose another --storage or study name"
                    ) from None
            names = [objective.name for objective in OBJECTIVES]
            self.storage.set_study_system_attr(study_id, METRIC_NAMES_KEY, names)
        return int(study_id)

    def repair(
        self,
        study: StudyRecord,
        trials: Sequence[TrialRecord],
        *,
        require_lock: Callable[[], None],
    ) -> None:
        """Create what Optuna lacks and tell it what has ended.

        A trial that another program has ended there keeps that end: Optuna allows no other.

        Args:
            study: The study.
            trials: All its trials.
            require_lock: Raises unless the study's admission lock is held; called before each
                write, for this process may have been suspended meanwhile.
        """
        if not self.lacks(trials):
            return
        with _errors(self.location), quiet():
            study_id = self._study_id(study.name)
            theirs = self._twins(study_id)
            for ours in trials:
                twins = theirs.get(ours.number, [])
                if not twins:
                    require_lock()
                    self.storage.create_new_trial(study_id, frozen_trial(study, ours))
                elif twins[0].state == OptunaState.RUNNING.name and ours.is_finished:
                    require_lock()
                    self._tell(twins[0].trial_id, study, ours)
                for copy in twins[1:]:
                    self._end_copy(copy)
                self._seen[ours.number] = ours.is_finished

    def lacks(self, trials: Sequence[TrialRecord]) -> bool:
        """Whether there is a trial whose beginning or end this process has not seen there."""
        return any(self._seen.get(trial.number) is not trial.is_finished for trial in trials)

    def _end_copy(self, copy: sqlalchemy.Row[Any]) -> None:
        """End a second row of one trial, made when the answer to the first was lost."""
        if copy.state == OptunaState.RUNNING.name:
            with suppress(optuna.exceptions.UpdateFinishedTrialError):
                self.storage.set_trial_state_values(copy.trial_id, OptunaState.FAIL)

    def _twins(self, study_id: int) -> dict[int, list[sqlalchemy.Row[Any]]]:
        """Optuna's rows of our trials: by our number, for other programs may have added some."""
        query = sqlalchemy.text(
            "SELECT t.trial_id, t.state, a.value_json FROM trials t "
            "JOIN trial_user_attributes a ON a.trial_id = t.trial_id AND a.key = :key "
            "WHERE t.study_id = :study_id ORDER BY t.trial_id"
        )
        with self.storage.engine.begin() as connection:
            rows = connection.execute(query, {"key": NUMBER_KEY, "study_id": study_id})
            found: dict[int, list[sqlalchemy.Row[Any]]] = {}
            for row in rows:
                found.setdefault(json.loads(row.value_json), []).append(row)
        return found

    def _study_id(self, name: str) -> int:
        """Optuna's id of the study; it is created again where another program has deleted it."""
        try:
            return int(self.storage.get_study_id_from_name(name))
        except KeyError:
            return self.create_study(name)

    def _tell(self, trial_id: int, study: StudyRecord, ours: TrialRecord) -> None:
        values = None if ours.means is None else list(ours.means.as_tuple())
        try:
            if ours.failure is not None:
                self.storage.set_trial_user_attr(trial_id, REASON_KEY, _reason(ours.failure))
            for key, value in frozen_trial(study, ours).system_attrs.items():
                self.storage.set_trial_system_attr(trial_id, key, value)
            self.storage.set_trial_state_values(trial_id, STATES[ours.state], values)
        except optuna.exceptions.UpdateFinishedTrialError:
            # By another program, just now.
            return
        # Optuna has taken the time from this machine's clock.
        ended = sqlalchemy.text("UPDATE trials SET datetime_complete = :at WHERE trial_id = :id")
        with self.storage.engine.begin() as connection:
            connection.execute(
                ended.bindparams(
                    sqlalchemy.bindparam("at", _utc(ours.finished_at), sqlalchemy.DateTime)
                ),
                {"id": trial_id},
            )


def _utc(seconds: float | None) -> datetime | None:
    """As Optuna's tables hold times."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _attributes(trial: TrialRecord) -> dict[str, Any]:
    found: dict[str, Any] = {NUMBER_KEY: trial.number, "policy": trial.parameters.policy}
    if trial.failure is not None:
        found[REASON_KEY] = _reason(trial.failure)
    return found


def _reason(failure: Failure) -> str:
    return failure.message[:500]


def frozen_trial(study: StudyRecord, trial: TrialRecord) -> FrozenTrial:
    """The trial as Optuna's, with its parameters, distributions and constraint.

    Args:
        study: The study.
        trial: The trial. What is infeasible, or has diverged, violates a constraint.
    """
    known = distributions(study.definition)
    parameters = trial.parameters.to_dict()
    broken = violation(study, trial)
    frozen = create_trial(
        state=STATES[trial.state],
        values=None if trial.means is None else list(trial.means.as_tuple()),
        params=parameters,
        distributions={key: known[key] for key in parameters},
        user_attrs=_attributes(trial),
        constraints=None if broken is None else {FEASIBLE_KEY: broken},
        # In the form of before Optuna 5, which optuna-dashboard reads (0.21 no other).
        system_attrs=None if broken is None else {CONSTRAINTS_KEY: [broken]},
    )
    frozen.datetime_start = datetime.fromtimestamp(trial.created_at)
    if trial.finished_at is not None:
        frozen.datetime_complete = datetime.fromtimestamp(trial.finished_at)
    return frozen


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
            raise StoreError(f"{location.shown}: Optuna refused a request: {error}") from error
