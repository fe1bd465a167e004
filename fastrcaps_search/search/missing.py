"""Files of a study that are no longer where they are looked for: left behind, or gone."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from fastrcaps_search.disk import disk_errors
from fastrcaps_search.errors import UsageError
from fastrcaps_search.folders import is_url
from fastrcaps_search.search.files import kept, run_folder, study_folder
from fastrcaps_search.store.location import FILES_VARIABLE, locate
from fastrcaps_search.store.records import RunKey, StudyRecord
from fastrcaps_search.store.store import Store


def missing_files(store: Store, study: StudyRecord) -> Iterator[str]:
    """What somebody should know before the study goes on without files that it had.

    Files in a folder of another machine are not missed.

    Raises:
        DiskError: Object storage does not say what is there.
        UsageError: Trials would begin again whose checkpoints stand elsewhere on this machine,
            or in object storage, and no place was named.
    """
    here = store.location.place
    for (folder, is_there, has_ended), found in _missing(store, study).items():
        numbers = ", ".join(map(str, sorted(found)))
        advice = f"--files {folder} ({FILES_VARIABLE})"
        if is_there and not has_ended and here == locate(store.location.url).place:
            raise UsageError(
                f"{here} must hold the files of {study.name}, got none of trial {numbers}, which "
                f"are in {folder}: go on with them by {advice}, or move them; or begin these "
                "trials again with --files and a new folder"
            )
        where = f"are gone, they were in {folder}"
        if is_there:
            where = f"are in {folder}, not in {here}: name it with {advice}"
        if has_ended:
            yield f"the networks of trials {numbers} {where}"
        else:
            then = "go on if that can be read" if is_there else "begin again from epoch 1"
            yield f"the checkpoints of trials {numbers} {where}; these {then}"


def _missing(store: Store, study: StudyRecord) -> dict[tuple[str, bool, bool], set[int]]:
    """Numbers of trials by the place of files that they were in, whether they are there still.

    And by whether the run has ended: what is missing is a network, or else where to go on from.
    """
    location, seen = store.location, store.snapshot(study.name)
    is_here = _present(store, study)
    held = {lease.key for lease in seen.leases}
    found = defaultdict[tuple[str, bool, bool], set[int]](set)
    for number, run in ((trial.number, run) for trial in seen.trials for run in trial.runs):
        place, folder = run.files or "", run_folder(location, study, number, run.run)
        is_wanted = place and not run.removed and run.failure is None
        if not is_wanted or RunKey(number, run.run) in held:
            continue
        # What another URL has, is not asked: it may take credentials that nobody has named.
        is_there = place != location.place and (
            is_url(place) or _is_folder(Path(place, folder.relative_to(location.files)))
        )
        is_own = is_there or place == location.place or location.path is not None
        # One that has not ended had no file before its first epoch.
        if (
            is_own
            and not is_here(folder)
            and (run.has_ended or _has_epochs(store, study, number, run.run))
        ):
            found[place, is_there, run.has_ended].add(number)
    return found


def _present(store: Store, study: StudyRecord) -> Callable[[Path], bool]:
    """Whether the files of a run are where they are looked for, by the run's folder."""
    location, all_of_it = store.location, study_folder(store.location, study)
    if location.files_url is None:
        return _is_folder
    with disk_errors("files", location.place, advice="try again", must="readable"):
        found = kept(location, all_of_it).sizes()
    return {(all_of_it / path).parent for path in found}.__contains__


def _has_epochs(store: Store, study: StudyRecord, number: int, run: int) -> bool:
    (trial,) = store.trials(study, epochs=True, number=number)
    return any(epoch.run == run for epoch in trial.epochs)


def _is_folder(path: Path) -> bool:
    # The path's own method raises where one above it may not be entered.
    return os.path.isdir(path)  # noqa: PTH112
