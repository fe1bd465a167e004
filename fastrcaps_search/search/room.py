"""How much room a study's files take, wherever its runs were told to keep them."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastrcaps_search.errors import UsageError
from fastrcaps_search.folders import Folder, is_url
from fastrcaps_search.processes import start_thread
from fastrcaps_search.search.again import asked_files
from fastrcaps_search.search.files import kept, study_folder
from fastrcaps_search.store.location import Location
from fastrcaps_search.store.records import StudyRecord
from fastrcaps_search.store.trials import TrialRecord

ANSWER_SECONDS = 3.0
"""How long disks and object storage have to say it, all at once."""
NOT_HERE = "no such folder on this machine"


@dataclass(frozen=True, slots=True)
class Room:
    """What a study's files take in one place.

    Attributes:
        place: Folder or URL of the study's files.
        bytes: All of them together; ``None`` where that is unknown.
        reason: Why it is.
    """

    place: str
    bytes: int | None
    reason: str | None = None


def used_room(
    location: Location, study: StudyRecord, trials: Sequence[TrialRecord], *, is_named: bool
) -> tuple[Room, ...]:
    """The room that a study's files take, in each of their places.

    Args:
        location: Its database and files.
        study: The study.
        trials: Its trials.
        is_named: Whether the place of the files was named: no other is looked at then.
    """
    has_begun = any(run.files for trial in trials for run in trial.runs)
    folders = dict(_folders(location, study, trials, is_named=is_named))
    answers: queue.Queue[tuple[str, Room]] = queue.Queue()
    for place, folder in folders.items():
        start_thread(lambda at, of: answers.put((at, _room(of, has_begun))), place, folder)
    late = f"no answer within {ANSWER_SECONDS:g} s"
    found = {place: Room(str(folder), None, late) for place, folder in folders.items()}
    end = time.monotonic() + ANSWER_SECONDS
    for _ in folders:
        try:
            place, room = answers.get(timeout=max(end - time.monotonic(), 0.0))
        except queue.Empty:
            break
        found[place] = room
    return tuple(found.values())


def _folders(
    location: Location, study: StudyRecord, trials: Sequence[TrialRecord], *, is_named: bool
) -> Iterator[tuple[str, Folder]]:
    """Where to look, by place."""
    known = {run.files for trial in trials for run in trial.runs if run.files}
    if not known and (asked := asked_files(study)):
        known = {asked}
    own = kept(location, study_folder(location, study))
    # A database that was moved has its files beside it, and old runs where they once were.
    if is_named or not known or location.place in known or os.path.isdir(str(own)):  # noqa: PTH112
        yield location.place, own
    if is_named:
        return
    for place in sorted(known - {location.place}):
        there = replace(location, files_url=place)
        if not is_url(place):
            there = replace(location, files=Path(place), files_url=None)
        yield place, kept(there, study_folder(there, study))


def _room(folder: Folder, has_begun: bool) -> Room:
    try:
        sizes = folder.sizes()
    except PermissionError as error:
        return Room(str(folder), None, f"for want of permission ({error.strerror})")
    except (OSError, UsageError) as error:
        return Room(str(folder), None, getattr(error, "strerror", None) or str(error))
    is_missing = not (sizes or is_url(str(folder)) or os.path.isdir(str(folder)))  # noqa: PTH112
    if is_missing and has_begun:
        return Room(str(folder), None, NOT_HERE)
    return Room(str(folder), sum(sizes.values()))
