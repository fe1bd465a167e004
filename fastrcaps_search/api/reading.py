"""What is stored, from Python; tables are pandas frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastrcaps_search.analysis.comparing import comparison_row
from fastrcaps_search.analysis.estimates import estimated, read_study
from fastrcaps_search.analysis.front import without_network
from fastrcaps_search.analysis.rows import choosable_rows, front_rows, trial_rows
from fastrcaps_search.analysis.summary import StudySummary, status_of
from fastrcaps_search.definition.load import StudyLike
from fastrcaps_search.front.criteria import Criteria, Preference
from fastrcaps_search.front.selection import select_row
from fastrcaps_search.search.again import run_line
from fastrcaps_search.search.configurations import configuration_count
from fastrcaps_search.store import setting_aside
from fastrcaps_search.store.holders import live_leases
from fastrcaps_search.store.location import chosen_location
from fastrcaps_search.store.reading import Snapshot
from fastrcaps_search.store.store import opened_study
from fastrcaps_search.typed import plain_numbers

if TYPE_CHECKING:
    import pandas as pd


def read_trials(study: StudyLike, *, storage: str | Path | None = None) -> pd.DataFrame:
    """Every trial of a stored study, a row each, with the columns of ``trials --json``.

    Nested columns are named ``params.decoder``, ``values.accuracy`` and so on.
    """
    seen = _stored(study, storage)
    return _frame(trial_rows(seen.trials, live_leases(seen.leases)))


def read_front(study: StudyLike, *, storage: str | Path | None = None) -> pd.DataFrame:
    """The trials on the front, with the columns of ``front --json``."""
    return _frame(front_rows(_stored(study, storage).trials))


def read_status(study: StudyLike, *, storage: str | Path | None = None) -> StudySummary:
    """Counts, hypervolume, time left, workers, and what is stuck."""
    location = chosen_location(storage)
    with opened_study(location, study) as (store, record):
        seen, signs = store.status(record.name)
    seen = replace(seen, trials=estimated(seen.trials, study=seen.study))
    possible = configuration_count(seen.study.definition)
    run = run_line(seen.study, location, storage)
    return status_of(seen, signs, possible=possible, run=run)


@plain_numbers
def select_trial(
    study: StudyLike,
    *,
    prefer: str = "accuracy",
    storage: str | Path | None = None,
    **bounds: float | None,
) -> dict[str, Any]:
    """The trial on the front that fits bounds and preference, as ``select --json`` prints it.

    Args:
        study: The study.
        prefer: ``accuracy``, ``time``, ``size``, ``knee`` or ``weights=a,t,p``, as for
            ``--prefer``.
        storage: Database, as for ``--storage``.
        bounds: ``min_accuracy``, a fraction from 0 to 1, ``max_seconds``, ``max_parameters``, and
            those of other objectives, named as the flags are.

    Returns:
        The trial's columns, nested as in the JSON, and ``why``.

    Raises:
        NothingFitsError: No trial on the front fits; it names the nearest ones.
        FastrcapsError: As the command would report it.
    """
    criteria = Criteria.of(bounds, Preference.read(prefer))
    return select_row(choosable_rows(_stored(study, storage).trials), criteria)


@plain_numbers
def exclude_trial(
    study: StudyLike,
    number: int,
    *,
    why: str,
    storage: str | Path | None = None,
) -> list[int]:
    """Set a complete trial aside, as ``trials --exclude`` does: off the front and all choices.

    Args:
        study: The study.
        number: Number of the trial.
        why: In one line; it is stored with the user's name, the machine's and the time.
        storage: Database, as for ``--storage``.

    Returns:
        Trials that are now on the front without a network to export.

    Raises:
        FastrcapsError: As the command would report it.
    """
    with opened_study(chosen_location(storage), study, writing=True) as (store, record):
        setting_aside.exclude(store, record, number, why=why)
        return without_network(read_study(store, record.name).trials)


@plain_numbers
def include_trial(study: StudyLike, number: int, *, storage: str | Path | None = None) -> None:
    """Take back a trial that was set aside, as ``trials --include`` does.

    Args:
        study: The study.
        number: Number of the trial.
        storage: Database, as for ``--storage``.

    Raises:
        FastrcapsError: As the command would report it.
    """
    with opened_study(chosen_location(storage), study, writing=True) as (store, record):
        setting_aside.include(store, record, number)


@plain_numbers
def compare_trials(
    study: StudyLike,
    first: int,
    second: int,
    *,
    storage: str | Path | None = None,
) -> dict[str, Any]:
    """How the networks of two complete trials differ on the evaluation images.

    Of each trial it is the run of highest accuracy, as ``export`` hands it out: the answer speaks
    of these two networks and of such images, not of their configurations.

    Returns:
        What ``compare --json`` prints: ``networks`` with ``trial``, ``run``, ``accuracy`` and
        ``only``, the number of images that only this one has right; ``difference`` of the
        accuracies, ``low`` and ``high`` of its 95 % interval, and ``p_value`` of McNemar's test.

    Raises:
        FastrcapsError: As the command would report it.
    """
    with opened_study(chosen_location(storage), study) as (store, record):
        return comparison_row(store, record, first, second)


def _stored(study: StudyLike, storage: str | Path | None) -> Snapshot:
    with opened_study(chosen_location(storage), study) as (store, record):
        return read_study(store, record.name)


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.json_normalize(rows)
